# SPDX-License-Identifier: BSD-3-Clause
"""What nginx's limit_req and HAProxy's stick-table add to a request, in the server's processor time."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from common import Failed, find_program, median, number, process_cpu, run, run_json, spread, table, those_that_add_up
from plot import bars

TITLE = "What others take for a limit"
TARGETS = ("bench/decision/bench-decision",)
CLIENTS = 10_000  # different keys
SIZES = (1000, 100_000)  # nginx's keys lie between
AIM = 100
NGINX_NAME, HAPROXY_NAME = SERVERS = ("nginx limit_req", "HAProxy stick-table")
# What of weir stands beside what they add: the contender of bench-decision, and what it does, in short and in full.
DECISIONS = {
    "weir_key": ("decision", "a decision: the key at hand is found, decided, counted"),
    "weir_one_rule": ("request", "a request under one rule: its header found, matched, hashed, decided, counted"),
}

NGINX = """
daemon off; master_process off; worker_processes 1;
error_log {folder}/error.log crit; pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 60s;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d;
  scgi_temp_path {folder}/e;
  limit_req_zone $http_x_api_key zone=open:16m rate=100000r/s;
  limit_req_zone $http_x_api_key zone=closed:1m rate=1r/m;
  server {{
    listen 127.0.0.1:{port};
    location /free {{ empty_gif; }}
    location /limited {{ limit_req zone=open burst=1000000 nodelay; empty_gif; }}
    location /closed {{ limit_req zone=closed; empty_gif; }}
  }}
}}
"""

HAPROXY = """
global
  nbthread 1
defaults
  mode http
  timeout client 60s
  timeout connect 1s
  timeout server 1s
  timeout http-keep-alive 60s
frontend free
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain string ok
frontend limited
  bind 127.0.0.1:{limited}
  stick-table type string len 32 size 100k expire 30s store http_req_rate(1s)
  http-request track-sc0 req.hdr(x-api-key)
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000 }}
  http-request return status 200 content-type text/plain string ok
frontend closed
  bind 127.0.0.1:{closed}
  stick-table type string len 32 size 1k expire 30s store http_req_rate(30s)
  http-request track-sc0 req.hdr(x-api-key)
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1 }}
  http-request return status 200 content-type text/plain string ok
"""

DEPTH = 16
# So many requests at once: what is left of a request is then the server's work on it, less the system's for a packet.
# Every key comes once, in an order drawn by lot, before any comes again.
SCRIPT = """
local keys, depth, batches, at = %d, %d, {}, 0
function init()
  math.randomseed(1)
  local order = {}
  for i = 1, keys do order[i] = i end
  for i = keys, 2, -1 do
    local j = math.random(i)
    order[i], order[j] = order[j], order[i]
  end
  for i = 1, keys, depth do
    local batch = {}
    for j = i, i + depth - 1 do batch[#batch + 1] = wrk.format("GET", nil, {["X-Api-Key"] = "user-" .. order[j]}) end
    batches[#batches + 1] = table.concat(batch)
  end
end
function request()
  at = at %% #batches + 1
  return batches[at]
end
""" % (CLIENTS, DEPTH)
assert CLIENTS % DEPTH == 0


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def status(url):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"X-Api-Key": "probe"}), timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class Server:
    """A server in one process, on the last processor. urls: free, limited, and closed after the first request."""

    def __init__(self, name, command, urls):
        self.name, self.urls = name, urls
        cpus = sorted(os.sched_getaffinity(0))
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {cpus[-1]}),
        )
        try:
            self._check()
        except BaseException:
            self.end()
            raise

    def _check(self):
        """It answers, and its limits are in force."""
        deadline = time.monotonic() + 10
        while True:
            try:
                answers = [status(self.urls[kind]) for kind in ("free", "limited")]
                break
            except OSError:
                if self._process.poll() is not None:
                    raise Failed(f"{self.name} does not start: {self._process.stderr.read()[-1500:]}") from None
                if time.monotonic() > deadline:
                    raise Failed(f"{self.name} does not answer") from None
                time.sleep(0.05)
        closed = [status(self.urls["closed"]) for _ in range(3)]
        if answers != [200, 200] or closed[0] != 200 or closed[2] < 400:
            raise Failed(f"{self.name}: answers {answers}, with a limit of one {closed}: its configuration does not limit")

    def cpu_per_request(self, kind, script, seconds):
        """Seconds of the server's processor time for each of wrk's requests."""
        before = process_cpu(self._process.pid)
        text = run("taskset", "-c", sorted(os.sched_getaffinity(0))[0], find_program("wrk"), "-t1", "-c8", f"-d{seconds}s",
                   "-s", script, self.urls[kind])
        used = process_cpu(self._process.pid) - before
        count = re.search(r"(\d+) requests in", text)
        if not count or not int(count[1]) or "Non-2xx" in text or "Socket errors" in text:
            raise Failed(f"{self.name}, {kind}: wrk says\n{text}")
        return used / int(count[1])

    def end(self):
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def nginx(folder):
    (port,) = free_ports(1)
    path = folder / "nginx.conf"
    path.write_text(NGINX.format(folder=folder, port=port), encoding="utf-8")
    base = f"http://127.0.0.1:{port}"
    return Server(NGINX_NAME, [find_program("nginx"), "-p", folder, "-c", path, "-e", folder / "error.log"],
                  {kind: f"{base}/{kind}" for kind in ("free", "limited", "closed")})


def haproxy(folder):
    ports = free_ports(3)
    path = folder / "haproxy.cfg"
    path.write_text(HAPROXY.format(port=ports[0], limited=ports[1], closed=ports[2]), encoding="utf-8")
    urls = {kind: f"http://127.0.0.1:{port}/" for kind, port in zip(("free", "limited", "closed"), ports)}
    return Server(HAPROXY_NAME, [find_program("haproxy"), "-db", "-q", "-f", path], urls)


def decide(context, sizes):
    """A turn of weir's, as long as an interval, so that the end of one is in it."""
    decisions = run_json(context.build / TARGETS[0], "--contenders", ",".join(DECISIONS), "--keys", ",".join(map(str, sizes)),
                         "--rounds", 1, "--seconds", 0.02 if context.quick else 1)
    return [each for each in decisions["runs"] if "wrong" in each or each["drawn"] == "uniform"]


def serve(server, kinds, script, seconds):
    """A server's turn: its time for each request, in ns."""
    try:
        return {kind: server.cpu_per_request(kind, script, seconds) * 1e9 for kind in kinds}
    except Failed as failed:
        return {"wrong": " ".join(str(failed).split())[:200]}


def measure(context):
    rounds, seconds = (2, 1) if context.quick else (9, 1)
    sizes = SIZES[:1] if context.quick else SIZES
    pairs, decisions = [], []
    with_servers = find_program("wrk")
    if not with_servers:
        context.leave_out("nginx and HAProxy", "wrk, their client, is not installed")
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        script = folder / "requests.lua"
        script.write_text(SCRIPT, encoding="utf-8")
        servers = []
        for make in (nginx, haproxy) if with_servers else ():
            if find_program(make.__name__):
                servers.append(make(folder))
                stack.callback(servers[-1].end)
            else:
                context.leave_out(make.__name__, "not installed")
        for turn in range(rounds):
            decisions += decide(context, sizes)
            for server in servers:
                kinds = ("free", "limited") if turn % 2 == 0 else ("limited", "free")
                pairs.append({"server": server.name, **serve(server, kinds, script, seconds)})
    figures = {"servers": {}, "weir": {name: {size: [] for size in sizes} for name in DECISIONS}}
    for pair in those_that_add_up(pairs, context, lambda pair: pair["server"]):
        figures["servers"].setdefault(pair["server"], []).append({kind: pair[kind] for kind in ("free", "limited")})
    for each in those_that_add_up(decisions, context, lambda each: f"weir's {DECISIONS[each['contender']][0]}, {each['keys']:,} keys"):
        figures["weir"][each["contender"]][each["keys"]].append(each["ns"])
    for name, of_sizes in figures["weir"].items():
        for size, times in of_sizes.items():
            if not times:
                raise Failed(f"bench-decision: no turn of {name} with {size:,} keys adds up")
    return figures


def report(figures, context, aims):
    weir = {name: {int(size): median(times) for size, times in of_sizes.items()} for name, of_sizes in figures["weir"].items()}
    columns = [(name, size) for name in DECISIONS for size in sorted(weir[name])]
    rows, names, values = [], [], []
    for server in SERVERS:
        pairs = figures["servers"].get(server, [])
        middle = median([pair["limited"] - pair["free"] for pair in pairs]) if pairs else None
        for name, size in columns:
            aims.at_least(f"{server}, added / weir's {DECISIONS[name][0]}", f"{size:,} keys", middle / weir[name][size] if pairs else None, AIM)
        if not pairs:
            continue
        free, limited = (median([pair[kind] for pair in pairs]) for kind in ("free", "limited"))
        added = [pair["limited"] - pair["free"] for pair in pairs]
        rows.append((server, number(free), number(limited), f"{number(middle)} ({' … '.join(number(v) for v in spread(added))})",
                     *(f"{middle / weir[name][size]:.0f}" for name, size in columns)))
        names.append(server)
        values.append([middle, free])
    for name, size in columns:
        rows.append((f"**weir**, {DECISIONS[name][1]}; {size:,} keys", "", "", number(weir[name][size]),
                     *("1" if other == (name, size) else "" for other in columns)))
    parts = [
        f"Processor time of the server for a request, ns: keep-alive on loopback, {CLIENTS:,} different keys in a header, each once "
        f"before any comes again, in an order drawn by lot, {DEPTH} requests at once (so that the system's work for a packet is "
        "shared by them). With and without the limit in turns; added: the median of "
        "the differences between neighbours (half of them). weir takes its turn in each round.",
        "What the servers add is more than to decide: to find the header among the request's and to make the key of it (nginx hashes "
        "it), to lock the table that their processes or threads share, to find the entry in its tree, to bring its rate up to date "
        "by the clock, to unlock; HAProxy then also evaluates a rule that asks for the rate. (To read and parse the request is in "
        "both of their columns, so not in what is added.) weir's *request* is the like of that: a burst of requests whose headers "
        "have been parsed, as a parser hands them over. weir's *decision* begins where the key has been hashed, with a flow or a "
        "session for example, and is to find it, to see whether it may pass and to count it: *a key at hand* in the section on "
        "decisions. (weir takes 32 at once, and of its requests' headers there is one; the servers have one process or thread, so "
        "nobody waits for a lock.) Neither has the parsing of a packet in it, which the section on weir-filter shows.",
        table(("ns per request", "without", "with the limit", "added",
               *(f"× weir's {DECISIONS[name][0]}, {size:,} keys" for name, size in columns)), rows),
    ]
    if names:
        ours = [f"weir's {DECISIONS[name][0]}, {size:,} keys" for name, size in columns]
        svg = bars("Processor time of a limit", "ns per request, logarithmic", [*names, *ours],
                   ["added by the limit", "the request without it"], [*values, *([weir[name][size], None] for name, size in columns)],
                   logarithmic=True)
        parts.append(context.plot("gateways", svg))
    return parts
