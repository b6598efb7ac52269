# SPDX-License-Identifier: BSD-3-Clause
"""How long a burst's decisions take, whatever the controller and the store are doing."""

import os
import tempfile

from common import Failed, find_program, median, number, run_json, table, those_that_add_up
from plot import lines

TITLE = "How long a decision may take"
TARGETS = ("bench/latency/bench-latency",)
WORDS = {
    "alone": "no controller",
    "memory-100ms": "span 100 ms",
    "memory-10ms": "span 10 ms",
    "redis-100ms": "span 100 ms, Redis",
    "redis-10ms": "span 10 ms, Redis",
    "redis-dies-100ms": "span 100 ms, Redis dies",
    "redis-dies-10ms": "span 10 ms, Redis dies",
    "redis-dead-100ms": "span 100 ms, Redis never there",
    "redis-dead-10ms": "span 10 ms, Redis never there",
}
AIM = 1.2
SHOWN = (0.5, 0.99, 0.999)


def measure(context):
    options = ["--rounds", 1] if context.quick else ["--rounds", 4]
    if not find_program("redis-server"):
        context.leave_out("a store that syncs, and one that dies", "redis-server is not installed")
        options.append("--without-redis")
    # To synchronise a hundred thousand takes the longer the more spans end late.
    seconds = {1000: 0.3} if context.quick else {1000: 1.5, 10_000: 1.5, 100_000: 4}
    # What is temporary is removed here, for a program that is killed does not get to it.
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        sets = [run_json(context.build / TARGETS[0], *options, "--keys", size, "--seconds", each, env={**os.environ, "TMPDIR": folder}) for size, each in seconds.items()]
    for figures in sets:
        figures["runs"] = those_that_add_up(figures["runs"], context, lambda run, keys=figures["keys"]: f"{WORDS[run['scenario']]}, {keys:,} keys")
        if not figures["runs"]:
            raise Failed(f"bench-latency: no turn with {figures['keys']:,} keys adds up")
    return sets


def report(sets, context, aims):
    parts = [
        "One burst of 32 decisions, from before its prefetch to after its report, on a processor of the worker's own: the time that it takes by itself, in a closed loop, "
        "for the next one begins when it has ended, and none waits behind a slow one, as it would where requests come by the clock. The "
        "controller and Redis (on a unix socket) have the others. Keys by Zipf's law; every key is synchronised in every span "
        "(hold_back = 0). After each span a worker meets its keys for the first time again: that is the difference "
        "to a worker without a controller. Of few keys these bursts are so few that p99 does not see them: hence 100,000, and beside the quantiles, which "
        "count bursts, the part of the time that passes in bursts of more than ten times p50, and the longest of all: in both are the times that the "
        "system took the processor away. (Of a million keys, each of them synchronised in every span, hardly a span would end in time.) Without a controller spans are ended while nothing is timed. Spans end by the wall clock: where the worker has a share of its processor only, it "
        "decides less in each, and first touches weigh that much more. Medians of the runs; switches: how often the system took the processor away, in all runs; "
        "refused: requests refused in all runs, of so many million; the limit is out of reach, so there should be none."
    ]
    for figures in sets:
        runs = {}
        for each in figures["runs"]:
            runs.setdefault(each["scenario"], []).append(each)
        marks = [part for part, _ in figures["runs"][0]["quantiles"]]
        curves = {
            name: [median([run["quantiles"][i][1] for run in each]) for i in range(len(marks))] for name, each in runs.items()
        }
        rows = []
        for name, words in WORDS.items():
            where = f"{words}, {figures['keys']:,} keys"
            if name not in runs:
                aims.at_most("p99 of a burst / without a controller", where, None, AIM)
                continue
            each = runs[name]
            cells = [number(curves[name][marks.index(part)]) for part in SHOWN]
            cells += [number(max(run["max_ns"] for run in each)), f"{median([run['slow_time'] for run in each]):.2%}"]
            p99 = marks.index(0.99)
            alone = {run["round"]: run["quantiles"][p99][1] for run in runs.get("alone", [])}
            ratios = [run["quantiles"][p99][1] / alone[run["round"]] for run in each if run["round"] in alone]
            ratio = median(ratios) if ratios else None
            rows.append((words, *cells, number(ratio), sum(run["spans"] for run in each), sum(run["publications"] for run in each),
                         sum(run["syncs"] for run in each), sum(run["switches"] for run in each),
                         f"{sum(run['refused'] for run in each):,} of {sum(run['decided'] for run in each) / 1e6:.0f}",
                         f"{median([run['cpu_share'] for run in each]):.0%}"))
            if name != "alone":
                aims.at_most("p99 of a burst / without a controller", where, ratio, AIM)
        parts += [
            f"### {figures['keys']:,} keys",
            table(("ns per burst", "p50", "p99", "p99.9", "longest of all runs", "of the time: in bursts of more than 10 × p50", f"p99 / no controller's of the same round (aim: ≤ {AIM})", "spans", "publications", "syncs", "switches",
                   "refused", "share of the processor"), rows),
        ]
        series = [(words, curves[name]) for name, words in WORDS.items() if name in curves]
        svg = lines(f"A burst of 32 decisions, {figures['keys']:,} keys", "ns, logarithmic, by quantile",
                    [f"{part * 100:g} %" for part in marks], series)
        parts.append(context.plot(f"latency-{figures['keys']}", svg))
    return parts
