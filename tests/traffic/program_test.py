#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-traffic as a program: its command line, and its report of what came through weir-filter.

Environment: WEIR_BUILD_ROOT.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests"), str(SOURCE / "tools/demo")]
import tap
from programs import Program, cores, eal_environment
from still import eal

BUILD = pathlib.Path(os.environ["WEIR_BUILD_ROOT"]).resolve()
TRAFFIC = BUILD / "tools/weir-traffic/weir-traffic"


def run(arguments, output=subprocess.PIPE, **options):
    return subprocess.run(
        [TRAFFIC, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


class CommandLine(unittest.TestCase):
    def test_mistakes_end_with_2_before_any_port_is_looked_for(self):
        for arguments, message in (
            (("--frobnicate",), "--frobnicate"),
            (("extra",), "extra"),
            (("--seconds",), "--seconds"),
            (("--seconds", "long"), "long"),
            (("--clients-port", "one"), "one"),
            (("--clients-port", "65536"), "--clients-port: must be a whole number from 0 to 65535"),
            (("--servers-port=-1",), "--servers-port: must be a whole number from 0 to 65535"),
            (("--seed=-1",), "--seed: must be a whole number"),
            (("--seed", str(2**64)), "--seed: must be a whole number"),
            (("--seed", ""), "--seed: must be a whole number"),
            (("--clients-port", "1"), "clients and servers need a port each"),
            *(
                ((option, value), f"{option}: not between")
                for option in ("--seconds", "--rate")
                for value in ("nan", "-nan", "inf", "-1", "0", "1e300")
            ),
        ):
            with self.subTest(arguments):
                done = run(arguments)
                self.assertEqual((2, ""), (done.returncode, done.stdout), done.stderr)
                self.assertTrue(done.stderr.startswith("weir-traffic: "), done.stderr)
                self.assertIn(message, done.stderr)

    def test_help_ends_with_0_and_tells_the_exit_statuses(self):
        done = run(["--help"])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("Exit status: 0", done.stdout)


class Report(unittest.TestCase):
    def test_one_that_cannot_be_written_ends_with_1(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("this system has no /dev/full")
        main_core, worker_core = cores()
        with tempfile.TemporaryDirectory(prefix="weir-traffic-") as folder:
            configuration = pathlib.Path(folder, "weir.toml")
            configuration.write_text('[node]\nidle_sleep = "50us"\n', encoding="utf-8")
            lcores = f"0@{main_core},1@{worker_core}"
            node = Program(
                [
                    str(BUILD / "app/filter/weir-filter"),
                    *eal(f"weir-filter-{os.getpid()}", 256, lcores, folder, "server"),
                    "--",
                    "--config",
                    str(configuration),
                ],
                env=eal_environment(folder),
            )
            try:
                node.wait_for_line(r"queues per port", 30)
                arguments = [
                    *eal(f"weir-traffic-{os.getpid()}", 64, f"0@{main_core}", folder, "client"),
                    "--",
                    "--seconds=0.2",
                ]
                with open("/dev/full", "w", encoding="utf-8") as full:
                    done = run(arguments, full, env=eal_environment(folder))
            finally:
                node.kill()
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("weir-traffic: the report could not be written", done.stderr)


if __name__ == "__main__":
    tap.main()
