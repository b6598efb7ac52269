# SPDX-License-Identifier: BSD-3-Clause
"""What the sections of the report share: programs, medians, tables."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A measurement that cannot be trusted or made: says what and why."""


class Context:
    """Where things are, and how much time there is. `quick` shortens every section to some seconds."""

    def __init__(self, build, output, quick):
        self.build = build
        self.output = output
        self.quick = quick
        self.left_out = []

    def leave_out(self, what, why):
        """Takes note of something that this machine cannot show: it goes into the report as a row of its own."""
        self.remark(f"left out: {what}: {why}")

    def remark(self, line):
        """What a reader of the figures has to know."""
        if line not in self.left_out:
            self.left_out.append(line)
            print(line, flush=True)


def run(*command, **options):
    """A program's standard output; Failed unless it ends well."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: exit status {done.returncode}\n{(done.stderr or done.stdout)[-3000:]}")
    return done.stdout


def run_json(*command, **options):
    return json.loads(run(*command, **options))


def on_huge_pages():
    """The environment of programs that measure peers whose memory is malloc's: as ours, it shall lie on huge pages, that of threads, too."""
    tunables = (os.environ.get("GLIBC_TUNABLES"), "glibc.malloc.hugetlb=1", "glibc.malloc.arena_max=1")
    return {**os.environ, "GLIBC_TUNABLES": ":".join(filter(None, tunables)), "TBB_MALLOC_USE_HUGE_PAGES": "1"}


def find_program(name):
    """Its path, or None. Debian keeps servers where not every PATH looks."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")


def google_benchmark(context, program, name, pattern, repetitions, seconds):
    """Median processor time in ns of one iteration, by name; all contenders in random order."""
    output = context.output / f"{name}-runs.json"
    run(
        program,
        "--benchmark_enable_random_interleaving=true",
        f"--benchmark_repetitions={repetitions}",
        f"--benchmark_min_time={seconds}",
        f"--benchmark_filter={pattern}",
        "--benchmark_out_format=json",
        f"--benchmark_out={output}",
    )
    return google_benchmark_medians(context, output)


def google_benchmark_medians(context, output):
    """The same from the file that the program has left. A run that did not add up counts for nothing, and is told."""
    times, wrong = {}, {}
    for entry in json.loads(output.read_text(encoding="utf-8"))["benchmarks"]:
        if entry.get("run_type") == "aggregate":
            continue
        if entry.get("error_occurred"):
            wrong.setdefault((entry["run_name"], entry["error_message"]), []).append(entry)
        else:
            # The contender's thread's own time: the machine may be lent to others meanwhile.
            times.setdefault(entry["run_name"], []).append(entry["cpu_time"])
    for (name, message), entries in wrong.items():
        runs = len(entries) + len(times.get(name, ()))
        context.remark(f"**{name}: {len(entries)} of {runs} runs are not in the figures: {message}**")
    if not times:
        raise Failed(f"{output}: no run that adds up")
    return {name: statistics.median(each) for name, each in times.items()}


def process_cpu(pid):
    """Processor time in seconds that a process of ours has had, all its threads together."""
    return time.clock_gettime((~pid << 3) | 2)  # CLOCK_PROCESS_CPUTIME_ID of another process, as clock_getcpuclockid(3)


def those_that_add_up(turns, context, name):
    """Turns without those that are `wrong`, of which the report says how many there are, by name(turn), and what the first has to complain of."""
    wrong = {}
    for each in turns:
        if "wrong" in each:
            wrong.setdefault(name(each), []).append(each["wrong"])
    for who, words in wrong.items():
        context.remark(f"**{who}: {len(words)} turns are not in the figures: {words[0]}**")
    return [each for each in turns if "wrong" not in each]


def median(values):
    return statistics.median(values)


def spread(values):
    """Half of the runs lie within: (lower, upper) quartile."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def number(value):
    if value is None:
        return ""
    if value >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


class Aims:
    """What a section's figures are held against: each aim beside what was measured, met or not.

    An aim is told once for each `where` (a number of keys, a source of frames, …), and once for all of them at the report's top.
    """

    def __init__(self, section):
        self.section = section
        self._rows = []
        self._why_none = ""

    def at_most(self, what, where, measured, bound):
        """measured: None where there is no figure; the report then says so."""
        self._rows.append((what, where, measured, f"≤ {bound:.3g}", None if measured is None else measured / bound))

    def at_least(self, what, where, measured, bound):
        self._rows.append((what, where, measured, f"≥ {bound:.3g}", None if measured is None else bound / max(measured, 1e-9)))

    def give_up(self, why):
        """None of them is known: the section has a row with these words at the report's top instead."""
        self._rows, self._why_none = [], why

    @staticmethod
    def _verdict(part):
        """part: of the bound, used up; None: nobody knows."""
        return "not measured" if part is None else "met" if part <= 1 else "**not met**"

    def table(self):
        return table(("aim", "", "measured", "aim", ""), [
            (what, where, number(measured), aim, self._verdict(part)) for what, where, measured, aim, part in self._rows
        ])

    def summary(self):
        """A row for each aim: where it is missed most, or met most narrowly."""
        if self._why_none:
            return [(self.section, "all", "", "", self._why_none)]
        by_aim = {}
        for row in self._rows:
            by_aim.setdefault((row[0], row[3]), []).append(row)
        rows = []
        for (what, aim), each in by_aim.items():
            told = [row for row in each if row[4] is not None]
            if not told:
                rows.append((self.section, what, aim, "", "not measured"))
                continue
            _, where, measured, _, part = max(told, key=lambda row: row[4])
            met = sum(row[4] <= 1 for row in told)
            missing = f", {len(each) - len(told)} not measured" if len(told) < len(each) else ""
            rows.append((self.section, what, aim, number(measured) + (f" ({where})" if where else ""),
                         self._verdict(part) + (f", {met} of {len(told)} met" if len(each) > 1 else "") + missing))
        return rows

    def __bool__(self):
        return bool(self._rows)


def summary(sections):
    """All sections' aims in one table. sections: their Aims."""
    rows = [row for aims in sections for row in aims.summary()]
    return table(("section", "aim", "", "measured, at its worst", ""), rows) if rows else ""
