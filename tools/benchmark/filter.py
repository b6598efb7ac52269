# SPDX-License-Identifier: BSD-3-Clause
"""weir-filter from end to end, one worker: its own loop between two ports, beside loops that only forward."""

import random

from common import Failed, median, number, run_json, spread, table, verdict
from plot import bars
import testpmd

TITLE = "weir-filter from end to end"
TARGETS = ("bench/filter/bench-filter",)
SOURCES = {
    "null-4096": "A, 4,096 mbufs",
    "null-16384": "A, 16,384 mbufs",
    "loop": "F, loop of rings",
    "fresh": "E, another core's",
}
CONTENDERS = {
    "testpmd io": "dpdk-testpmd io",
    "testpmd macswap": "dpdk-testpmd macswap",
    "io": "io: receive and send, no more",
    "no_http": "**weir-filter**, no HTTP in the packets",
    "no_match": "**weir-filter**, no rule that matches",
    "request_line": "**weir-filter**, request line (method, path)",
    "three_headers": "**weir-filter**, and three headers",
    "three_rules": "**weir-filter**, three rules: global, user, endpoint",
}
# Rates as a part of io's on the same source.
AIMS = {"no_http": 0.85, "request_line": 0.40, "three_headers": 0.22, "three_rules": 0.25}
LOOP_AIMS = {"request_line": 28 / 60}  # the prototype's


def _testpmds(sources):
    made = {}
    for source in sources:
        if source == "loop":
            made[source] = testpmd.Testpmd(source, ("net_ring0", "net_ring1"), 16384, True)
        elif source.startswith("null-"):
            devices = tuple(f"net_null{i},size=200,copy=0" for i in range(2))
            made[source] = testpmd.Testpmd(source, devices, int(source[5:]), False)
    return made


def measure(context):
    rounds, seconds = (1, 0.05) if context.quick else (5, 0.4)
    sources = ("null-4096", "loop") if context.quick else tuple(SOURCES)
    runs, peers = [], {}
    try:
        if testpmd.available():
            try:
                peers = _testpmds(sources)
            except Failed as failed:
                context.leave_out("dpdk-testpmd", str(failed).splitlines()[0])
        else:
            context.leave_out("dpdk-testpmd", "not installed (Debian: dpdk-dev)")
        order = random.Random(1)
        for turn in range(rounds):
            # Ours in random order, then theirs; then again.
            runs += run_json(context.build / TARGETS[0], "--rounds", 1, "--seconds", seconds, "--seed", turn + 1,
                             "--sources", ",".join(sources))["runs"]
            theirs = [(source, mode) for source in peers for mode in ("io", "macswap")]
            order.shuffle(theirs)
            for source, mode in theirs:
                each = peers[source].forward(mode, max(seconds, 0.2) * 1.5)
                runs.append({"source": source, "contender": f"testpmd {mode}", "ns_per_frame": each})
    finally:
        for peer in peers.values():
            peer.end()
    return runs


def report(runs, context):
    times = {}
    for each in runs:
        times.setdefault((each["source"], each["contender"]), []).append(each["ns_per_frame"])
    middle = {key: median(values) for key, values in times.items()}
    sources = [source for source in SOURCES if (source, "io") in middle]
    ours = [each for each in runs if "switches" in each]
    parts = [
        "200 B frames with one request each, all different; the loop and the burst filter are those of the program. "
        "A: net_null that copies nothing, over a FIFO pool whose mbufs were filled beforehand, so the generator is the "
        "pool. F: rings in a loop, where nothing is allocated or freed: a ceiling, its io moves pointers only. E: frames "
        "written by another core just before, timed from the moment they are there (on a busy machine the figures of E "
        "contain whoever else ran).",
        "Every run was checked: frames in = frames out + dropped, by our count and by the ports', and the rules counted "
        f"each request. Frames: {sum(each['frames'] for each in ours):,}; dropped: {sum(each['dropped'] for each in ours):,}. "
        "A and F: the worker's own processor time.",
        "dpdk-testpmd makes its own mbufs: in a pool of the same size and kind on the same device, but without requests "
        "in them (it reads none), and in DPDK's memory, which lies on small pages when DPDK has no huge ones. So the row "
        "io, a loop of testpmd's shape on our mbufs, is what ours are divided by.",
    ]
    rows = []
    for name, words in CONTENDERS.items():
        cells = []
        for source in sources:
            mine = middle.get((source, name))
            cells.append("" if mine is None else f"{1e3 / mine:.1f} ({middle[(source, 'io')] / mine:.2f})")
        if any(cells):
            rows.append((words, *cells))
    parts.append(table(("million frames per second (part of io)", *(SOURCES[source] for source in sources)), rows))
    rows = []
    for name, words in CONTENDERS.items():
        cells = []
        for source in sources:
            values = times.get((source, name))
            cells.append("" if not values else f"{number(median(values))} ({' … '.join(number(v) for v in spread(values))})")
        if any(cells):
            rows.append((words, *cells))
    parts.append(table(("ns per frame: median (half of the runs)", *(SOURCES[source] for source in sources)), rows))

    names = [name for name in CONTENDERS if any((source, name) in middle for source in sources)]
    shown = [source for source in sources if source != "fresh"] or sources
    values = [[1e3 / middle[(source, name)] if (source, name) in middle else None for name in names] for source in shown]
    svg = bars("weir-filter, one worker", "million frames per second of its processor time, logarithmic", [SOURCES[s] for s in shown], names,
               values, logarithmic=True)
    parts.append(context.plot("filter", svg))

    aims = []
    for source in sources:
        for name, aim in (LOOP_AIMS if source == "loop" else {} if source == "fresh" else AIMS).items():
            if (source, name) in middle:
                part = middle[(source, "io")] / middle[(source, name)]
                aims.append((f"{name.replace('_', ' ')} / io", SOURCES[source], f"{part:.2f}", f"≥ {aim:.2f}", verdict(part >= aim)))
    return [*parts, table(("rate, as a part of io's", "source", "measured", "aim", ""), aims)]
