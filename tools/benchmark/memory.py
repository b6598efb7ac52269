# SPDX-License-Identifier: BSD-3-Clause
"""What an active key takes of each worker's memory: from the program that the README's table is made with."""

from common import number, run, table

TITLE = "What a key takes of a worker's memory"
TARGETS = ("tools/key-memory/weir-key-memory",)
STATES = {
    "within": "little is asked of any: all within their grants",
    "tenth": "of a tenth more is asked",
    "beyond": "of all more is asked",
    "ungranted": "all, under rules without grants",
    "blocked": "the same, all blocked",
}
AIM = 32


def measure(context):
    """Bytes per key and worker, by state and number of keys."""
    figures = []
    for line in run(context.build / TARGETS[0]).splitlines():
        state, *numbers = line.split()
        if state in STATES:
            keys, resident, provided, reserved = map(int, numbers)
            figures.append({"state": state, "keys": keys, "resident": resident, "provided": provided, "reserved": reserved})
    return figures


def report(figures, context, aims):
    sizes = sorted({each["keys"] for each in figures})
    of = {(each["state"], each["keys"]): each for each in figures}
    rows = [
        (words, *(number(of[state, size][figure]) for size in sizes for figure in ("provided", "resident", "reserved")))
        for state, words in STATES.items()
    ]
    for state, words in STATES.items():
        for size in sizes:
            aims.at_most(f"bytes per active key and worker: {words}", f"{size:,} keys", of[state, size]["provided"], AIM)
            # Whoever reads what the process takes finds this.
            aims.at_most(f"the same, as the process has grown: {words}", f"{size:,} keys", of[state, size]["resident"], AIM)
    return [
        "Both of a worker's span tables and its grants, made for so many keys, which then all come; once none is new any more. Keys' names are IPv4 addresses. "
        "As the tables tell it; as the process has grown (the kernel rounds up, on some systems to huge pages); and at most, ever "
        "(addresses reserved). The README's chapter on algorithms has the same figures, and what a node takes beside.",
        table(("bytes per key and worker", *(f"{size:,} keys, {words}" for size in sizes for words in ("as the tables tell", "as the process has grown", "at most"))), rows),
    ]
