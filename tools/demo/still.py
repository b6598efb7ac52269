#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demonstration that needs nothing: weir-filter between weir-traffic's clients and servers, over two shared-memory
ports (DPDK's memif). No NIC, no kernel interface, no Redis, no hugepages, no privileges.

Usage: still.py BUILD SECONDS (3 or more: limits are counted by the clock's whole seconds)
"""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from programs import Failed, Program, cores, eal_environment, end_in_order, exit_status, figures, filter_totals

CONFIGURATION = """\
# One node, no store to share with; the machine may have other things to do, so an idle worker sleeps.
[node]
name = "quickstart"
idle_sleep = "50us"

[ports]
pairs = [[0, 1]]

# Guessing passwords: 20 a second from one address, then that address is out for 3 seconds.
[[rule]]
name = "login"
match = { method = "POST", path = "/login" }
key = ["src_ip/32"]
limit = 20
interval = "1s"
cooldown = "3s"
action = "reply-429"

# Fair shares of the API, whatever the address: 100 a second for each API key.
[[rule]]
name = "api"
match = { path = "/api/users/{id}" }
key = ["header:x-api-key"]
limit = 100
interval = "1s"
action = "reply-429"

# The search engine behind it can do 100 a second, for everybody together; the rest is cut off.
[[rule]]
name = "search"
match = { path = "/search" }
limit = 100
interval = "1s"
action = "reset"

# Nobody comes near this one: it shows what a route looks like that is left alone.
[[rule]]
name = "static"
match = { path = "/static/**" }
limit = 100000
interval = "1s"
"""

RULES = ("login", "api", "search", "static")


def memif(side, role, folder):
    return (
        f"--vdev=net_memif{0 if side == 'clients' else 1},role={role},socket={folder}/{side}.sock,"
        f"socket-abstract=no,id=0"
    )


def eal(prefix, memory, lcores, folder, role):
    return [
        "--log-level=error",
        "--no-huge",
        "--no-shconf",
        "--no-pci",
        "-m",
        str(memory),
        "--file-prefix",
        prefix,
        "--lcores",
        lcores,
        memif("clients", role, folder),
        memif("servers", role, folder),
    ]


class Table:
    """Shows weir-filter's table: redrawn in place on a terminal, one block after the other elsewhere."""

    def __init__(self):
        self._terminal = sys.stdout.isatty()
        self._on = True

    def line(self, text):
        if text.startswith("total ") or text.startswith("weir-filter:"):
            return
        if text.startswith("up ") and self._terminal:
            sys.stdout.write(
                "\033[H\033[J" + "weir-filter, live (offered, admitted, blocked: requests so far)\n\n"
            )
        if self._on:
            print(text, flush=True)

    def off(self):
        self._on = False


def main():
    build, seconds = pathlib.Path(sys.argv[1]).resolve(), float(sys.argv[2])
    main_core, worker_core = cores()
    with tempfile.TemporaryDirectory(prefix="weir-quickstart-") as folder:
        configuration = pathlib.Path(folder, "weir.toml")
        configuration.write_text(CONFIGURATION, encoding="utf-8")
        print("The configuration:\n")
        for line in CONFIGURATION.splitlines():
            print(f"    {line}")
        print(
            f"\nClients ask and servers answer for {seconds:g} s, with weir-filter between them:\n",
            flush=True,
        )

        table = Table()
        programs = []
        try:
            node = Program(
                [
                    str(build / "app/filter/weir-filter"),
                    *eal(
                        f"weir-filter-{os.getpid()}", 256, f"0@{main_core},1@{worker_core}", folder, "server"
                    ),
                    "--",
                    "--config",
                    str(configuration),
                    "--live",
                ],
                on_line=table.line,
                env=eal_environment(folder),
            )
            programs.append(node)
            node.wait_for_line(r"queues per port", 30)
            traffic = Program(
                [
                    str(build / "tools/weir-traffic/weir-traffic"),
                    *eal(f"weir-traffic-{os.getpid()}", 64, f"0@{main_core}", folder, "client"),
                    "--",
                    "--seconds",
                    str(seconds),
                ],
                env=eal_environment(folder),
            )
            programs.append(traffic)
            status = traffic.finish(seconds + 60)
            table.off()
            node_status = node.stop()
        finally:
            for program in programs:
                program.kill()
        good = report(traffic.lines, filter_totals(node.lines)["rules"], status)
        if node_status != 0:
            print(f"weir-filter ended with status {node_status}:\n{node.output()}")
            good = False
    return 0 if good else 1


def report(lines, rules, traffic_status):
    crowds = [figures(line) for line in lines if line.startswith("crowd ")]
    routes = {
        line_figures["name"]: line_figures
        for line_figures in (figures(line) for line in lines if line.startswith("route "))
    }
    packets = next((figures(line) for line in lines if line.startswith("packets ")), None)
    if packets is None:
        print("weir-traffic did not finish its report; it said:\n" + "\n".join(lines))
        return False

    print("\nWhat the clients and servers saw on the wire\n")
    print(
        f"    {'route':8} {'who':12} {'addresses':29} {'asked':>7} {'passed':>7} {'got 429':>8} {'cut off':>8}"
    )
    for crowd in crowds:
        print(
            f"    {crowd['name']:8} {crowd['who']:12} {crowd['source']:29} {crowd['sent']:7} {crowd['arrived']:7} "
            f"{crowd['limited']:8} {crowd['reset']:8}"
        )

    print("\nDoes it add up? weir-filter's own count, against what was seen on the wire\n")
    claims = []
    for name in RULES:
        rule, route = rules.get(name), routes.get(name)
        if rule is None or route is None:
            claims.append((False, f"{name}: no figures"))
            continue
        refused = route["limited"] + route["reset"] + route["unanswered"]
        claims.append(
            (
                (rule["offered"], rule["admitted"], rule["blocked"])
                == (route["sent"], route["arrived"], refused),
                f"{name}: offered {rule['offered']}, sent {route['sent']}; admitted {rule['admitted']}, arrived "
                f"{route['arrived']}; blocked {rule['blocked']}, refused {refused}",
            )
        )
    by_who = {(crowd["name"], crowd["who"]): crowd for crowd in crowds}
    noisy, calm = by_who[("login", "noisy")], by_who[("login", "calm")]
    greedy, others = by_who[("api", "greedy-key")], by_who[("api", "other-keys")]
    claims += [
        (
            noisy["limited"] > 0 and greedy["limited"] > 0 and routes["search"]["reset"] > 0,
            "who asked too much was refused: the noisy address, the greedy API key, the search beyond its limit",
        ),
        (
            calm["arrived"] == calm["sent"] and others["arrived"] == others["sent"],
            f"their neighbours were not: {calm['arrived']} of {calm['sent']} calm logins and {others['arrived']} of "
            f"{others['sent']} requests with other API keys passed",
        ),
        (
            all(routes[name]["answered"] == routes[name]["sent"] > 0 for name in ("static", "health")),
            f"other routes did not notice: {routes['static']['answered']} static files and {routes['health']['answered']} "
            f"health checks, all answered",
        ),
        (
            packets["other_arrived"] == packets["other_sent"]
            and packets["lost"]
            + packets["reordered"]
            + packets["altered"]
            + packets["bad_replies"]
            + packets["unsent"]
            == 0
            and traffic_status == 0,
            f"{packets['other_arrived']} of {packets['other_sent']} packets that are no request (handshakes, answers, TLS, "
            f"UDP, ping, ARP) arrived, every byte as it was and in order",
        ),
    ]
    for good, text in claims:
        print(f"    {'ok ' if good else 'NO '} {text}")
    good = all(claim for claim, _ in claims)
    if not good:
        print("\n".join(["", "weir-traffic said:", *lines]))

    print(
        f"""
{'All of it holds.' if good else 'Something above does NOT hold.'}

What to try next
    tools/quickstart --live        two nodes sharing one limit through Redis, with nginx, wrk and curl
    tools/quickstart --seconds 60  the same, longer
    README.md                      how to write rules, run weir-filter on a real NIC, embed the library
    tools/test                     every test there is
"""
    )
    return good


if __name__ == "__main__":
    end_in_order()
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"quickstart: {failure}")
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_status(interrupt))
