#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per item of fixed pieces of work, held against recorded bounds.

Times are noise on a machine that others use, too; the instructions between the same two points are always the same. So
a change that makes the path of a request dearer shows here, and nowhere else in the tests.

Most are counted by callgrind, whose machine is the same everywhere. What that machine has no instructions for (AVX-512)
is counted step by step on this one, where it has them.

Environment: WEIR_COUNTED_PROGRAMS, the programs' paths, separated by ':'; WEIR_STEP_COUNTER, the program that counts steps,
where there is one. WEIR_RECORD=1 prints the table with the counts of today instead of failing.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

TABLE = pathlib.Path(__file__).with_name("bounds.txt")
PROGRAMS = {pathlib.Path(path).name: path for path in os.environ["WEIR_COUNTED_PROGRAMS"].split(":")}
STEP_COUNTER = os.environ.get("WEIR_STEP_COUNTER")
OPTIONAL = {"bench-filter-counted"}
LET_THROUGH = 1.10
SUSPICIOUS = 0.5  # so much cheaper, and the compiler may have found the work to be none
NOT_HERE = 77  # a program's exit status where the machine lacks what it would count


def bounds():
    """(name, bound, command) of each line of the table."""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, bound, program, *arguments = line.split()
            # Not built where the programs are not.
            if program not in PROGRAMS and program in OPTIONAL:
                continue
            yield name, float(bound), [program, *arguments]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def callgrind(*command):
    """Runs a command. Returns how it ended, and where that says how many instructions counted_work() took."""
    with tempfile.TemporaryDirectory() as folder:
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--toggle-collect=counted_work"]
        done = run(*tool, *command)
    return done, re.search(r"Collected : (\d+)", done.stderr)


def steps(*command):
    """The same, on this machine's own processor."""
    done = run(STEP_COUNTER, "counted_work", *command)
    return done, re.search(r"^steps (\d+)$", done.stderr, re.MULTILINE)


def count(command, counter=None):
    """Instructions per item inside counted_work(); None where the machine cannot tell."""
    program, *arguments = command
    if counter is None:
        counter = steps if "avx512" in arguments else callgrind
    if counter is steps and STEP_COUNTER is None:
        return None
    done, instructions = counter(PROGRAMS[program], *arguments)
    if done.returncode == NOT_HERE:
        return None
    assert done.returncode == 0, done.stderr
    items = int(re.search(r"^items (\d+)$", done.stdout, re.MULTILINE)[1])
    assert int(instructions[1]) > items > 0, "nothing was counted: is counted_work() still a function of its own?"
    return int(instructions[1]) / items


class Instructions(unittest.TestCase):
    def test_stay_within_their_bounds(self):
        for name, bound, command in bounds():
            with self.subTest(name):
                counted = count(command)
                if counted is None:
                    print(f"# {name}: not on this machine")
                    continue
                print(f"# {name}: {counted:.1f} instructions, recorded {bound:.0f}")
                self.assertLessEqual(
                    counted,
                    bound * LET_THROUGH,
                    f"dearer than recorded in {TABLE.name}: find out why, or record it anew and tell the reason",
                )
                self.assertGreaterEqual(
                    counted,
                    bound * SUSPICIOUS,
                    f"much cheaper than recorded in {TABLE.name}: is all of it still done? Then record it anew",
                )

    def test_are_as_many_whoever_counts_them(self):
        command = ["bench-classify-counted", "portable", "no_http", "request_line"]
        by_steps = count(command, steps)
        if by_steps is None:
            self.skipTest("steps are not counted on this machine")
        # But for a few before and behind, and what the dynamic loader looks up in the meantime.
        self.assertAlmostEqual(by_steps, count(command, callgrind), delta=1)

    def test_of_what_is_no_number_of_keys_or_workers_are_not_counted(self):
        for arguments in (["x"], ["101"], ["-1"], ["1x"], ["workers", "x"], ["workers", "0"], ["workers", "256"], []):
            with self.subTest(arguments):
                done = subprocess.run([PROGRAMS["bench-controller-counted"], *arguments], capture_output=True, text=True, check=False)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertIn("usage: bench-controller-counted", done.stderr)

    def test_the_table_names_every_program(self):
        self.assertEqual(set(PROGRAMS), {command[0] for _, _, command in bounds()})


if __name__ == "__main__":
    if os.environ.get("WEIR_RECORD"):
        for recorded, _, line in bounds():
            today = count(line)
            print(f"{recorded:<45} {'-' if today is None else f'{today:.0f}':>6}  {' '.join(line)}")
    else:
        tap.main()
