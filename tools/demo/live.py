#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demonstration for real: two weir-filter nodes in front of nginx, one Redis, wrk and curl as clients.

Usage: live.py BUILD SECONDS (5 or more)
"""

import collections
import hashlib
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from programs import Failed, end_in_order, exit_status, figures, filter_totals, wait_until
from topology import NODES, Topology, server_address

LIMIT = 300
SPAN = 0.1
CONNECTIONS = 12
COOLDOWN = 3

RULES = f"""\
# {LIMIT} a second for each API key, wherever its requests come in.
[[rule]]
name = "api"
match = {{ path = "/api/{{item}}" }}
key = ["header:x-api-key"]
limit = {LIMIT}
interval = "1s"
spans = 10
cooldown = "1s"
action = "reply-429"

# 5 attempts a second from one address, then it waits {COOLDOWN} s.
[[rule]]
name = "login"
match = {{ method = "POST", path = "/login" }}
key = ["src_ip/32"]
limit = 5
interval = "1s"
cooldown = "{COOLDOWN}s"
action = "reply-429"
"""

# wrk asks again at once; a pause makes its connections behave like a crowd of clients.
PACE = "function delay() return 20 + math.random(10) end\n"


def last_statistics(program):
    for line in reversed(program.lines):
        if line.startswith("time="):
            return figures(line)
    return {"requests": 0, "blocked": 0, "sync_rtt_us": 0}


def show_seconds(net, nodes, load, claims, content):
    """Shows the load second by second; adds what it proves to the claims."""
    print(
        f"Each second: requests answered by nginx for the one API key, through both nodes (limit {LIMIT} together)\n"
    )
    print(
        f"    {'second':>10} {'via node a':>11} {'via node b':>11} {'together':>9} {'limit':>6}   refused so far (a, b)"
    )
    second = int(time.time()) + 1
    first, offered_before, asked = second + 1, None, []
    counted, shared_file = collections.Counter(), [0, 0]
    while any(program.running() for program in load):
        time.sleep(max(0.0, second + 1.05 - time.time()))
        counted = collections.Counter(
            (int(at), node)
            for at, node, _, _, path, status, _ in net.accesses()
            if path.startswith("/api/") and status == 200
        )
        now = {node: last_statistics(program) for node, program in nodes.items()}
        offered = {node: int(now[node]["requests"]) for node in nodes}
        if offered_before is not None:
            asked.append([offered[node] - offered_before[node] for node in nodes])
        offered_before = offered
        by_node = [counted[(second, node)] for node in nodes]
        print(
            f"    {time.strftime('%H:%M:%S', time.localtime(second)):>10} {by_node[0]:11} {by_node[1]:11} "
            f"{sum(by_node):9} {LIMIT:6}   {now['a']['blocked']}, {now['b']['blocked']}",
            flush=True,
        )
        for node in nodes:
            shared_file[1] += 1
            shared_file[0] += fetch(net, node, "/shop.bin") == hashlib.sha256(content).hexdigest()
        second += 1
    seconds = list(range(first, second - 1))
    sums = {s: sum(counted[(s, node)] for node in nodes) for s in seconds}
    if not seconds or not asked:
        raise Failed("the load ended before a second of it was over")
    round_trip = max(int(last_statistics(program)["sync_rtt_us"]) for program in nodes.values()) / 1e6
    # What the other node admits is known at the latest two spans and a round trip later; a request may be answered in
    # the second after it was admitted, one for each connection.
    peak_rate = max(map(max, asked))
    bound = LIMIT + peak_rate * (2 * SPAN + round_trip) + 2 * CONNECTIONS
    worst = max(sums.values())
    average = sum(map(sum, asked)) / len(asked)
    claims.append(
        (
            worst <= bound,
            f"one limit for both nodes: at most {worst} in any of {len(seconds)} seconds; limit {LIMIT}, and the "
            f"bound at up to {peak_rate} requests/s a node is {bound:.0f}",
        )
    )
    each = [sum(counted[(s, node)] for s in seconds) for node in nodes]
    claims.append(
        (
            min(each) > 0 and average > LIMIT,
            f"both nodes took part ({each[0]} and {each[1]} requests passed), and about {average:.0f} a "
            f"second were asked",
        )
    )
    claims.append(
        (
            shared_file[0] == shared_file[1] > 0,
            f"a route without a rule: {shared_file[0]} of {shared_file[1]} downloads of {len(content) >> 10} KiB "
            f"came through byte for byte meanwhile",
        )
    )


def fetch(net, node, path):
    target = net.folder / f"fetched-{node}"
    if net.curl(node, path, "--fail", "-o", target).returncode != 0:
        return None
    return hashlib.sha256(target.read_bytes()).hexdigest()


def status_of(net, node, source):
    return net.curl(
        node, "/login", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", source=source
    ).stdout


def show_refusal_and_recovery(net, claims):
    print("\nOne address guesses passwords through node a; curl shows what it gets:\n")
    refusal = ""
    # Several by each curl: a busy machine may not start as many in a second as it takes.
    more = [f"http://{server_address('a')}/login"] * 6
    for _ in range(30):
        answers = net.curl("a", "/login", "-i", "-X", "POST", *more, source=7).stdout.split("HTTP/1.1 ")
        refusals = [answer for answer in answers if answer.startswith("429")]
        if refusals:
            refusal = "HTTP/1.1 " + refusals[0]
            break
    blocked_at = time.monotonic()
    for line in refusal.splitlines():
        print(f"    {line}")
    fields = {line.split(":")[0].lower() for line in refusal.splitlines() if ":" in line}
    claims.append(
        (
            "retry-after" in fields and "ratelimit" in fields,
            "the client got HTTP 429 with Retry-After and RateLimit",
        )
    )
    neighbour = status_of(net, "a", 8)
    claims.append((neighbour == "200", f"its neighbour logs in meanwhile: {neighbour}"))
    wait_until(lambda: status_of(net, "a", 7) == "200", COOLDOWN + 10, "the address may log in again")
    waited = time.monotonic() - blocked_at
    # The block began a moment before curl had its answer.
    claims.append(
        (
            COOLDOWN - 1 <= waited <= COOLDOWN + 2,
            f"recovery: 200 again {waited:.1f} s after the 429; the cooldown is {COOLDOWN} s",
        )
    )


def main():
    build, seconds = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2])
    content = os.urandom(512 * 1024)
    claims = []
    with Topology(build) as net:
        print(
            "Two nodes between clients and nginx, each in a network namespace of its own; one Redis for both.\n"
        )
        for line in RULES.splitlines():
            print(f"    {line}")
        print(flush=True)
        net.start_redis()
        net.start_nginx({"shop.bin": content})
        nodes = {node: net.start_node(node, RULES, statistics="1s") for node in NODES}
        pace = net.folder / "pace.lua"
        pace.write_text(PACE, encoding="utf-8")
        load = [
            net.start(
                net.inside(
                    "client",
                    "wrk",
                    "-t1",
                    f"-c{CONNECTIONS}",
                    f"-d{seconds}s",
                    "-s",
                    pace,
                    "-H",
                    "X-API-Key: shop",
                    f"http://{server_address(node)}/api/items",
                ),
                name=f"wrk {node}",
            )
            for node in NODES
        ]
        show_seconds(net, nodes, load, claims, content)
        refused = 0
        print()
        for node, program in zip(NODES, load):
            status = program.finish(30)
            for line in program.lines:
                if "requests in" in line or "Non-2xx" in line:
                    print(f"    wrk through node {node}: {line.strip()}")
                if "Non-2xx" in line:
                    refused += int(line.split(":")[1])
            if status != 0:
                raise Failed(f"wrk ended with status {status}:\n{program.output()}")
        claims.insert(2, (refused > 0, f"wrk got {refused} answers that were no 200: the 429s"))
        show_refusal_and_recovery(net, claims)

        statuses = {node: program.stop() for node, program in nodes.items()}
        ends = {node: filter_totals(program.lines) for node, program in nodes.items()}
        admitted = sum(int(rule["admitted"]) for end in ends.values() for rule in end["rules"].values())
        synced = sum(int(end["store"].get("synced", -1)) for end in ends.values())
        pending = sum(int(end["store"].get("pending", -1)) for end in ends.values())
        claims.append(
            (
                set(statuses.values()) == {0} and pending == 0 and synced == admitted,
                f"stopped cleanly: {admitted} requests admitted under rules, {synced} counted in the store, "
                f"{pending} pending",
            )
        )
    good = all(claim for claim, _ in claims)
    print("\nSummary\n")
    for holds, text in claims:
        print(f"    {'PASS' if holds else 'FAIL'}  {text}")
    print(
        f"""
{'All of it holds.' if good else 'Something above does NOT hold.'} The namespaces and programs are gone again.

What to try next
    README.md    how to write rules, run weir-filter on a real NIC, embed the library
    tools/test   every test there is
"""
    )
    return 0 if good else 1


if __name__ == "__main__":
    end_in_order()
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"quickstart: {failure}")
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_status(interrupt))
