# SPDX-License-Identifier: BSD-3-Clause
"""What one decision costs, beside its floor and its peers."""

from common import google_benchmark, number, table, verdict
from plot import bars

TITLE = "What a decision costs"
TARGETS = ("bench/decision/bench-decision",)
BURST = 32

# Rows of a table: (contender, how it is called in the report). The first is what the others are divided by.
ROWS = (
    ("floor_lines", "floor: a random line, prefetched"),
    ("weir_key", "**weir**, a key at hand"),
    ("weir_request/one_rule", "**weir**, a request under one rule: matched, hashed"),
    ("weir_request/three_rules", "**weir**, a request under three rules"),
    ("rte_meter", "rte_meter (an array, no search)"),
    ("rte_hash", "rte_hash, bulk, and counters"),
    ("tbb_concurrent_hash_map", "TBB concurrent_hash_map"),
    ("mutex_and_map", "mutex and unordered_map"),
)
# What is promised of a key at hand, by number of keys: at most so many times the floor.
AIMS = {1000: 1.6, 100_000: 1.6, 1_000_000: 1.3}


def measure(context):
    repetitions, seconds = (3, 0.02) if context.quick else (3, 0.2)
    pattern = "keys:1000/|weir_dense|floor_array" if context.quick else "."
    program = context.build / TARGETS[0]
    iterations = google_benchmark(context, program, "decision", pattern, repetitions, seconds)
    return {name: each / BURST for name, each in iterations.items()}


def _cell(figures, contender, size, zipf):
    return figures.get(f"{contender}/keys:{size}/zipf:{zipf}")


def _table(figures, sizes, zipf):
    rows = []
    for contender, words in ROWS:
        cells = []
        for size in sizes:
            mine, floor = _cell(figures, contender, size, zipf), _cell(figures, ROWS[0][0], size, zipf)
            cells.append("" if mine is None else number(mine) + (f" ({mine / floor:.2f})" if floor else ""))
        if any(cells):
            rows.append((words, *cells))
    return table(("ns per request (times the floor)", *(f"{size:,} keys" for size in sizes)), rows)


def _aims(figures, sizes, zipf):
    rows = []

    def row(what, size, ratio, aim, at_most):
        sign = "≤" if at_most else "≥"
        rows.append((what, f"{size:,}", f"{ratio:.2f}", f"{sign} {aim}", verdict(ratio <= aim if at_most else ratio >= aim)))

    for size in sizes:
        one = _cell(figures, "weir_key", size, zipf)
        floor, table_, tutorial = (_cell(figures, name, size, zipf) for name in ("floor_lines", "rte_hash", "mutex_and_map"))
        single, three = (_cell(figures, f"weir_request/{name}", size, zipf) for name in ("one_rule", "three_rules"))
        if one and floor:
            row("key at hand / floor", size, one / floor, AIMS.get(size, 1.6), True)
        if one and table_:
            row("rte_hash / key at hand", size, table_ / one, 3, False)
        if one and tutorial:
            row("mutex and map / key at hand, one thread", size, tutorial / one, 25, False)
        if single and three:
            row("three rules / one rule", size, three / single, 3, True)
    return rows


def report(figures, context):
    sizes = sorted({int(name.split("keys:")[1].split("/")[0]) for name in figures if "keys:" in name})
    parts = [
        "Bursts of 32; time of the deciding thread alone. Our contenders run with their controller at work: flips, "
        "publications, first touches and draws are in their figures. Every contender's counters were checked against "
        "the number of requests. First touches come with each span of 100 ms, by the wall clock: where others take the "
        "processor, fewer decisions share them, and our figures, not the peers', rise with the number of keys."
    ]
    aims = []
    for zipf, words in ((0, "Keys drawn uniformly"), (1, "Keys drawn by Zipf's law (0.99)")):
        parts += [f"### {words}", _table(figures, sizes, zipf)]
        names = [words.replace("*", "") for _, words in ROWS]
        values = [[_cell(figures, contender, size, zipf) for contender, _ in ROWS] for size in sizes]
        svg = bars(f"A decision. {words}", "ns per request, logarithmic", [f"{size:,} keys" for size in sizes],
                   names, values, logarithmic=True)
        parts.append(context.plot(f"decision-{'zipf' if zipf else 'uniform'}", svg))
        aims += [(f"{row[0]}, {'Zipf' if zipf else 'uniform'}", *row[1:]) for row in _aims(figures, sizes, zipf)]
    if "weir_dense" in figures and "floor_array" in figures:
        ours, floor = figures["weir_dense"], figures["floor_array"]
        parts.append(f"A rule without dimensions: {number(ours)} ns; incrementing an array's element: {number(floor)} ns.")
        aims.append(("rule without dimensions / array", "1", f"{ours / floor:.2f}", "≤ 2", verdict(ours / floor <= 2)))
    return [*parts, table(("ratio", "keys", "measured", "aim", ""), aims)]
