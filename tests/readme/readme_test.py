#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs what README.md tells its reader to run.

Fenced blocks, by their language:
  sh                run as it stands, all its lines in one shell
  sh needs-nic      weir-filter's command lines are checked with --check; the rest needs hardware and is skipped
  toml              a whole configuration, checked by weir-filter; "# NAME.toml" as its first line names it for the
                    commands after it
  toml fragment     part of one: checked together with a rule, or with those it has
  c, cpp, c++       must be an excerpt of a file under app/, so that it is compiled
Other languages are not looked at, but may hold no command.

The commands run in a folder that looks like the checkout (links to its entries), where build/ is the folder under
test, and DESTDIR points to a scratch place.

Environment: WEIR_SOURCE_ROOT, WEIR_BUILD_ROOT.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

SOURCE = pathlib.Path(os.environ["WEIR_SOURCE_ROOT"]).resolve()
BUILD = pathlib.Path(os.environ["WEIR_BUILD_ROOT"]).resolve()
README = SOURCE / "README.md"
FILTER = BUILD / "app/filter/weir-filter"
# The command that runs the tests is running: it started this one. Starting it again would never end.
RUNS_ALREADY = re.compile(r"^(\./)?(tools/test|\.ci/run)\b(?!.*--help)")
A_RULE = '\n[[rule]]\nname = "filler"\nlimit = 1\ninterval = "1s"\n'


def blocks():
    """(line number, language, text) of each fenced block."""
    found, language, begin, lines = [], None, 0, []
    for number, line in enumerate(README.read_text(encoding="utf-8").splitlines(), start=1):
        fence = re.match(r"^\s*```\s*(.*)$", line)
        if fence and language is None:
            language, begin, lines = fence.group(1).strip(), number, []
        elif fence:
            found.append((begin, language, "\n".join(lines) + "\n"))
            language = None
        elif language is not None:
            lines.append(line)
    return found


def commands(text):
    """The command lines of a block: continued lines joined, comments and empty ones left out."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="weir-readme-")
        cls.place = pathlib.Path(cls.temporary.name, "weir")
        cls.place.mkdir()
        for entry in SOURCE.iterdir():
            if not entry.name.startswith("build") and entry.name != ".git":
                (cls.place / entry.name).symlink_to(entry)
        (cls.place / "build").symlink_to(BUILD)
        cls.destination = pathlib.Path(cls.temporary.name, "destination")
        programs = {
            str(path.parent)
            for path in BUILD.glob("*/*/weir-*")
            if os.access(path, os.X_OK) and path.is_file()
        }
        cls.environment = dict(
            os.environ,
            DESTDIR=str(cls.destination),
            WEIR_BUILD=str(BUILD),
            PATH=os.pathsep.join([*sorted(programs), os.environ["PATH"]]),
            PKG_CONFIG_SYSROOT_DIR="",
            PKG_CONFIG_PATH=str(BUILD / "meson-uninstalled"),
        )

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def shell(self, script):
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=540,
            check=False,
        )

    def check_configuration(self, text, name):
        path = self.place / name
        path.write_text(text, encoding="utf-8")
        return subprocess.run(
            [FILTER, "--config", path, "--check"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )

    def test_every_block_of_the_readme(self):
        ran = 0
        for number, language, text in blocks():
            words = language.split()
            kind = words[0] if words else ""
            if kind not in ("sh", "bash", "toml", "c", "cpp", "c++"):
                continue
            with self.subTest(f"line {number}: {kind}"):
                ran += 1
                if kind == "toml":
                    self.run_toml(text, "fragment" in words)
                elif kind in ("c", "cpp", "c++"):
                    self.assert_compiled(text)
                elif "needs-nic" in words:
                    self.check_filter_lines(text)
                else:
                    lines = [line for line in commands(text) if not RUNS_ALREADY.match(line)]
                    self.assertEqual(
                        [],
                        [
                            line
                            for line in commands(text)
                            if RUNS_ALREADY.match(line)
                            and not os.access(SOURCE / shlex.split(line)[0], os.X_OK)
                        ],
                    )
                    if lines:
                        done = self.shell("\n".join(lines))
                        self.assertEqual(0, done.returncode, f"{lines}\n{done.stdout[-4000:]}")
        self.assertGreater(ran, 3, "the README has lost its commands, or this test cannot find them")

    def run_toml(self, text, fragment):
        first = re.match(r"#\s*([\w.-]+\.toml)\b", text)
        if fragment and "[[rule]]" not in text:
            text += A_RULE
        done = self.check_configuration(text, first.group(1) if first else "readme.toml")
        self.assertEqual(0, done.returncode, done.stdout)

    def check_filter_lines(self, text):
        lines = [line for line in commands(text) if re.match(r"^(sudo\s+)?(\S*/)?weir-filter\s", line)]
        for line in lines:
            done = self.shell(re.sub(r"^sudo\s+", "", line) + " --check")
            self.assertEqual(0, done.returncode, f"{line}\n{done.stdout}")
        if not lines:
            self.skipTest("needs a NIC")

    def assert_compiled(self, text):
        def normal(code):
            return [" ".join(line.split()) for line in code.splitlines() if line.strip()]

        wanted = normal(text)
        for path in sorted((SOURCE / "app").rglob("*.c*")):
            code = normal(path.read_text(encoding="utf-8"))
            if any(code[i : i + len(wanted)] == wanted for i in range(len(code))):
                return
        self.fail("not an excerpt of a file under app/:\n" + text)

    def test_the_live_quickstart_holds_what_it_claims(self):
        self.assertIn("`tools/quickstart --live`", README.read_text(encoding="utf-8"))
        done = self.shell("tools/quickstart --live")
        self.assertEqual(0, done.returncode, done.stdout[-6000:])
        self.assertIn("PASS  one limit for both nodes", done.stdout)
        self.assertNotIn("FAIL", done.stdout)

    def test_the_first_commands_are_the_two_that_newcomers_need(self):
        first = [
            line
            for _, language, text in blocks()
            if language.split()[:1] == ["sh"]
            for line in commands(text)
        ][:2]
        self.assertEqual(["tools/quickstart", "tools/test"], [shlex.split(line)[0] for line in first])

    def test_commands_stand_in_blocks_that_are_run(self):
        wrong = [
            f"line {number}: {line}"
            for number, language, text in blocks()
            if language.split()[:1] not in (["sh"], ["bash"])
            for line in text.splitlines()
            if re.match(
                r"^\s*(\$ |tools/[a-z]|(sudo )?weir-(filter|replay|sim)\s+-|meson |ninja |apt-get )", line
            )
        ]
        self.assertEqual([], wrong)

    def test_files_the_readme_links_to_exist(self):
        text = README.read_text(encoding="utf-8")
        wrong = [
            target
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
            if not (SOURCE / target).exists()
        ]
        self.assertEqual([], wrong)


class Programs(unittest.TestCase):
    """Every program of ours that the README's reader may start explains itself."""

    def test_help_is_given_and_mistakes_are_refused(self):
        for program in (
            "app/filter/weir-filter",
            "tools/weir-traffic/weir-traffic",
            "tools/weir-replay/weir-replay",
            "tools/weir-sim/weir-sim",
        ):
            with self.subTest(program):
                helped = subprocess.run(
                    [BUILD / program, "--help"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    stdin=subprocess.DEVNULL,
                    check=False,
                )
                self.assertEqual(0, helped.returncode, helped.stderr)
                self.assertIn("--", helped.stdout)
                wrong = subprocess.run(
                    [BUILD / program, "--no-such-option"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    stdin=subprocess.DEVNULL,
                    check=False,
                )
                self.assertNotEqual(0, wrong.returncode)
                self.assertRegex(wrong.stderr + wrong.stdout, "no-such-option|is required")
        for script in (
            "tools/quickstart",
            "tools/install-packages",
            "tools/test",
            "tools/algorithms",
            "tools/bench",
        ):
            with self.subTest(script):
                helped = self.start(script, "--help")
                self.assertEqual(0, helped.returncode)
                self.assertIn("usage:", helped.stdout)
                wrong = self.start(script, "--no-such-option")
                self.assertEqual(2, wrong.returncode)

    def test_groups_of_packages_that_there_are_not_are_refused(self):
        for groups in (("nosuch",), ("build", "nosuch"), ("",), ("build test",), ("b.ild",), ("g++",)):
            with self.subTest(groups):
                done = self.start("tools/install-packages", *groups)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertIn(f"there is no group '{groups[-1]}'", done.stderr)

    def test_a_package_that_is_there_for_several_architectures_is_there(self):
        # What dpkg-query would say of every package.
        for answer, is_there in (
            ("installed\ninstalled\n", True),
            ("not-installed\ninstalled\n", True),
            ("not-installed\n", False),
            ("config-files\nnot-installed\n", False),
            ("", False),
        ):
            with self.subTest(answer), tempfile.TemporaryDirectory(prefix="weir-readme-") as folder:
                for name, text in (("dpkg-query", f"printf {shlex.quote(answer)}"), ("id", "echo 1000")):
                    tool = pathlib.Path(folder, name)
                    tool.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
                    tool.chmod(0o755)
                done = self.start("tools/install-packages", "build", path=f"{folder}:{os.environ['PATH']}")
                self.assertEqual(0 if is_there else 1, done.returncode, done.stderr)
                self.assertRegex(done.stderr, r"^$" if is_there else r"^missing Debian packages: g\+\+ ")

    def test_what_tools_bench_needs_is_in_the_groups_that_the_readme_has_for_it(self):
        (groups,) = re.findall(r"`tools/install-packages ([a-z ]+)` installs all\s+of it", README.read_text(encoding="utf-8"))
        listed = {
            line.split()[0]
            for line in (SOURCE / "tools/packages").read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#") and line.split()[1] in groups.split()
        }
        # What the benchmarks are linked to, beside what the library is.
        self.assertLessEqual({"libbenchmark-dev", "libtbb-dev", "libhttp-parser-dev", "nginx", "wrk", "haproxy"}, listed)

    def test_a_demonstration_that_is_too_short_to_show_what_it_claims_is_refused(self):
        for least, arguments in (
            (3, ("--seconds", "1")),
            (3, ("--seconds", "2")),
            (5, ("--seconds", "4", "--live")),
            (5, ("--live", "--seconds", "1")),
        ):
            with self.subTest(arguments):
                done = self.start("tools/quickstart", *arguments)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertRegex(done.stderr, rf"^quickstart: --seconds .* at least {least}\b")

    def start(self, script, *arguments, path=os.environ["PATH"]):
        # Where nothing could be built, should it come to that.
        environment = dict(os.environ, WEIR_BUILD="/dev/null", PATH=path)
        return subprocess.run(
            [SOURCE / script, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )


if __name__ == "__main__":
    tap.main()
