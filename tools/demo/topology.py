# SPDX-License-Identifier: BSD-3-Clause
"""A small internet in network namespaces: clients, two weir-filter nodes, and an nginx behind them; one Redis.

      client namespace        node namespace             server namespace
      10.71.1.1 … .20  ────── x0 [weir-filter a] x1 ──────  10.71.1.100
                                       │ Redis (unix socket)          nginx :80
      10.71.2.1 … .20  ────── x0 [weir-filter b] x1 ──────  10.71.2.100

Each node is a bump in the wire between two veth ends of its namespace. Needs root. Everything is named after this
process and goes with it: close() ends all programs by their ids and removes the namespaces. Where it was killed before it
could, its programs end by themselves, and who comes next removes the namespaces.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from programs import Failed, Program, cores, eal_environment, wait_until

NODES = {"a": 1, "b": 2}
NAMESPACES = ("client", "server", *NODES)
CLIENT_ADDRESSES = 20

NGINX = """\
daemon off;
worker_processes 1;
user root;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
events {{ worker_connections 1024; }}
http {{
  # One line a request, written at once: what the server saw, and when.
  log_format counted '$msec $server_addr $remote_addr $request_method $uri $status key=$http_x_api_key';
  access_log {folder}/access.log counted;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  keepalive_requests 100000;
  server {{
    listen 80 reuseport;
    default_type text/plain;
    root {folder}/www;
    location /api/ {{ return 200 "answer\\n"; }}
    location = /login {{ return 200 "welcome\\n"; }}
  }}
}}
"""


def run(*command, check=True):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done


def server_address(node):
    return f"10.71.{NODES[node]}.100"


def client_address(node, number=1):
    return f"10.71.{NODES[node]}.{number}"


def namespaces():
    """The names of all there are."""
    return [line.split()[0] for line in run("ip", "netns", "list").stdout.splitlines() if line.strip()]


def remove_stale_namespaces():
    """Those of a process that was killed: it is gone, and nothing runs in them."""
    for name in namespaces():
        owner = re.fullmatch(rf"weir-(\d+)-({'|'.join(NAMESPACES)})", name)
        if (
            owner
            and not pathlib.Path("/proc", owner[1]).exists()
            and not run("ip", "netns", "pids", name, check=False).stdout.strip()
        ):
            run("ip", "netns", "delete", name, check=False)


class Topology:
    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-net-"))
        self.redis_socket = self.folder / "redis.sock"
        self.redis_process = None
        self._prefix = f"weir-{os.getpid()}"
        self._namespaces = []
        self._programs = []
        self._starts = 0
        try:
            self._build_links()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def namespace(self, name):
        return f"{self._prefix}-{name}"

    def inside(self, name, *command):
        """A command line that runs a command in a namespace."""
        return ["ip", "netns", "exec", self.namespace(name), *map(str, command)]

    def _build_links(self):
        remove_stale_namespaces()
        for name in NAMESPACES:
            run("ip", "netns", "add", self.namespace(name))
            self._namespaces.append(self.namespace(name))
            for which in ("all", "default"):
                self._set(name, f"net/ipv6/conf/{which}/disable_ipv6", "1")
            run(*self.inside(name, "ip", "link", "set", "lo", "up"))
        # Ends of answered connections stay in TIME_WAIT; one address must be able to come back soon.
        self._set("client", "net/ipv4/tcp_tw_reuse", "1")
        self._set("client", "net/ipv4/ip_local_port_range", "2000 65000")
        for node, number in NODES.items():
            for end, other, at, address in (
                ("client", "x0", f"c{number}", client_address(node)),
                ("server", "x1", f"s{number}", server_address(node)),
            ):
                run(
                    "ip",
                    "link",
                    "add",
                    at,
                    "netns",
                    self.namespace(end),
                    "type",
                    "veth",
                    "peer",
                    "name",
                    other,
                    "netns",
                    self.namespace(node),
                )
                run(*self.inside(end, "ip", "address", "add", f"{address}/24", "dev", at))
                for place, device in ((end, at), (node, other)):
                    # A frame must leave its end whole: with its checksum, and no longer than the wire allows.
                    for offload in ("rx", "tx", "sg", "tso", "gso", "gro"):
                        run(*self.inside(place, "ethtool", "-K", device, offload, "off"), check=False)
                    run(*self.inside(place, "ip", "link", "set", device, "up"))
            for extra in range(2, CLIENT_ADDRESSES + 1):
                run(
                    *self.inside(
                        "client",
                        "ip",
                        "address",
                        "add",
                        f"{client_address(node, extra)}/24",
                        "dev",
                        f"c{number}",
                    )
                )

    def _set(self, name, setting, value):
        run(
            *self.inside(
                name, "sh", "-c", f"test ! -e /proc/sys/{setting} || echo {value} >/proc/sys/{setting}"
            )
        )

    def start(self, command, **options):
        program = Program([str(word) for word in command], **options)
        self._programs.append(program)
        return program

    def start_redis(self):
        """Starts the store; after a kill, an empty one at the same address."""
        if self.redis_socket.exists():
            self.redis_socket.unlink()
        self.redis_process = self.start(
            [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                self.redis_socket,
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                self.folder,
                "--daemonize",
                "no",
            ]
        )
        wait_until(lambda: self.redis("PING") == "PONG", 20, "redis-server answers")
        return self.redis_process

    def redis(self, *words):
        """One command over a connection of its own; None while there is no answer. Lists, numbers and strings."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10)
                connection.connect(str(self.redis_socket))
                message = f"*{len(words)}\r\n" + "".join(f"${len(str(w).encode())}\r\n{w}\r\n" for w in words)
                connection.sendall(message.encode())
                return _read_reply(connection.makefile("rb"))
        except OSError:
            return None

    def counters(self, prefix="weir"):
        """The counters in the store: {(rule and value, ordinal): count}."""
        found = {}
        for name in self.redis("KEYS", f"{prefix}:*") or []:
            # prefix:{partition}:interval:ordinal is a hash of counters; what nodes tell each other has a '~'.
            fields = self.redis("HGETALL", name) or []
            for key, count in zip(fields[::2], fields[1::2]):
                if "~" not in key:
                    found[(key, int(name.rpartition(":")[2]))] = int(count)
        return found

    def start_nginx(self, files=None):
        """Starts the server; `files`: {name: bytes} below its root."""
        root = self.folder / "www"
        root.mkdir()
        for name, content in (files or {}).items():
            (root / name).write_bytes(content)
        configuration = self.folder / "nginx.conf"
        configuration.write_text(NGINX.format(folder=self.folder), encoding="utf-8")
        nginx = self.start(
            self.inside("server", "nginx", "-e", f"{self.folder}/nginx-error.log", "-c", configuration),
            name="nginx",
        )
        answers = self.inside("server", "curl", "-s", "-o", "/dev/null", "http://127.0.0.1/ready")
        wait_until(lambda: run(*answers, check=False).returncode == 0, 20, "nginx answers")
        return nginx

    def accesses(self):
        """What nginx has answered: a list of (time, node, client address, method, path, status, API key)."""
        nodes = {server_address(node): node for node in NODES}
        found = []
        with open(self.folder / "access.log", encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.rstrip("\n").split(" ")
                if line.endswith("\n") and len(words) == 7:
                    found.append(
                        (
                            float(words[0]),
                            nodes.get(words[1], "-"),
                            words[2],
                            words[3],
                            words[4],
                            int(words[5]),
                            words[6].removeprefix("key="),
                        )
                    )
        return found

    def start_node(self, node, rules, store='timeout = "50ms"', statistics="500ms", extra=()):
        """Starts weir-filter in its namespace and waits until it forwards to nginx, which must be running."""
        self._starts += 1
        configuration = self.folder / f"node-{node}.toml"
        configuration.write_text(
            f'[node]\nname = "{node}"\nidle_sleep = "50us"\nstatistics = "{statistics}"\n\n'
            f'[store]\nurl = "redis+unix://{self.redis_socket}"\n{store}\n\n[ports]\npairs = [[0, 1]]\n\n{rules}',
            encoding="utf-8",
        )
        main_core, worker_core = cores()
        program = self.start(
            self.inside(
                node,
                self.build / "app/filter/weir-filter",
                "--log-level=error",
                "--no-huge",
                "--no-shconf",
                "--no-pci",
                "-m",
                "256",
                "--file-prefix",
                f"{self._prefix}-{node}-{self._starts}",
                "--lcores",
                f"0@{main_core},1@{worker_core}",
                "--vdev=net_af_packet0,iface=x0",
                "--vdev=net_af_packet1,iface=x1",
                "--",
                "--config",
                configuration,
                *extra,
            ),
            name=f"weir-filter {node}",
            env=eal_environment(self.folder),
        )
        program.wait_for_line(r"queues per port", 30)
        wait_until(
            lambda: self.curl(node, "/ready", "-o", "/dev/null", "--connect-timeout", "1").returncode == 0,
            20,
            f"node {node} forwards",
        )
        return program

    def curl(self, node, path, *options, source=1):
        """Runs curl against a node's side of the server; returns the finished process."""
        return run(
            *self.inside(
                "client",
                "curl",
                "-sS",
                "--max-time",
                "20",
                "--interface",
                client_address(node, source),
                *options,
                f"http://{server_address(node)}{path}",
            ),
            check=False,
        )

    def close(self):
        # A second Ctrl-C must not leave namespaces behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            try:
                signal.signal(number, signal.SIG_IGN)
            except ValueError:  # not on this thread
                pass
        for program in reversed(self._programs):
            program.kill()
        for namespace in self._namespaces:
            run("ip", "netns", "delete", namespace, check=False)
        self._programs, self._namespaces = [], []
        shutil.rmtree(self.folder, ignore_errors=True)


def _read_reply(stream):
    line = stream.readline().decode().rstrip("\r\n")
    kind, rest = line[:1], line[1:]
    if kind == "*":
        return [_read_reply(stream) for _ in range(int(rest))]
    if kind == "$":
        if rest == "-1":
            return None
        return stream.read(int(rest) + 2)[:-2].decode(errors="replace")
    return int(rest) if kind == ":" else rest
