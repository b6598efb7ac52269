# SPDX-License-Identifier: BSD-3-Clause
"""From an Ethernet frame to the hash of its key, beside the floors and packaged parsers."""

from common import google_benchmark, number, table
from plot import bars

TITLE = "What it costs to read a request"
TARGETS = ("bench/classify/bench-classify",)
BURST = 32
CONTENTS = {"get_200": "200 B GET", "headers_800": "800 B with headers", "no_http": "200 B, no HTTP"}
JOBS = ("request_line", "host", "three_headers")
PACKAGED = ("http_parser", "picohttpparser")
PEERS = ("memchr", *PACKAGED)
FLOORS = {
    "floor_three_lines": "floor: three cache lines touched",
    "floor_three_lines_ahead": "the same, the next burst told",
    "floor_vector_pass": "floor: one vector pass over the payload (memchr for what is not there)",
    "floor_vector_pass_ahead": "the same, the next burst told",
    "floor_lines": "floor: the payload's lines, a memchr for each",
}
WHO = {
    "own": "**weir**",
    "own_ahead": "**weir**, told of the next burst",
    "own_portable": "**weir**, scalar",
    "memchr": "written with memchr, as one would in C",
    "http_parser": "http_parser",
    "picohttpparser": "picohttpparser",
    "picohttpparser_ahead": "picohttpparser, the next burst told",
}


def measure(context):
    repetitions, seconds = (3, 0.01) if context.quick else (5, 0.1)
    pattern = "get_200" if context.quick else "."
    program = context.build / TARGETS[0]
    iterations = google_benchmark(context, program, "classification", pattern, repetitions, seconds)
    return {name: each / BURST for name, each in iterations.items()}


def report(figures, context, aims):
    parts = ["ns per frame. Hot: 32 frames again and again; cold: from a pool larger than any cache, prefetched. "
             "All contenders of one job must find the same keys: what comes after parsing, normal forms and hash, is the library's for all. "
             "The parser written with memchr looks for separators only, and no farther than the job needs; all others, weir too, read a "
             "request to its head's end, whatever the job. Cold, who knows the next burst may tell it: weir asks for its frames between "
             "its work on this one, as a floor or a parser may ask for one of them before each of this burst's. Else all lines that are read "
             "are asked for before each burst. Packaged parsers are as the distribution builds them, for any processor: picohttpparser then does without its SSE4.2 part, "
             "with which it took 0.9 of the time on 800 B, and as long or longer on 200 B, where that was tried. The aims are held against the quicker of each one's two."]
    for peer in PACKAGED:
        if not any(name.endswith(peer) for name in figures):
            context.leave_out(peer, "not there when the build folder was configured (Debian: libhttp-parser-dev; libh2o-dev, up to Debian 12)")
    columns = [(cache, content) for content in CONTENTS for cache in ("hot", "cold")
               if any(name.startswith(f"{cache}/{content}/") for name in figures)]
    rows = []

    def row(suffix, words):
        cells = [figures.get(f"{cache}/{content}/{suffix}") for cache, content in columns]
        if any(cells):
            rows.append((words, *(number(cell) for cell in cells)))

    for floor, words in FLOORS.items():
        row(floor, words)
    for job in JOBS:
        for who, words in WHO.items():
            row(f"{job}/{who}", f"{job.replace('_', ' ')}: {words}")
    parts.append(table(("ns per frame", *(f"{CONTENTS[content]}, {cache}" for cache, content in columns)), rows))

    def best(name):
        both = [figures[one] for one in (name, f"{name}_ahead") if one in figures]
        return min(both) if both else None

    def ratio(above, below):
        return above / below if above and below else None

    for content in ("get_200", "headers_800"):
        words, cold, hot = CONTENTS[content], f"cold/{content}", f"hot/{content}"
        aims.at_most("cold: request line / three lines touched", words, ratio(best(f"{cold}/request_line/own"), best(f"{cold}/floor_three_lines")), 2)
        aims.at_most("cold: three headers / one vector pass", words, ratio(best(f"{cold}/three_headers/own"), best(f"{cold}/floor_vector_pass")), 2)
        aims.at_least("cold: picohttpparser / three headers", words, ratio(best(f"{cold}/three_headers/picohttpparser"), best(f"{cold}/three_headers/own")), 2)
        for job in ("request_line", "three_headers"):
            aims.at_least(f"hot: scalar / {job.replace('_', ' ')}", words, ratio(figures.get(f"{hot}/{job}/own_portable"), figures.get(f"{hot}/{job}/own")), 3)
    names = [*FLOORS, "request_line/own", *(f"three_headers/{who}" for who in WHO)]
    values = [[figures.get(f"{cache}/{content}/{name}") for name in names] for cache, content in columns]
    svg = bars("From the frame to its key", "ns per frame", [f"{CONTENTS[content]}, {cache}" for cache, content in columns],
               names, values)
    return [*parts, context.plot("classification", svg)]
