#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library as a program outside of this house gets it: by what pkg-config says of it, and nothing else.

Environment: WEIR_SOURCE_ROOT, WEIR_BUILD_ROOT (with the library built), WEIR_COMPILER and WEIR_C_COMPILER (commands,
their words separated by ':').
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
COMPILER = os.environ["WEIR_COMPILER"].split(":")
C_COMPILER = os.environ["WEIR_C_COMPILER"].split(":")
HEADERS = sorted(path.name for path in (SOURCE / "lib/include/weir").glob("*.h"))

PROGRAM = """
#include <weir/throttle.h>

int main() {
  const weir::ConfigResult read = weir::parse_config("[[rule]]\\nname = 'all'\\nlimit = 1\\ninterval = '1h'", "here");
  const weir::ThrottleResult made = weir::Throttle::create(read.config, {});
  if (!made) return 2;
  made.throttle->start();
  weir::Worker& worker = made.throttle->worker(0);
  worker.online();
  const auto now = weir::monotonic_now();
  const bool first = worker.admit({}, now).verdict == weir::Verdict::admit;
  const bool second = worker.admit({}, now).verdict == weir::Verdict::admit;
  worker.offline();
  return first && !second && made.throttle->stop(std::chrono::seconds{1}) ? 0 : 1;
}
"""

# What reads TOML by exceptions, as weir does not.
TOML_PROGRAM = PROGRAM.replace(
    "int main() {",
    """
#define TOML_HEADER_ONLY 0
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>

int main() {
  try {
    (void)toml::parse("a = ");
    return 3;
  } catch (const toml::parse_error&) {
  }
""",
)

C_PROGRAM = """
#include <weir/weir.h>

int main(void) {
  weir_error error;
  weir_throttle* throttle =
      weir_create("[[rule]]\\nname = 'all'\\nlimit = 1\\ninterval = '1h'", "here", 1, NULL, NULL, &error);
  if (throttle == NULL || !weir_start(throttle, &error)) return 2;
  weir_worker* worker = weir_worker_at(throttle, 0);
  weir_online(worker);
  const weir_request request = {.weight = 1};
  const bool first = weir_admit(worker, &request, WEIR_NOW).verdict == WEIR_ADMIT;
  const bool second = weir_admit(worker, &request, WEIR_NOW).verdict == WEIR_ADMIT;
  weir_offline(worker);
  const bool stopped = weir_stop(throttle, 1000000000);
  weir_destroy(throttle);
  return first && !second && stopped ? 0 : 1;
}
"""


def pkg_config(*arguments, package="weir"):
    """The words of an answer, as if the library were installed where it was built."""
    here = (f"--define-variable=includedir={SOURCE}/lib/include", f"--define-variable=libdir={BUILD}/lib") if package == "weir" else ()
    path = f"{BUILD}/meson-private:{os.environ.get('PKG_CONFIG_PATH', '')}"
    done = subprocess.run(
        ["pkg-config", *here, *arguments, package],
        env=os.environ | {"PKG_CONFIG_PATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    return shlex.split(done.stdout)


def archive():
    """What a program is linked with that takes the archive instead of the library."""
    libraries = pkg_config("--static", "--libs")
    at = libraries.index("-lweir")
    libraries[at : at + 1] = ["-l:libweir.a"]
    return libraries


class Embed(unittest.TestCase):
    def builds_and_runs(self, libraries, compiler=(*COMPILER, "-std=c++20"), text=PROGRAM, name="program.cc"):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, name)
            source.write_text(text, encoding="utf-8")
            program = str(pathlib.Path(folder, "program"))
            command = [*compiler, str(source), "-o", program, *pkg_config("--cflags"), *libraries]
            built = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
            self.assertEqual(0, built.returncode, built.stderr)
            run = subprocess.run([program], env=os.environ | {"LD_LIBRARY_PATH": f"{BUILD}/lib"}, timeout=60)
            self.assertEqual(0, run.returncode)

    def test_is_compiled_for_the_machine_and_with_the_headers_of_whoever_embeds_it(self):
        flags = pkg_config("--cflags")
        self.assertIn(f"-I{SOURCE}/lib/include", flags)
        others = [flag for flag in flags if not re.match(r"-I|-D_FILE_OFFSET_BITS=|-pthread$", flag)]
        self.assertEqual([], others)

    def test_is_linked_by_its_name_alone(self):
        self.assertEqual([f"-L{BUILD}/lib", "-lweir"], pkg_config("--libs"))
        self.builds_and_runs(pkg_config("--libs"))

    def test_until_1_0_each_minor_version_has_a_soname_of_its_own(self):
        major, minor, _ = pkg_config("--modversion")[0].split(".")
        version = f"0.{minor}" if major == "0" else major
        read = subprocess.run(
            ["readelf", "-d", f"{BUILD}/lib/libweir.so"], check=True, capture_output=True, text=True, timeout=60
        )
        self.assertRegex(read.stdout, rf"\(SONAME\).*\[libweir\.so\.{re.escape(version)}\]")

    def test_its_archive_is_linked_with_what_it_stands_on(self):
        self.builds_and_runs(archive())

    def test_its_archive_is_linked_into_a_program_with_a_toml_reader_of_its_own(self):
        headers = pkg_config("--cflags-only-I", package="tomlplusplus")
        self.builds_and_runs([*headers, *archive()], text=TOML_PROGRAM)

    def test_a_c_program_is_linked_with_it_and_its_archive(self):
        compiler = (*C_COMPILER, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
        for libraries in (pkg_config("--libs"), archive()):
            with self.subTest(" ".join(libraries)):
                self.builds_and_runs(libraries, compiler, C_PROGRAM, "program.c")

    def test_who_compiles_it_as_older_cplusplus_is_told_so_and_no_more(self):
        for header in sorted(set(HEADERS) - {"mbuf.h", "time.h", "weir.h"}):  # one needs DPDK's, two stand there, too
            with self.subTest(header):
                compiled = subprocess.run(
                    [*COMPILER, "-std=c++17", "-fsyntax-only", "-x", "c++", "-", *pkg_config("--cflags")],
                    input=f"#include <weir/{header}>\n",
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertNotEqual(0, compiled.returncode)
                errors = [line for line in compiled.stderr.splitlines() if "error:" in line]
                self.assertIn("weir needs C++20", errors[0])
                self.assertLessEqual(len(errors), 2, compiled.stderr)

    def test_its_c_header_stands_in_older_cplusplus_too(self):
        text = C_PROGRAM.replace("{.weight = 1}", "{}").replace("(void)", "()")
        self.builds_and_runs(pkg_config("--libs"), (*COMPILER, "-std=c++11"), text)


if __name__ == "__main__":
    tap.main()
