# SPDX-License-Identifier: BSD-3-Clause
"""What another worker adds."""

from common import median, number, run_json, table
from plot import bars

TITLE = "More workers"
TARGETS = ("bench/scaling/bench-scaling",)
WORDS = {"weir_key": "**weir**, a key at hand", "mutex_and_map": "mutex and unordered_map"}
AIM = 1.9


def measure(context):
    options = ("--rounds", 2, "--seconds", 0.05, "--keys", "1000") if context.quick else ("--rounds", 5, "--seconds", 0.3, "--keys", "1000,100000")
    return run_json(context.build / TARGETS[0], *options)


def report(figures, context, aims):
    rates = {}
    for each in figures["runs"]:
        key = each["contender"], each["keys"], each["workers"]
        rates.setdefault(key, {"wall": [], "cpu": []})
        rates[key]["wall"].append(each["per_second_wall"] / 1e6)
        rates[key]["cpu"].append(each["per_second_cpu"] / 1e6)
    middle = {key: {clock: median(values) for clock, values in both.items()} for key, both in rates.items()}
    keys = sorted({key for _, key, _ in middle})
    workers = sorted({count for _, _, count in middle})
    rows = []
    for contender, words in WORDS.items():
        for size in keys:
            one = middle[(contender, size, 1)]
            for count in workers:
                each = middle[(contender, size, count)]
                rows.append((words, f"{size:,}", count, number(each["cpu"]), number(each["wall"]),
                             f"{each['cpu'] / one['cpu']:.2f}", f"{each['wall'] / one['wall']:.2f}"))
    for size in keys:
        if 2 in workers:
            ratio = middle[("weir_key", size, 2)]["cpu"] / middle[("weir_key", size, 1)]["cpu"]
            aims.at_least("2 workers / 1, by processor time", f"{size:,} keys", ratio, AIM)
            ratio = middle[("weir_key", size, 2)]["wall"] / middle[("mutex_and_map", size, 2)]["wall"]
            aims.at_least("weir / mutex and map, two threads, by the wall clock", f"{size:,} keys", ratio, 100)
    names = [name for name in WORDS]
    groups = [(size, count) for size in keys for count in workers]
    svg = bars("Decisions of several workers", "million per second of processor time, logarithmic",
               [f"{size:,} keys, {count}" for size, count in groups], names,
               [[middle[(name, size, count)]["cpu"] for name in names] for size, count in groups], logarithmic=True)
    return [
        f"Workers share one rule set and one controller; keys uniform. {figures['processors']} processors here: with as many "
        "workers the controller takes its time from one of them. By processor time: what the workers would have decided with "
        "their processors to themselves, which is what tells on a machine that others use; waiting for a lock does not show "
        "in it, so the lock's figures are those of the wall clock.",
        table(("", "keys", "workers", "million decisions/s, processor time", "wall clock", "× one worker, processor time", "wall clock"), rows),
        context.plot("scaling", svg),
    ]
