# SPDX-License-Identifier: BSD-3-Clause
"""What the end of a span takes of the controller's core, however many keys are active."""

import json

from common import Failed, number, run, table
from plot import bars

TITLE = "What the controller takes for a span"
TARGETS = ("bench/controller/bench-controller",)
KEYS = 1_000_000
SPAN_MS = 100
WELL_INSIDE_MS = SPAN_MS / 2
# As the program numbers them: the default, the one to take when in doubt, and one that has no grants where there is one worker.
ALGORITHMS = {0: "cooldown", 2: "sliding-window", 3: "token-bucket"}
# By number of nodes and of each one's workers. Of a hundred keys, those that are written to the store in every span; the others
# once in an interval. Of several nodes these keys' demand is nearly their limit.
HOT = {(1, 1): (1, 10, 100), (2, 1): (1, 10), (1, 4): (1,)}
# Workers of the node all of whose keys are blocked.
REFUSING = (1, 4)


def measure(context):
    """What bench-controller counts, in ns per key, by kind of run, number of keys, hot ones in a hundred, algorithm, nodes and workers."""
    keys = 1000 if context.quick else KEYS
    raw = context.output / "controller-runs.json"
    loads = "|".join(f"hot:({'|'.join(map(str, hot))})/algorithm:({'|'.join(map(str, ALGORITHMS))})/nodes:{nodes}/workers:{workers}"
                     for (nodes, workers), hot in HOT.items())
    run(context.build / TARGETS[0], "--benchmark_out_format=json", f"--benchmark_out={raw}",
        f"--benchmark_filter=^((turn|meet)/keys:{keys}/({loads})|(refuse|join|storm)/keys:{keys}/.*)/")
    figures = []
    for entry in json.loads(raw.read_text(encoding="utf-8"))["benchmarks"]:
        kind, *settings = entry["run_name"].split("/")
        of = dict(setting.split(":") for setting in settings if ":" in setting)
        if entry.get("error_occurred"):
            context.remark(f"**{entry['run_name']}: not in the figures: {entry['error_message']}**")
            continue
        figures.append({"kind": kind, **{name: int(of[name]) for name in ("keys", "hot", "algorithm", "nodes", "workers")},
                        **{name: entry[name] for name in ("median", "border", "worst", "store", "first", "blocked", "quiet", "overflowed", "refused") if name in entry}})
    if not figures:
        raise Failed(f"{raw}: no run that adds up")
    return figures


def _hold_against_a_span(aims, where, figures, ms):
    """figures: of a kind of run, or None."""
    aims.at_most("ms for a span", where, figures and figures["median"] * ms, WELL_INSIDE_MS)
    aims.at_most("ms for a span at an interval's end", where, figures and figures["border"] * ms, SPAN_MS)
    aims.at_most("ms for a span, the worst of all", where, figures and figures["worst"] * ms, SPAN_MS)


def report(figures, context, aims):
    of = {(each["kind"], each["nodes"], each["workers"], each["algorithm"], each["hot"]): each for each in figures}
    keys = figures[0]["keys"]
    ms = keys / 1e6  # of ns per key
    rows, groups, values = {several: [] for several in HOT}, [], []
    for several, algorithm, name in [(several, *algorithm) for several in HOT for algorithm in ALGORITHMS.items()]:
        nodes, workers = several
        for hot in HOT[several]:
            turn, meet = of.get(("turn", *several, algorithm, hot)), of.get(("meet", *several, algorithm, hot))
            where = f"{name}, {nodes} nodes, {hot} % near their limits" if nodes > 1 else f"{name}, {hot} % written in every span"
            where += f", {workers} workers" if workers > 1 else ""
            _hold_against_a_span(aims, where, turn, ms)
            aims.at_most("ms for a span, the memory store's work included", where, turn and (turn["median"] + turn["store"]) * ms, SPAN_MS)
            if not turn:
                continue
            rows[several].append((name, f"{hot} %", *(number(turn[part] * ms) for part in ("median", "border", "worst", "store")),
                                  number(meet["first"] * ms) if meet else "", number(turn["median"]), f"{turn['overflowed']:.2%}", f"{turn['refused']:.2%}"))
            groups.append(where)
            values.append([turn["median"] * ms, turn["border"] * ms, turn["store"] * ms])
    refusing, beginning = [], []
    for kind, workers in [(kind, workers) for kind in ("refuse", "join") for workers in REFUSING]:
        refuse = of.get((kind, 1, workers, 0, 0))
        others = ", a thousandth more in every span" if kind == "join" else ""
        where = f"cooldown, all keys blocked{others}{f', {workers} workers' if workers > 1 else ''}"
        _hold_against_a_span(aims, where, refuse, ms)
        if not refuse:
            continue
        refusing.append((str(workers), str(keys // 1000) if kind == "join" else "0", *(number(refuse[part] * ms) for part in ("median", "border", "worst", "store")),
                         number(refuse["median"]), f"{refuse['overflowed']:.2%}", f"{refuse['refused']:.2%}"))
        groups.append(where)
        values.append([refuse["median"] * ms, refuse["border"] * ms, refuse["store"] * ms])
    for workers in REFUSING:
        if storm := of.get(("storm", 1, workers, 0, 0)):
            beginning.append((str(workers), *(number(storm[part] * ms) for part in ("blocked", "store", "quiet"))))
    svg = bars("A span's end", "ms of the controller's core, logarithmic", groups,
               ["a span, median", "an interval's end", "the memory store"], values, logarithmic=True)
    columns = ("ms for a span, median", "at an interval's end", "worst of all", "the memory store's, beside", "all at once",
               "ns per key, median", "overflowed", "refused")
    return [
        "Measured one after the other: what disturbed the machine for a while is in some rows, and not in others. "
        f"A node with one worker under one rule, {keys:,} keys, every one counted in every span, in virtual time: what the controller's core "
        "takes for the end of a span (flip, add up, decide, hand over to the store, take in its answers, publish). Spans are as long as "
        f"they need; a node whose spans are of {SPAN_MS} ms ends them late where this is more. That is the aim of the worst and of an interval's end; well inside, "
        f"{WELL_INSIDE_MS:.0f} ms, is that of the median. Keys that come near their limits are written to the store in every "
        "span, the others once in an interval: the part of the keys in the second column. An interval's end: the dearer of the two spans "
        "beside it. What a store does is not in these figures: the memory store's part, on the same core, stands beside them; "
        "to write to a Redis takes this core some 350 ns for each key that is written (README, the store; bench-store). All at once: the first span of a node's "
        "life, in which all keys are new. Overflowed: requests that found no room of their own. Refused: of the requests of "
        "the second column's keys; where that is one in a hundred the run does not count. Counters were compared with the number of requests. "
        "All keys come in every span, in another order each time, drawn by lot: so they do not lie in memory in the order in which they are added up. "
        "What all this costs the workers is in the section on decisions, with and without a controller.",
        table(("algorithm", "written in every span", *columns), rows[1, 1]),
        "The same of one of two nodes over one store, all of whose keys are counted on both in every span. Of every key that is written each "
        "knows then what the other one counts. Keys of the second column have, on both together, 95 % of their limit as demand: in every span the "
        "node's share of each is estimated, and told the worker, and it has little to spare. The other one ends each span first; in "
        "the first one of its life, too.",
        table(("algorithm", "near their limits", *columns), rows[2, 1]),
        "The same of a node with four workers, each of which is asked for all keys in every span, under limits four times as high. What they "
        "admit out of their grants is added up by key before anything else is done with it. (Where a rule has no grants, each worker's count of a "
        "key is taken by itself.)",
        table(("algorithm", "written in every span", *columns), rows[1, 4]),
        "And in an attack: all keys are blocked, for longer than the run lasts, and each comes once in every span to each worker, and is refused. "
        "All of them are published, twice for each span. In the lower rows other keys come beside them, and are blocked in the span in which "
        "they come.",
        table(("workers", "blocked anew in a span", *columns[:4], *columns[5:]), refusing),
        "And how it begins: keys that were all met in the span before are all refused and blocked in one. It ends that much late, once.",
        table(("workers", "ms for the span in which all are blocked", "the memory store's, beside", "ms for a span after it"), beginning),
        context.plot("controller", svg),
    ]
