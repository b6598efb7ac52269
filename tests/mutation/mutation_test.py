#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Would the tests notice? Each deliberately wrong variant of the engine and the data plane (mutants.py) must make the
test that is named for it fail, by an assertion; and that test must pass without it, compiled in the same way.

Only the sources that the change reaches are compiled again, without optimisation, and linked ahead of the libraries
with the test program's own objects; the mutants of one test program, as far as possible, once for all of them
(combined.py). Nothing is written below the sources or the build folder. One test runs in several processes at once:
those that mutants name write no files of a fixed name and bind no ports.

Clang compiles these in half to three quarters of GCC's time, and LLD links in less than half of GNU ld's: where the
machine has them, they are taken.

Environment: WEIR_SOURCE_ROOT, WEIR_BUILD_ROOT (a configured build folder in which the unit tests have been built).
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import combined
import mutants
from mutants import PROGRAMS

SOURCE = pathlib.Path(os.environ["WEIR_SOURCE_ROOT"]).resolve()
BUILD = pathlib.Path(os.environ["WEIR_BUILD_ROOT"]).resolve()


@functools.lru_cache(maxsize=None)
def abilities():
    """What the machine's processors can do, as Linux names it."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.M)
    return set(flags[1].split()) if flags else set()


def is_possible(mutant):
    """Whether the program is there, and what the mutant changes runs on this machine."""
    there = mutant["program"] not in mutants.OPTIONAL or (BUILD / PROGRAMS[mutant["program"]]).is_file()
    return there and mutant.get("set") in {None, *abilities()}


MUTANTS = [mutant for mutant in mutants.MUTANTS if is_possible(mutant)]

QUICK_COMPILER = shutil.which("clang++")
QUICK_LINKER = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []

# A mutant may loop for ever: time of processors, which is the same however many programs run beside it (the named tests take
# milliseconds, a few of them, not optimised, some seconds). What waits for ever takes none.
PATIENCE_CPU_S = 120
PATIENCE_S = 600

# Random payloads where a test has them by the million: not optimised, a quarter of a minute.
FEWER = {"WEIR_TEST_HEADS": "50000"}

# Whatever waits for its turn does so in a thread of its own; as many programs run at a time.
PROCESSORS = threading.BoundedSemaphore(os.cpu_count())


def run(command, **more):
    with PROCESSORS:
        return subprocess.run(
            command,
            cwd=BUILD,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            **more,
        )


def in_parallel(work, subjects):
    """Each of the subjects and what the work on it came to, in their order."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(subjects))) as pool:
        yield from zip(subjects, pool.map(work, subjects))


@functools.lru_cache(maxsize=None)
def compile_commands():
    with open(BUILD / "compile_commands.json", encoding="utf-8") as file:
        return {(BUILD / entry["file"]).resolve(): shlex.split(entry["command"]) for entry in json.load(file)}


def object_of(unit):
    command = compile_commands()[(SOURCE / unit).resolve()]
    return command[command.index("-o") + 1]


@functools.lru_cache(maxsize=None)
def link_command(program):
    ninja = shutil.which("ninja") or shutil.which("ninja-build")
    if ninja is None:
        raise RuntimeError("ninja is needed to look up how the test programs are linked: install it")
    done = run([ninja, "-C", str(BUILD), "-t", "commands", PROGRAMS[program]])
    lines = [line for line in done.stdout.splitlines() if f"-o {PROGRAMS[program]} " in line]
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"no link command of {PROGRAMS[program]} in {BUILD}:\n{done.stdout}")
    return shlex.split(lines[-1])


@functools.lru_cache(maxsize=None)
def source_text(file):
    return (SOURCE / file).read_text(encoding="utf-8")


@functools.lru_cache(maxsize=None)
def bodies(file):
    return combined.bodies(source_text(file))


def applies(mutant):
    """Once, and changes something."""
    return source_text(mutant["file"]).count(mutant["old"]) == 1 and mutant["old"] != mutant["new"]


def mutated(mutant):
    """The changed text. The old one must be there exactly once: a mutant that no longer applies has gone stale."""
    text = source_text(mutant["file"])
    count = text.count(mutant["old"])
    if count != 1:
        raise AssertionError(
            f"{mutant['name']}: its text is found {count} times in {mutant['file']}, must be once:\n{mutant['old']}"
        )
    if mutant["old"] == mutant["new"]:
        raise AssertionError(f"{mutant['name']}: it changes nothing")
    return text.replace(mutant["old"], mutant["new"])


def can_be_combined(mutant):
    return applies(mutant) and combined.can_be_combined(source_text(mutant["file"]), bodies(mutant["file"]), mutant)


def units_of(mutant):
    return mutant.get("units", [mutant["file"]])


def together(some):
    """The mutants in lists, each of which is built from the same units: one program for all, or where they cannot be combined
    one for each. The longest first."""
    alike = {}
    for mutant in some:
        alike.setdefault((mutant["program"], None if can_be_combined(mutant) else tuple(units_of(mutant))), []).append(mutant)
    return sorted(alike.values(), key=len, reverse=True)


def unoptimised(unit):
    """As the build compiles a unit, but quick to compile."""
    command, skip = [], False
    for word in compile_commands()[(SOURCE / unit).resolve()]:
        if pathlib.Path(word).name == "ccache":
            continue  # no mutant is compiled twice
        if skip:
            skip = False
        elif word in ("-MF", "-MQ", "-MT", "-o"):
            skip = True
        elif word == "-c" or word.startswith(("-MD", "-O", "-g", "-Werror")):
            continue
        elif (BUILD / word).resolve() == (SOURCE / unit).resolve():
            continue
        else:
            command.append(word)
    if QUICK_COMPILER is not None:
        command[: first_option(command)] = [QUICK_COMPILER]
    return command + ["-O0", "-g0", "-w"]


def first_option(command):
    return next(i for i, word in enumerate(command) if word.startswith("-"))


def inserted(command, options):
    """The command with further options ahead of all others."""
    first = first_option(command)
    return command[:first] + options + command[first:]


def built(program, texts, units, folder):
    """@return the program, with these texts in place of the sources that they are named for, and the units compiled again"""
    # Includes name "room/file.h", below lib or app: changed headers come before the rooms' own.
    overlay = folder / "overlay"
    overlay.mkdir(parents=True)
    changed = {file: overlay.joinpath(*pathlib.Path(file).parts[1:]) for file in texts}
    for file, text in texts.items():
        changed[file].parent.mkdir(parents=True, exist_ok=True)
        changed[file].write_text(text, encoding="utf-8")

    def compiled(numbered):
        number, unit = numbered
        target = str(folder / f"{number}-{pathlib.Path(unit).stem}.o")
        source = str(changed.get(unit, SOURCE / unit))
        command = inserted(unoptimised(unit), [f"-I{overlay}"])
        return target, run([*command, "-o", target, "-c", source])

    link = list(link_command(program))
    output = link.index("-o")
    link[output + 1] = str(folder / "program")
    for (_, unit), (target, done) in in_parallel(compiled, list(enumerate(units))):
        if done.returncode != 0:
            raise AssertionError(f"does not compile as {unit}:\n{done.stdout}")
        usual = object_of(unit)
        # First: what it defines is taken neither from the libraries any more nor, of a header, from the other tests.
        link.insert(output + 2, target)
        if usual in link:
            link.remove(usual)  # the test's own
    # What debuggers read of the unchanged objects would be most of what is written.
    done = run(inserted(link, ["-Wl,--strip-debug", *QUICK_LINKER]))
    if done.returncode != 0:
        raise AssertionError(f"does not link:\n{done.stdout}")
    return folder / "program"


def run_test(program, test, picked=0):
    """@return (its exit status, None if it took too long; what it said; whether it ran exactly the one test)"""
    try:
        done = run(
            ["prlimit", f"--cpu={PATIENCE_CPU_S}:{2 * PATIENCE_CPU_S}", str(program), f"--gtest_filter={test}", "--gtest_color=no"],
            # A mutant does not lie where a program of the build looks for the library from.
            env={**FEWER, **os.environ, "LD_LIBRARY_PATH": str(BUILD / "lib"), combined.VARIABLE: str(picked)},
        )
    except subprocess.TimeoutExpired:
        return None, f"{test} took more than {PATIENCE_S} s", True
    if done.returncode == -signal.SIGXCPU:
        return None, f"{test} took more than {PATIENCE_CPU_S} s of processor time", True
    ran = re.search(r"^\[=+\] Running 1 test from 1 test suite\.", done.stdout, re.M) is not None
    return done.returncode, done.stdout, ran


def noticed(program, mutant, picked):
    """Runs a mutant's test. @return '' when it fails as it should, else what is wrong"""
    status, said, ran = run_test(program, mutant["test"], picked)
    if not ran:
        return f"{mutant['test']} did not run:\n{said}"
    if status is None:
        return said
    if status == 0:
        return f"{mutant['test']} did not notice it"
    if status < 0 or f"[  FAILED  ] {mutant['test']}" not in said:
        return f"{mutant['test']} did not fail by an assertion (status {status}):\n{said}"
    return ""


def run_all(some, program, unchanged):
    """@param program  with the mutants, picked by their numbers from 1 on
    @param unchanged  compiled in the same way: where a test fails there, too, it has caught nothing"""
    fails = {}
    for test, (status, said, _) in in_parallel(lambda test: run_test(unchanged, test), sorted({mutant["test"] for mutant in some})):
        if status != 0:
            fails[test] = f"{test} fails without a mutant, too:\n{said}"

    def ends(numbered):
        number, mutant = numbered
        return fails.get(mutant["test"]) or noticed(program, mutant, number)

    return [wrong for _, wrong in in_parallel(ends, list(enumerate(some, start=1)))]


def caught_together(some, folder):
    numbered = {}
    for number, mutant in enumerate(some, start=1):
        numbered.setdefault(mutant["file"], []).append((number, mutant))
    texts = {file: combined.combine(source_text(file), these) for file, these in numbered.items()}
    units = sorted({unit for mutant in some for unit in units_of(mutant)})
    program = built(some[0]["program"], texts, units, folder)
    return run_all(some, program, program)


def caught_alone(some, folder):
    program, units = some[0]["program"], units_of(some[0])
    unchanged = built(program, {}, units, folder / "unchanged")

    def end(numbered):
        number, mutant = numbered
        changed = built(program, {mutant["file"]: mutated(mutant)}, units, folder / str(number))
        [wrong] = run_all([mutant], changed, unchanged)
        return wrong

    return [wrong for _, wrong in in_parallel(end, list(enumerate(some)))]


def parts_of(some):
    """What to try where a list cannot be built: the lists of its sources, or its halves. As a rule it is for one mutant's sake."""
    by_source = {}
    for mutant in some:
        by_source.setdefault(mutant["file"], []).append(mutant)
    half = len(some) // 2
    return list(by_source.values()) if len(by_source) > 1 else [some[:half], some[half:]]


def caught(some):
    """Builds mutants of one program and runs the test of each. @return for each '' when it is caught, else what is wrong"""
    ways = [caught_together] if can_be_combined(some[0]) else [caught_alone]
    if len(some) == 1 and caught_alone not in ways:
        ways.append(caught_alone)
    for way in ways:
        with tempfile.TemporaryDirectory(prefix="weir-mutant-") as folder:
            try:
                return way(some, pathlib.Path(folder))
            except AssertionError as error:
                wrong = str(error)
            except subprocess.TimeoutExpired as error:
                wrong = f"took too long: {error.cmd[0]}"
    if len(some) == 1:
        return [wrong]
    parts = parts_of(some)
    print(f"{some[0]['program']}: {len(some)} mutants in {len(parts)} parts, for together: {wrong}", file=sys.stderr)
    all_wrong = {}
    for part in parts:
        all_wrong |= zip((mutant["name"] for mutant in part), caught(part), strict=True)
    return [all_wrong[mutant["name"]] for mutant in some]


class Mutation(unittest.TestCase):
    def test_every_mutant_is_caught_by_the_test_named_for_it(self):
        names = [mutant["name"] for mutant in MUTANTS]
        self.assertEqual(sorted(set(names)), sorted(names))
        self.assertGreaterEqual(len(names), 15)
        for some, all_wrong in in_parallel(caught, together(MUTANTS)):
            for mutant, wrong in zip(some, all_wrong, strict=True):
                with self.subTest(mutant=mutant["name"]):
                    self.assertEqual("", wrong)


if __name__ == "__main__":
    tap.main()
