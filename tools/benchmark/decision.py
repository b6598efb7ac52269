# SPDX-License-Identifier: BSD-3-Clause
"""What one decision costs, beside its floor and its peers."""

from common import Failed, median, number, on_huge_pages, run_json, table, those_that_add_up
from plot import bars

TITLE = "What a decision costs"
TARGETS = ("bench/decision/bench-decision",)
DRAWN = {"uniform": "Keys drawn uniformly", "zipf": "Keys drawn by Zipf's law (0.99)"}

# Rows of the tables: (contender, how it is called in the report). All are divided by the floor of their own turn.
FLOOR = "floor: a random line, prefetched"
STEADY = (
    ("floor_in_a_row", "the same, a burst's lines asked for in a row"),
    ("floor_between", "one by one between the writes"),
    ("floor_far", "three bursts ahead, in a row"),
    ("floor_far_between", "three bursts ahead, one by one between the writes"),
    ("weir_key", "**weir**, a key at hand"),
    ("weir_key_far", "**weir**, a key at hand, told of three bursts ahead"),
    ("weir_key_sliding", "**weir**, a key at hand, under sliding-window"),
    ("weir_key_bucket", "**weir**, the same under a rule without grants: token-bucket, one worker"),
    ("weir_key_small_bucket", "**weir**, the same: token-bucket with a burst of 1000"),
    ("weir_key_blocked", "**weir**, a key at hand that is blocked: refused"),
    ("weir_key_of_8_rules", "**weir**, a key at hand, of one of eight rules in no order"),
    ("weir_key_by_bursts", "**weir**, a key at hand, timed burst by burst"),
    ("weir_key_in_spray", "the same, while every other burst is of keys made up, which find no room"),
    ("weir_one_rule", "**weir**, a request under one rule: matched, hashed"),
    ("weir_three_rules", "**weir**, a request under three rules"),
    ("rte_meter", "rte_meter (an array, no search)"),
    ("rte_hash", "rte_hash, bulk, and counters"),
    ("tbb_map", "TBB concurrent_hash_map"),
    ("mutex_and_map", "mutex and unordered_map"),
)
FIRST = (
    ("weir_first_in_span", "**weir**, a key's first request in a span"),
    ("weir_first_small", "the same, of a limit of 60: too small for grants"),
    ("weir_first_bucket", "the same, of a bucket"),
    ("weir_stranger", "**weir**, a key never met before"),
    ("rte_hash_stranger", "rte_hash, a key never met before"),
    ("tbb_map_stranger", "TBB concurrent_hash_map, a key never met before"),
    ("mutex_and_map_stranger", "mutex and unordered_map, a key never met before"),
)
DENSE = {"weir_dense": "bursts of one route", "weir_dense_8": "of 8 routes", "weir_dense_64": "of 64 routes"}
# What is promised of a key at hand: at most so many times the floor, below and from so many keys on.
AIM_SMALL, AIM_LARGE, LARGE = 1.6, 1.3, 1_000_000
# The same is asked of it under rules whose keys have no grants.
KEY_AT_HAND = {"weir_key": "key at hand", "weir_key_sliding": "key at hand, sliding-window", "weir_key_bucket": "key at hand, token-bucket",
               "weir_key_small_bucket": "key at hand, token-bucket with a burst of 1000"}
# What the README says of others' requests while somebody makes up keys.
AIM_IN_SPRAY = 5
# Of more keys only what needs no more than their grants is measured.
MOST_BEYOND_GRANTS = 1_000_000


def measure(context):
    program = context.build / TARGETS[0]
    failures = []
    if context.quick:
        parts = [run_json(program, "--keys", 1000, "--rounds", 1, "--seconds", 0.02, env=on_huge_pages())]
    else:
        # A turn is as long as an interval, so that the end of one is in it. Of ten million keys a table takes long to fill:
        # it is done once, and what is measured on it is repeated.
        parts = [run_json(program, "--keys", "1000,100000,1000000", "--rounds", 3, "--seconds", 1, env=on_huge_pages())]
        try:
            parts.append(run_json(program, "--keys", 10_000_000, "--rounds", 1, "--repeats", 3, "--seconds", 1, env=on_huge_pages()))
        except Failed as failed:
            parts.append({"floor_bytes_per_key": {}, "runs": [], "left_out": []})
            failures.append((10_000_000, failed))
    figures = {"floor_bytes_per_key": {}, "runs": [], "sizes_left_out": []}
    for part, each in enumerate(parts):
        figures["floor_bytes_per_key"].update(each["floor_bytes_per_key"])
        figures["runs"] += [dict(one, round=(part, one["round"], one.get("repeat", 0))) for one in each["runs"]]
        for left_out in each["left_out"]:
            figures["sizes_left_out"].append(left_out["keys"])
            context.leave_out(f"decisions among {left_out['keys']:,} keys",
                              f"they need {left_out['bytes_needed'] / 1e9:.1f} GB of memory, there are {left_out['bytes_available'] / 1e9:.1f}")
    for size, failed in failures:
        figures["sizes_left_out"].append(size)
        context.remark(f"**decisions among {size:,} keys failed: {failed}**")
    if not any(one["contender"] == "tbb_map" for one in figures["runs"]):
        context.leave_out("TBB concurrent_hash_map", "not there when the build folder was configured (Debian: libtbb-dev)")
    return {**figures, "runs": those_that_add_up(figures["runs"], context, lambda one: f"{one['contender']}, {one['keys']:,} keys")}


class Turns:
    """What was measured, by contender, number of keys, how they were drawn, and round."""

    def __init__(self, runs):
        self._runs = {}
        for one in runs:
            self._runs.setdefault((one["contender"], one["keys"], one["drawn"]), {})[tuple(one["round"])] = one
        self.sizes = sorted({keys for _, keys, _ in self._runs if keys > 1})

    def all(self, contender, keys, drawn, figure):
        """What a turn tells of itself, of each round once, however often it was repeated in a turn."""
        return [one[figure] for (*_, repeat), one in self._runs.get((contender, keys, drawn), {}).items() if repeat == 0]

    def ns(self, contender, keys, drawn):
        each = self._runs.get((contender, keys, drawn))
        return median([one["ns"] for one in each.values()]) if each else None

    def floor_ns(self, keys, drawn):
        found = [one["floor_ns"] for (_, size, how), each in self._runs.items() if (size, how) == (keys, drawn) for one in each.values()]
        return median(found) if found else None

    def times_floor(self, contender, keys, drawn):
        each = self._runs.get((contender, keys, drawn))
        return median([one["ns"] / one["floor_ns"] for one in each.values()]) if each else None

    def times(self, contender, other, keys, drawn):
        """How many times what the other takes, each by its floor of the same round."""
        mine, others = (self._runs.get((name, keys, drawn), {}) for name in (contender, other))
        found = [
            (mine[turn]["ns"] / mine[turn]["floor_ns"]) / (others[turn]["ns"] / others[turn]["floor_ns"])
            for turn in mine.keys() & others.keys()
        ]
        return median(found) if found else None


def _rows(turns, contenders, drawn):
    rows = [(FLOOR, *(number(turns.floor_ns(size, drawn)) for size in turns.sizes))]
    for contender, words in contenders:
        cells = []
        for size in turns.sizes:
            ns = turns.ns(contender, size, drawn)
            cells.append("" if ns is None else f"{number(ns)} ({turns.times_floor(contender, size, drawn):.2f})")
        if any(cells):
            rows.append((words, *cells))
    return table(("ns per request (times the floor)", *(f"{size:,} keys" for size in turns.sizes)), rows)


def _add_aims(aims, turns, drawn, sizes_left_out):
    for size in sorted({*turns.sizes, *sizes_left_out}):
        where = f"{size:,} keys, {drawn}"
        for contender, words in KEY_AT_HAND.items():
            if contender != "weir_key" and size > MOST_BEYOND_GRANTS:
                continue
            times_floor = turns.times_floor(contender, size, drawn)
            if size >= LARGE:
                aims.at_most(f"{words} / floor, from a million keys on", where, times_floor, AIM_LARGE)
            else:
                aims.at_most(f"{words} / floor, below a million keys", where, times_floor, AIM_SMALL)
        if size <= MOST_BEYOND_GRANTS:
            aims.at_most("key at hand while keys are made up / else", where, turns.times("weir_key_in_spray", "weir_key_by_bursts", size, drawn), AIM_IN_SPRAY)
        aims.at_least("rte_hash / key at hand", where, turns.times("rte_hash", "weir_key", size, drawn), 3)
        aims.at_least("mutex and map / key at hand, one thread", where, turns.times("mutex_and_map", "weir_key", size, drawn), 25)
        aims.at_most("a request under three rules / under one", where, turns.times("weir_three_rules", "weir_one_rule", size, drawn), 3)


def _with_a_controller(turns):
    rows = []
    for size in turns.sizes:
        for drawn in DRAWN:
            by_floors = turns.times("weir_key_alone", "weir_key", size, drawn)
            if by_floors:
                without, beside = (1e3 / turns.ns(name, size, drawn) for name in ("weir_key_alone", "weir_key"))
                rows.append((f"{size:,}", drawn, number(without), number(beside), f"{beside / without:.2f}", f"{by_floors:.2f}"))
    return table(("keys", "drawn", "million decisions/s, without", "with", "with / without", "the same, each by its floor of the same round"), rows)


def _turns_with_a_controller(turns):
    """A turn has both streams, and counts for both together."""
    rows = []
    for size in turns.sizes:
        of = {figure: sum(turns.all("weir_key", size, next(iter(DRAWN)), figure))
              for figure in ("spans", "overruns", "requests", "overflowed", "requests_once_met", "refused")}
        if of["requests"]:
            rows.append((f"{size:,}", f"{of['overruns']} of {of['spans']}", f"{of['overflowed']:,} of {of['requests'] / 1e6:.0f}",
                         f"{of['refused']:,} of {of['requests_once_met'] / 1e6:.0f}"))
    return table(("keys", "spans that ended late", "without room, of so many million", "refused once all keys had been met, of so many million"), rows)


def report(figures, context, aims):
    turns = Turns(figures["runs"])
    footprints = ", ".join(f"{number:.1f} of {int(keys):,}" for keys, number in figures["floor_bytes_per_key"].items())
    parts = [
        "Bursts of 32; time of the deciding thread alone. Our contenders have met their keys before and run with their "
        "controller at work, spans of 100 ms: flips, publications, drains, draws, and each span's first touches are in their "
        "figures, and the end of an interval, for a turn is as long. Every contender's turn begins and ends with a floor of its own, on the same requests: a prefetched read-modify-write "
        "of a random line for each, among as many lines as those that a worker's common decisions touch (bytes per key: "
        f"{footprints}); those of the next burst are asked for in a row, or one by one between the writes, and the quicker way counts. Ratios are to that floor (between "
        "two contenders: of their ratios in the same round), and medians over the rounds. Every contender's counters were checked "
        "against the number of requests. Spans end by "
        "the wall clock: where others take the processor, fewer decisions share a span's first touches, and our figures, not the "
        "peers', rise with the number of keys. The section on more workers has peers on several threads.",
        "How soon lines come depends on when they are asked for. So each way of the floor is a contender, too, as it is three bursts "
        "ahead instead of one, where a worker, too, may be told of them by who "
        "knows the keys so early (a queue, a batch of requests): that one's like is the floor of as many bursts.",
        "*A key at hand* is one of the default algorithm's, cooldown, far from its limit: a worker may admit a 64th of the limit without asking, and that touches one "
        "line. fixed-window and shed are the same; under sliding-window it is a 192th. Under the other algorithms, and beyond that part, a worker draws from a cell that all workers "
        "share: from a bucket in chunks, in each span anew, or, where its burst is small, for each request. So what they take depends on how often a key comes within a span. "
        "*rte_hash* is given the keys' hashes, as ours is, and a comparison for their 8 bytes (rte_hash_set_cmp_func), without which it would call memcmp for each. "
        "*rte_meter*'s meters are asked for a burst ahead, and none lies on two lines. The map under a lock makes and hashes its string for each request, as tutorials write it, "
        "while ours and the others are given keys that are hashed: its like in that is *a request under one rule*. "
        "Tables lie on huge pages where the kernel has some to give, and so does what the map under a lock keeps, by glibc's tunables (malloc.hugetlb, malloc.arena_max): without them it took up to 1.7 times as long. "
        "TBB's allocator is told to take them, but does not ask for them where they are given to who asks (madvise); with glibc's, on huge pages, it was as quick, within a twentieth, where that was tried. "
        "*Blocked*: all keys have been refused before, as in an attack. *Made up*: known keys, in a node with room for twice as many (at least 65,536), and in "
        "between, not timed, requests of keys never met before, until there is no room and for as long as is measured. All these: up to a million keys.",
    ]
    for drawn, words in DRAWN.items():
        parts += [f"### {words}", _rows(turns, STEADY, drawn)]
        names = [FLOOR] + [name.replace("*", "") for _, name in STEADY]
        values = [[turns.floor_ns(size, drawn), *(turns.ns(contender, size, drawn) for contender, _ in STEADY)] for size in turns.sizes]
        svg = bars(f"A decision. {words}", "ns per request, logarithmic", [f"{size:,} keys" for size in turns.sizes],
                   names, values, logarithmic=True)
        parts.append(context.plot(f"decision-{drawn}", svg))
        _add_aims(aims, turns, drawn, figures["sizes_left_out"])
    parts += [
        "### First touches",
        "Every key once, in random order: known from the spans before, and its first request in the running one, driven span by "
        "span without a second thread; or unknown, to a table that was made for so many and is empty.",
        _rows(turns, FIRST, "once"),
        "### What the controller costs the worker",
        "The same keys at hand, with the controller on another processor ending a span every 100 ms, and where the measuring thread "
        "ends as many itself, between parts that are timed: nobody is beside it then, but its caches hold what that has left. By the worker's own time.",
        _with_a_controller(turns),
        "Of the turns with a controller, in each of which keys are drawn in both ways: spans whose end took longer than the next one's time, and requests "
        "that were counted under their rule because their key found no room: of whole turns, which begin with all keys new at once. And, of "
        "what came once they had all been met, requests refused for want of what the controller brings (limits are out of reach; a turn with more than one in a "
        "thousand counts for nothing).",
        _turns_with_a_controller(turns),
    ]
    rows = []
    for contender, words in DENSE.items():
        ns = turns.ns(contender, 1, "uniform")
        if ns is not None:
            rows.append((words, number(ns), f"{turns.times_floor(contender, 1, 'uniform'):.2f}"))
        aims.at_most("rule without dimensions / array", words, turns.times_floor(contender, 1, "uniform"), 2)
    if rows:
        parts += ["### Rules without dimensions",
                  "The only key of each, in bursts of requests of one route or of several, drawn at random; and an array's elements, one incremented after the other.",
                  table(("", "ns per request", "times the array"), [("array", number(turns.floor_ns(1, "uniform")), ""), *rows])]
    return parts
