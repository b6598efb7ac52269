#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per item of fixed pieces of work, held against recorded bounds.

Times are noise on a machine that others use, too; the instructions between the same two points are always the same. So
a change that makes the path of a request dearer shows here, and nowhere else in the tests.

Environment: WEIR_COUNTED_PROGRAMS, the programs' paths, separated by ':'. WEIR_RECORD=1 prints the table with the
counts of today instead of failing.
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


def count(command):
    """Instructions per item inside counted_work(); None where the machine cannot tell."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={folder}/out",
                "--toggle-collect=counted_work",
                PROGRAMS[command[0]],
                *command[1:],
            ],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
    if done.returncode == NOT_HERE:
        return None
    assert done.returncode == 0, done.stderr
    items = int(re.search(r"^items (\d+)$", done.stdout, re.MULTILINE)[1])
    instructions = int(re.search(r"Collected : (\d+)", done.stderr)[1])
    assert instructions > items > 0, "nothing was counted: is counted_work() still a function of its own?"
    return instructions / items


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

    def test_the_table_names_every_program(self):
        self.assertEqual(set(PROGRAMS), {command[0] for _, _, command in bounds()})


if __name__ == "__main__":
    if os.environ.get("WEIR_RECORD"):
        for recorded, _, line in bounds():
            today = count(line)
            print(f"{recorded:<45} {'-' if today is None else f'{today:.0f}':>6}  {' '.join(line)}")
    else:
        tap.main()
