# SPDX-License-Identifier: BSD-3-Clause
"""weir-filter from end to end, one worker: its own loop between two ports, beside loops that only forward."""

import contextlib
import random

from common import Failed, median, number, run_json, spread, table, those_that_add_up
from plot import bars
import testpmd

TITLE = "weir-filter from end to end"
TARGETS = ("bench/filter/bench-filter",)
SOURCES = {
    "null-4096": "A, 4,096 mbufs",
    "null-16384": "A, 16,384 mbufs",
    "loop": "F, loop of rings",
    "cloned": "E, cloned by another core",
    "fresh": "written by another core",
}
OURS = {
    "io": "io: receive and send, no more",
    "first_line_read": "floor: io, and the first line of each frame read",
    "frame_read": "floor: io, and all lines of each frame read",
    "no_http": "**weir-filter**, no HTTP in the packets",
    "no_match": "**weir-filter**, no rule that matches",
    "request_line": "**weir-filter**, request line (method, path)",
    "three_headers": "**weir-filter**, and three headers",
    "three_rules": "**weir-filter**, three rules: global, user, endpoint",
    "four_routes": "**weir-filter**, four rules, each of one route and a header",
    "many_routes": "**weir-filter**, the same among 60 others that nobody asks for",
    "small_bucket": "**weir-filter**, request line, each token of a bucket drawn by itself",
    "blocked": "**weir-filter**, an attack: all keys blocked, all frames dropped",
    "answered": "**weir-filter**, the same, each request answered to both ends (reply-429)",
    "used_up": "**weir-filter**, the first, limits used up (fixed-window)",
    "empty_bucket": "**weir-filter**, the same, buckets empty (token-bucket)",
    "one_of_three_blocks": "**weir-filter**, the same, blocked by one of three rules",
}
# Their frames end here, so there must be others.
REFUSING = ("blocked", "answered", "used_up", "empty_bucket", "one_of_three_blocks")
THEIRS = {"testpmd io": "dpdk-testpmd io", "testpmd macswap": "dpdk-testpmd macswap"}
CONTENDERS = {**THEIRS, **OURS}
# Rates as a part of io's on the same source.
AIMS = {"request_line": 0.40, "three_headers": 0.22, "three_rules": 0.25, "no_http": 0.85}
# On F, whose own io moves pointers only, as a part of io's on A: the prototype's 60 and 28 of 98.5 million.
LOOP_AIMS = {"request_line": 0.61, "three_headers": 0.28}
# Where the worker waited for a larger part of its time, what is left of it is a difference of large numbers.
WAITED_TOO_LONG = 0.8


def _testpmd(source):
    """One on the same devices, or None where it has none of that kind: its worker generates nothing for itself."""
    if source == "loop":
        return testpmd.Testpmd(source, ("net_ring0", "net_ring1"), 16384, True)
    if source.startswith("null-"):
        return testpmd.Testpmd(source, tuple(f"net_null{i},size=200,copy=0" for i in range(2)), int(source[5:]), False)
    return None


def _testpmds(sources, context, stack):
    """By source, each until the stack is unwound."""
    made = {}
    if not testpmd.available():
        context.leave_out("dpdk-testpmd", "not installed (Debian: dpdk-dev)")
        return made
    try:
        for source in sources:
            if peer := _testpmd(source):
                stack.callback(peer.end)
                made[source] = peer
    except Failed as failed:
        context.leave_out("dpdk-testpmd", str(failed).splitlines()[0])
    return made


def _turn_of_testpmd(peer, mode, seconds):
    try:
        return {"huge_pages": peer.huge_pages, "ns_per_frame": peer.forward(mode, seconds)}
    except Failed as failed:
        return {"wrong": str(failed).splitlines()[0]}


def measure(context):
    rounds, seconds = (1, 0.05) if context.quick else (5, 0.4)
    sources = ("null-4096", "loop", "cloned") if context.quick else tuple(SOURCES)
    runs = []
    with contextlib.ExitStack() as stack:
        peers = _testpmds(sources, context, stack)
        turns = [(source, name) for source in sources for name in OURS if name not in REFUSING or source.startswith("null-")] + [(source, name) for source in peers for name in THEIRS]
        order = random.Random(1)
        for turn in range(rounds):
            order.shuffle(turns)
            for source, name in turns:
                if name in THEIRS:
                    # So long on the wall; ours get so much of their processor, and as much more to warm up.
                    each = {"source": source, "contender": name, **_turn_of_testpmd(peers[source], name.split()[1], max(seconds, 0.2) * 1.5)}
                else:
                    (each,) = run_json(context.build / TARGETS[0], "--rounds", 1, "--seconds", seconds, "--sources", source,
                                       "--contenders", name)["runs"]
                runs.append({**each, "round": turn})
    runs = those_that_add_up(runs, context, lambda each: f"{SOURCES[each['source']]}: {each['contender']}")
    if not runs:
        raise Failed("bench-filter: no turn adds up")
    return _without_idle(runs, context)


def _without_idle(runs, context):
    """All turns but those of who hardly ever found a frame. Each contender's stay or go together: those that found most are not the others' like."""
    waits = {}
    for each in runs:
        if "waited" in each:
            waits.setdefault((each["source"], each["contender"]), []).append(each["waited"])
    idle = {who: median(waited) for who, waited in waits.items() if median(waited) > WAITED_TOO_LONG}
    for (source, name), waited in idle.items():
        missing = ", and so are no parts of io" if name == "io" else ""
        context.remark(f"**{SOURCES[source]}: {name} is not in the figures{missing}: the worker waited for frames for {waited:.0%} of its time**")
    return [each for each in runs if (each["source"], each["contender"]) not in idle]


class Turns:
    """What was measured, by source and contender, in each round."""

    def __init__(self, runs):
        self._runs = {}
        for each in runs:
            self._runs.setdefault((each["source"], each["contender"]), {})[each["round"]] = each
        self.sources = [source for source in SOURCES if any(key[0] == source for key in self._runs)]

    def all(self, source, name, figure="ns_per_frame"):
        return [each[figure] for each in self._runs.get((source, name), {}).values()]

    def ns(self, source, name):
        values = self.all(source, name)
        return median(values) if values else None

    def part_of_io(self, source, name, io_source=None, peer="io"):
        """A rate as a part of io's in the same round, on the same source or another: the median over the rounds that have both."""
        io, mine = self._runs.get((io_source or source, peer), {}), self._runs.get((source, name), {})
        parts = [io[turn]["ns_per_frame"] / mine[turn]["ns_per_frame"] for turn in io.keys() & mine.keys()]
        return median(parts) if parts else None

    def rows(self, names, cell):
        """A row for each contender, a cell for each source, of cell(source, name); contenders without any are left out."""
        rows = [(words, *(cell(source, name) if self.all(source, name) else "" for source in self.sources)) for name, words in names.items()]
        return [row for row in rows if any(row[1:])]


def _on_huge_pages(runs):
    """Whether testpmd's mbufs lie where ours do, too, if the kernel gives such to who asks."""
    return all(each["huge_pages"] for each in runs if each["contender"] in THEIRS)


def _waiting(turns):
    """Who was the limit where another core generates."""
    rows = []
    for name, words in OURS.items():
        if not turns.all("cloned", name):
            continue
        with_waiting = median(turns.all("cloned", name, "ns_per_frame_and_waiting"))
        rows.append((words, f"{1e3 / turns.ns('cloned', name):.1f}", f"{1e3 / with_waiting:.1f}",
                     f"{median(turns.all('cloned', name, 'waited')):.0%}"))
    return table(("E: million frames per second of the worker's time", "while there were frames", "all of it", "part of it that it polled in vain"), rows)


def report(runs, context, aims):
    turns = Turns(runs)
    ours = [each for each in runs if each["contender"] in OURS]
    parts = [
        "200 B frames with one request each, all different; the loop and the burst filter are those of the program. All rows took "
        "turns, in random order, round by round; the part of io is that in the same round. Where the frames come from:",
        "- A: net_null that copies nothing, over a FIFO pool whose mbufs were filled beforehand, so the generator is the pool.\n"
        "- F: rings in a loop, where nothing is allocated or freed: a ceiling. Its io moves pointers only, so its aims are parts of A's io, as in the prototype they come from.\n"
        "- E: a generator on the other processor attaches mbufs to prepared frames (as rte_pktmbuf_clone does), hands them over through a ring "
        "for as long as that has room, and frees what comes back. The check that A flatters nobody: mbufs come from another core. "
        "Polls in vain are timed, taken off the worker's time, and told: where they are many, the generator was the limit, and who polled in vain for "
        f"more than {WAITED_TOO_LONG:.0%} of its time, in the median, is left out.\n"
        "- Written by another core: the frames' bytes, too, lie in another core's cache, as they would where no device puts them into "
        "ours. A generator that copies would be the limit, so helpings are timed, from the moment they are there until the last "
        "frame has left (on a busy machine that contains whoever else ran).",
        "Of an attack, all frames of which are refused, the frames go back to A's pool; it is measured once all keys have "
        "exceeded their limits. As the same frames come round, what is answered has been before, on the same connection: most answers "
        "are given once more, which takes three quarters of the instructions of the first one (tests/instructions).",
        "Every run was checked: frames in, and answers, = frames out + dropped + kept, by our count and by the ports', frames made = frames come back, "
        f"and the rules counted each request but those that are answered once more. Frames of whole turns: {sum(each['received'] for each in ours):,}; dropped for want of room at a port: "
        f"{sum(each['dropped'] for each in ours):,}; dropped by the filter, as refused and not answered: {sum(each['refused'] for each in ours):,}. "
        "A, F and E: the worker's own processor time.",
        "The floors ask for the lines of a whole burst at once and read a word of each: without HTTP weir-filter reads the first line of a "
        "frame, of a request all. What is between io and a floor is hardly more than memory's, and no filter that looks at the bytes is "
        "without it; what is between a floor and weir-filter is work.",
        "The row io, a loop of dpdk-testpmd's shape on our mbufs, is what all are divided by. "
        + ("testpmd itself makes its own mbufs: in a pool of the same size and kind on the same device, but without requests "
           "in them (it reads none), and in DPDK's memory. "
           + ("That lay on huge pages, as ours does. " if _on_huge_pages(runs) else
              "**That lay on small pages**, which make it two to four times as slow: to be fair to it, set huge ones aside (256 in "
              "/proc/sys/vm/nr_hugepages do). ") +
           "Its macswap touches a frame's first line; it writes to it, as weir-filter does not."
           if any(each["contender"] in THEIRS for each in runs) else "testpmd itself is not in the figures."),
    ]

    def rate(source, name):
        part = turns.part_of_io(source, name)
        return f"{1e3 / turns.ns(source, name):.1f}" + (f" ({part:.2f})" if part else "")

    def time_taken(source, name):
        return f"{number(turns.ns(source, name))} ({' … '.join(number(v) for v in spread(turns.all(source, name)))})"

    heads = [SOURCES[source] for source in turns.sources]
    parts += [
        table(("million frames per second (part of io)", *heads), turns.rows(CONTENDERS, rate)),
        table(("ns per frame: median (half of the runs)", *heads), turns.rows(CONTENDERS, time_taken)),
    ]
    if "cloned" in turns.sources:
        parts.append(_waiting(turns))
    names = [name for name in CONTENDERS if any(turns.all(source, name) for source in turns.sources)]
    values = [[1e3 / turns.ns(source, name) if turns.ns(source, name) else None for name in names] for source in turns.sources]
    svg = bars("weir-filter, one worker", "million frames per second of its processor time, logarithmic", heads, names, values,
               logarithmic=True)
    parts.append(context.plot("filter", svg))
    for name, aim in AIMS.items():
        for source in SOURCES:
            if source.startswith("null-"):
                aims.at_least(f"A: {name.replace('_', ' ')} / io", SOURCES[source], turns.part_of_io(source, name), aim)
                of_testpmd = turns.part_of_io(source, name, peer="testpmd io") if _on_huge_pages(runs) else None
                aims.at_least(f"A: {name.replace('_', ' ')} / dpdk-testpmd io", SOURCES[source], of_testpmd, aim)
    for name, aim in LOOP_AIMS.items():
        aims.at_least(f"F: {name.replace('_', ' ')} / A's io", SOURCES["null-4096"], turns.part_of_io("loop", name, "null-4096"), aim)
    return parts
