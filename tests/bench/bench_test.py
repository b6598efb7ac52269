#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/bench runs to its end, and tells what it leaves out. No figure is looked at: they are the machine's.

Environment: WEIR_SOURCE_ROOT, WEIR_BUILD_ROOT.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

SOURCE = pathlib.Path(os.environ["WEIR_SOURCE_ROOT"]).resolve()
BUILD = pathlib.Path(os.environ["WEIR_BUILD_ROOT"]).resolve()
sys.path.insert(0, str(SOURCE / "tools/benchmark"))
import plot


def bench(*arguments, **environment):
    return subprocess.run(
        [sys.executable, SOURCE / "tools/bench", *map(str, arguments)],
        env=dict(os.environ, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-bench-test-")
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name, "report")

    def report(self, *arguments, **environment):
        done = bench("--quick", "--no-build", "--build", BUILD, "--output", self.output, *arguments, **environment)
        self.assertEqual(0, done.returncode, done.stdout)
        return (self.output / "report.md").read_text(encoding="utf-8")

    def test_a_section_is_measured_told_and_plotted(self):
        text = self.report("--only", "scaling")
        self.assertIn("## More workers", text)
        self.assertIn("| 2 workers / 1, by processor time |" if len(os.sched_getaffinity(0)) > 1 else "| bytes of memory", text)
        self.assertIn("![scaling](scaling.svg)", text)
        xml.etree.ElementTree.parse(self.output / "scaling.svg")
        runs = json.loads((self.output / "scaling.json").read_text(encoding="utf-8"))["figures"]["runs"]
        self.assertTrue(all(run["per_second_cpu"] > 0 for run in runs))
        self.assertEqual(text.split("## ")[1:], self.report("--only", "scaling", "--reuse").split("## ")[1:])

    def test_what_is_not_installed_is_left_out_and_said(self):
        text = self.report("--only", "gateways", PATH="/nonexistent")
        self.assertIn("left out: nginx and HAProxy: wrk", text)
        self.assertIn("| **weir**", text)


class Mistakes(unittest.TestCase):
    def test_wrong_options_are_refused(self):
        for arguments in (["--no-such-option"], ["--only", "nothing"]):
            with self.subTest(arguments):
                self.assertEqual(2, bench(*arguments).returncode)

    def test_a_missing_program_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            done = bench("--quick", "--no-build", "--build", folder, "--output", folder, "--only", "scaling")
        self.assertEqual(1, done.returncode)
        self.assertIn("bench-scaling", done.stdout)
        self.assertNotIn("Traceback", done.stdout)


class Plots(unittest.TestCase):
    def test_are_well_formed_whatever_they_are_given(self):
        for svg in (
            plot.bars("<title>", "ns", ["a & b", "c"], ["x", "y"], [[1, None], [0.001, 2e6]], logarithmic=True),
            plot.bars("one", "ns", ["a"], ["x"], [[5]]),
            plot.lines("lines", "ns", ["50 %", "99 %"], [("a", [1, 10]), ("b", [3, None])]),
            plot.lines("one point", "ns", ["50 %"], [("a", [7])]),
        ):
            xml.etree.ElementTree.fromstring(svg)

    def test_nothing_to_show_is_no_plot(self):
        self.assertIsNone(plot.bars("none", "ns", ["a"], ["x"], [[None]]))
        self.assertIsNone(plot.lines("none", "ns", ["a"], []))


if __name__ == "__main__":
    tap.main()
