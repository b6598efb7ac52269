# SPDX-License-Identifier: BSD-3-Clause
"""From an Ethernet frame to the hash of its key, beside the floors and packaged parsers."""

from common import google_benchmark, number, table, verdict
from plot import bars

TITLE = "What it costs to read a request"
TARGETS = ("bench/classify/bench-classify",)
BURST = 32
CONTENTS = {"get_200": "200 B GET", "headers_800": "800 B with headers", "no_http": "200 B, no HTTP"}
JOBS = ("request_line", "host", "three_headers")
PEERS = ("http_parser", "picohttpparser")


def measure(context):
    repetitions, seconds = (3, 0.01) if context.quick else (5, 0.1)
    pattern = "get_200" if context.quick else "."
    program = context.build / TARGETS[0]
    iterations = google_benchmark(context, program, "classification", pattern, repetitions, seconds)
    return {name: each / BURST for name, each in iterations.items()}


def report(figures, context):
    parts = ["ns per frame. Hot: 32 frames again and again; cold: from a pool larger than any cache, prefetched. "
             "All contenders of one job must find the same keys."]
    aims = []
    for peer in PEERS:
        if not any(name.endswith(peer) for name in figures):
            context.leave_out(peer, "not there when the build folder was configured (Debian: libhttp-parser-dev; libh2o-dev, up to Debian 12)")
    columns = [(cache, content) for content in CONTENTS for cache in ("hot", "cold")
               if any(name.startswith(f"{cache}/{content}/") for name in figures)]
    suffixes = ["floor_three_lines", "floor_vector_pass"]
    suffixes += [f"{job}/{who}" for job in JOBS for who in ("own", "own_portable", *PEERS)]
    rows = []
    for suffix in suffixes:
        cells = [figures.get(f"{cache}/{content}/{suffix}") for cache, content in columns]
        if any(cells):
            words = suffix.replace("_", " ").replace("/own portable", ": **weir**, scalar").replace("/own", ": **weir**")
            rows.append((words.replace("/", ": "), *(number(cell) for cell in cells)))
    parts.append(table(("ns per frame", *(f"{CONTENTS[content]}, {cache}" for cache, content in columns)), rows))

    def aim(what, ours, other, bound, at_most):
        if ours and other:
            ratio = ours / other if at_most else other / ours
            aims.append((what, f"{ratio:.2f}", f"{'≤' if at_most else '≥'} {bound}",
                         verdict(ratio <= bound if at_most else ratio >= bound)))

    for content in ("get_200", "headers_800"):
        words = CONTENTS[content]
        line, three = (figures.get(f"cold/{content}/{job}/own") for job in ("request_line", "three_headers"))
        aim(f"{words}, cold: request line / three lines touched", line, figures.get(f"cold/{content}/floor_three_lines"), 2, True)
        aim(f"{words}, cold: three headers / one vector pass", three, figures.get(f"cold/{content}/floor_vector_pass"), 2, True)
        aim(f"{words}, cold: picohttpparser / three headers", three, figures.get(f"cold/{content}/three_headers/picohttpparser"), 2, False)
        hot = figures.get(f"hot/{content}/request_line/own")
        aim(f"{words}, hot: scalar / request line", hot, figures.get(f"hot/{content}/request_line/own_portable"), 3, False)
    names = ["floor_three_lines", "floor_vector_pass", "request_line/own", "three_headers/own", "three_headers/own_portable",
             *(f"three_headers/{peer}" for peer in PEERS)]
    values = [[figures.get(f"{cache}/{content}/{name}") for name in names] for cache, content in columns]
    svg = bars("From the frame to its key", "ns per frame", [f"{CONTENTS[content]}, {cache}" for cache, content in columns],
               names, values)
    return [*parts, context.plot("classification", svg), table(("ratio", "measured", "aim", ""), aims)]
