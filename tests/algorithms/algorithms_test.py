#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The README's chapter on algorithms says what the engine does, and tools/algorithms notices when it does not.

Environment: WEIR_SOURCE_ROOT, WEIR_BUILD_ROOT.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

SOURCE = pathlib.Path(os.environ["WEIR_SOURCE_ROOT"]).resolve()
BUILD = pathlib.Path(os.environ["WEIR_BUILD_ROOT"]).resolve()


def run(*arguments, source=SOURCE):
    return subprocess.run(
        [sys.executable, "-B", source / "tools/algorithms", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=280,
        check=False,
    )


class Checkout(unittest.TestCase):
    """A copy of what the tool reads and writes, to be changed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-algorithms-")
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name, "weir")
        (self.place / "tools/weir-sim").mkdir(parents=True)
        shutil.copy2(SOURCE / "tools/algorithms", self.place / "tools/algorithms")
        shutil.copytree(SOURCE / "tools/weir-sim/scenarios", self.place / "tools/weir-sim/scenarios")
        shutil.copytree(SOURCE / "doc/algorithms", self.place / "doc/algorithms")
        shutil.copy2(SOURCE / "README.md", self.place / "README.md")

    def run_here(self, *arguments):
        return run("--build", BUILD, *arguments, source=self.place)

    def change(self, name, pattern, replacement):
        path = self.place / name
        text = path.read_text(encoding="utf-8")
        changed, count = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
        self.assertEqual(1, count, f"{name} has no {pattern}")
        path.write_text(changed, encoding="utf-8")


class Chapter(Checkout):
    def test_the_chapter_and_the_plots_are_what_the_engine_does(self):
        done = run("--build", BUILD, "--check")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_what_is_no_longer_true_is_noticed_and_made_again(self):
        self.change("README.md", r"^(\| `cooldown` \| )\d+ \|", r"\g<1>12345 |")
        self.change("tools/weir-sim/scenarios/choose-on-off.toml", r"^of_limit = 5$", "of_limit = 7")
        (self.place / "doc/algorithms/border.svg").unlink()
        checked = self.run_here("--check")
        self.assertEqual(1, checked.returncode, checked.stdout + checked.stderr)
        for stale in ("README.md:", "12345", "on-off.svg:", "border.svg is missing", "run tools/algorithms"):
            self.assertIn(stale, checked.stderr)
        self.assertNotIn("moving.svg", checked.stderr)
        self.assertFalse((self.place / "doc/algorithms/border.svg").exists())

        made = self.run_here()
        self.assertEqual(0, made.returncode, made.stderr)
        self.assertNotIn("12345", (self.place / "README.md").read_text(encoding="utf-8"))
        border = pathlib.Path("doc/algorithms/border.svg")
        self.assertEqual((SOURCE / border).stat().st_size // 1000, (self.place / border).stat().st_size // 1000)

    def test_a_readme_without_the_markers_is_refused_and_left_alone(self):
        self.change("README.md", r"^<!-- algorithms: exact -->$", "")
        before = (self.place / "README.md").read_bytes()
        done = self.run_here()
        self.assertEqual(2, done.returncode)
        self.assertIn("<!-- algorithms: exact -->", done.stderr)
        self.assertEqual(before, (self.place / "README.md").read_bytes())


class CommandLine(unittest.TestCase):
    def test_help_is_given_and_mistakes_are_refused(self):
        helped = run("--help")
        self.assertEqual(0, helped.returncode)
        self.assertIn("--check", helped.stdout)
        wrong = run("--no-such-option")
        self.assertEqual(2, wrong.returncode)
        self.assertIn("--no-such-option", wrong.stderr)

    def test_a_folder_without_the_programs_is_named(self):
        done = run("--build", "/nowhere/at/all")
        self.assertEqual(2, done.returncode)
        self.assertIn("/nowhere/at/all", done.stderr)
        self.assertIn("ninja", done.stderr)


if __name__ == "__main__":
    tap.main()
