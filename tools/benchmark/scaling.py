# SPDX-License-Identifier: BSD-3-Clause
"""What another worker adds, beside what others take for several threads."""

from common import median, number, on_huge_pages, run_json, table, those_that_add_up
from plot import bars

TITLE = "More workers"
TARGETS = ("bench/scaling/bench-scaling",)
WORDS = {
    "floor": "floor: a random line of the thread's own, prefetched",
    "weir_key": "**weir**, a key at hand",
    "weir_key_far": "**weir**, a key at hand, told of three bursts ahead",
    "rte_hash_each": "rte_hash and counters, a table for each thread: nobody knows a key's sum",
    "rte_hash_shared": "rte_hash, one for all: read without a lock (RW_CONCURRENCY_LF), atomic counters, a lock to add",
    "tbb_map": "TBB concurrent_hash_map",
    "mutex_and_map": "mutex and unordered_map",
}
DRAWN = {"uniform": "uniform", "zipf": "Zipf (0.99)"}
AIM = 1.9
TUTORIAL_AIM = 100
# Of so many an aim is told, too, but nothing measured.
TOO_MANY = 10_000_000


def measure(context):
    # A turn is as long as an interval, so that the end of one is in it.
    options = ("--rounds", 1, "--seconds", 0.05, "--keys", "1000") if context.quick else ("--rounds", 3, "--seconds", 1, "--keys", "1000,100000,1000000")
    figures = run_json(context.build / TARGETS[0], *options, env=on_huge_pages())
    return {**figures, "runs": those_that_add_up(figures["runs"], context, lambda each: f"{each['contender']}, {each['keys']:,} keys, {each['drawn']}, {each['workers']} workers")}


class Turns:
    """Decisions per second, in millions, by contender, number of keys, how they were drawn, and number of workers, in each round."""

    def __init__(self, runs):
        self._runs = {}
        for each in runs:
            self._runs.setdefault((each["contender"], each["keys"], each["drawn"], each["workers"]), {})[each["round"]] = each
        self.sizes = sorted({keys for _, keys, _, _ in self._runs})
        self.workers = sorted({workers for _, _, _, workers in self._runs})
        self.contenders = [name for name in WORDS if any(key[0] == name for key in self._runs)]

    def has(self, *of):
        return of in self._runs

    def rate(self, *of, clock):
        rates = [each[f"per_second_{clock}"] / 1e6 for each in self._runs.get(of, {}).values()]
        return median(rates) if rates else None

    def late(self, *of):
        """Spans that ended too late and all, of all rounds; nothing of who has no spans."""
        runs = [each for each in self._runs.get(of, {}).values() if "spans" in each]
        return f"{sum(each['overruns'] for each in runs)} of {sum(each['spans'] for each in runs)}" if runs else ""

    def times(self, one, other, clock):
        """How many times the other's rate, in the same round. one, other: (contender, keys, drawn, workers)."""
        mine, others = self._runs.get(one, {}), self._runs.get(other, {})
        ratios = [mine[turn][f"per_second_{clock}"] / others[turn][f"per_second_{clock}"] for turn in mine.keys() & others.keys()]
        return median(ratios) if ratios else None


def report(figures, context, aims):
    turns = Turns(figures["runs"])
    rows = []
    for contender in turns.contenders:
        for drawn, how in DRAWN.items():
            for size in turns.sizes:
                for count in turns.workers:
                    one, these = (contender, size, drawn, 1), (contender, size, drawn, count)
                    if not turns.has(*these):
                        continue
                    rows.append((WORDS[contender], f"{size:,}", how, count, *(number(turns.rate(*these, clock=clock)) for clock in ("cpu", "wall")),
                                 *(number(turns.times(these, one, clock)) for clock in ("cpu", "wall")), turns.late(*these)))
    for drawn in DRAWN:
        for size in turns.sizes:
            where = f"{size:,} keys, {drawn}"
            aims.at_least("2 workers / 1, by processor time", where, turns.times(("weir_key", size, drawn, 2), ("weir_key", size, drawn, 1), "cpu"), AIM)
        for size in (*turns.sizes, TOO_MANY):
            aims.at_least("weir / mutex and map, each on two threads, by the wall clock", f"{size:,} keys, {drawn}",
                          turns.times(("weir_key", size, drawn, 2), ("mutex_and_map", size, drawn, 2), "wall"), TUTORIAL_AIM)
    groups = [(size, count) for size in turns.sizes for count in turns.workers]
    svg = bars("Decisions of several workers, keys uniform", "million per second of processor time, logarithmic",
               [f"{size:,} keys, {count}" for size, count in groups], turns.contenders,
               [[turns.rate(name, size, "uniform", count, clock="cpu") for name in turns.contenders] for size, count in groups], logarithmic=True)
    return [
        f"weir's workers share one rule set and one controller; all keys met before. {figures['processors']} processors here: with as many "
        "workers the controller takes its time from one of them. By processor time: what the workers would have decided with "
        "their processors to themselves, which is what tells on a machine that others use; waiting for a lock that sleeps does not show "
        "in it, so the mutex's figures are those of the wall clock. Of the floor's threads each has lines of its own, as a worker has: "
        "where two of them get less than twice as much out of one memory, so may workers that wait for it. rte_hash is given its keys' hashes and a comparison for their 8 bytes. Memory lies on huge pages as in the section on decisions. Ratios are medians over the rounds. Every contender's counters "
        "were added up and compared with the decisions (a turn that does not add up, as where a worker lost its processor for so long that it refused, is not in the figures, "
        "nor is one that does not settle with all its keys). "
        f"{TOO_MANY:,} keys are not measured here: a node with a processor for each worker takes minutes to meet them, in every turn anew. Late are spans of the timed part whose end took longer than the next one.",
        table(("", "keys", "drawn", "workers", "million decisions/s, processor time", "wall clock", "× one worker, processor time", "wall clock", "spans that ended late"), rows),
        context.plot("scaling", svg),
    ]
