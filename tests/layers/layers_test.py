#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The direction of dependencies, read from the sources and tried out on the compiler.

Environment: WEIR_SOURCE_ROOT, WEIR_BUILD_ROOT (a configured build folder).
"""

import concurrent.futures
import functools
import json
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

# What the architecture allows: room -> rooms it may include. Everybody may include weir/*.h.
ROOMS = {
    "base": set(),
    "classify": {"base"},
    "limit": {"base"},
    "engine": {"base", "limit"},
    # Buckets and logs are what their cells hold.
    "shared": {"base", "limit"},
    "dataplane": {"base", "classify", "limit", "shared"},
    "store": {"base"},
    "control": {"base", "limit", "engine", "shared", "store"},
    "config": {"base", "classify", "limit"},
    # Puts the rooms together behind the public headers; nothing depends on it.
    "node": {"base", "classify", "limit", "engine", "shared", "dataplane", "store", "config", "control"},
}

# Room -> pattern of the foreign headers that only it may include. A room may be a folder below lib/.
FOREIGN = {
    "hiredis": (re.compile(r"^hiredis[/.]"), {"lib/store/redis", "bench/store"}),
    "openssl": (re.compile(r"^openssl/"), {"lib/store/redis"}),
    "toml++": (re.compile(r"^toml(\+\+|plusplus)"), {"lib/config/toml.h"}),
    "dpdk": (
        re.compile(r"^rte_"),
        {"lib/shared", "lib/include/weir/mbuf.h", "app", "bench", "tools", "tests"},
    ),
}

# Headers of the language's standard library that rooms without threads and clocks have no business with.
NO_THREADS_NO_CLOCKS = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|future|stop_token|semaphore|latch"
    r"|barrier|pthread\.h|time\.h|ctime|sys/.*|unistd\.h)$"
)
STANDARD_HEADER = re.compile(r"^[a-z0-9_]+$")

# The rooms on the path of a request, and what has no place there. Set-up code of a room allocates through
# containers and make_unique; so the words below can be refused outright.
WORKER_PATH = ("lib/classify", "lib/dataplane", "lib/shared", "lib/engine", "lib/limit")
FORBIDDEN_WORDS = re.compile(
    r"std::(?:recursive_|timed_|shared_)*mutex|std::lock_guard|std::unique_lock|std::scoped_lock|condition_variable"
    r"|\bthrow\b|\bmalloc\s*\(|\bcalloc\s*\(|::now\s*\(|\bclock_gettime\b|\bprintf\s*\(|std::cout|std::cerr"
    r"|(?<![:\w])new\s+(?!\()[A-Za-z_:]"
)

# What base takes from elsewhere than the standard library, and why.
IN_BASE = {
    **{
        (f"lib/base/{header}", "sys/mman.h"): "huge pages are the kernel's to give, and every room's tables want them"
        for header in ("huge_array.h", "huge_pages.h")
    },
    ("lib/base/instruction_set.cc", "cpuid.h"): "which instructions there are is the processor's to say",
    ("lib/base/signals_blocked.h", "signal.h"): "signals are the kernel's to send, and two rooms start threads",
    ("lib/base/key_hash.h", "emmintrin.h"): "two products of one instruction, which compilers do not find by themselves",
    **{
        ("lib/base/pages.cc", header): "pages are provided by the kernel ahead of those who must not wait for it"
        for header in ("sched.h", "sys/mman.h", "sys/syscall.h", "unistd.h")
    },
}

# Where one of these words stands in set-up code, which runs before the first request, and why.
IN_SET_UP = {
    ("lib/shared/quiescence.h", "throw"): "the constructor reports that there is no memory, as containers do",
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def sources(*folders, suffixes=(".h", ".cc", ".c", ".hpp", ".cpp")):
    return sorted(
        path
        for folder in folders
        for path in (SOURCE / folder).rglob("*")
        if path.is_file() and path.suffix in suffixes
    )


def relative(path):
    return path.relative_to(SOURCE).as_posix()


@functools.lru_cache(maxsize=None)
def without_comments(path):
    """The text with comments and literals blanked out, line numbers kept."""
    text = path.read_text(encoding="utf-8")
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^()\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
        re.DOTALL,
    )
    return token.sub(lambda m: "\n" * m.group(0).count("\n") or " ", text)


def includes(path):
    """(name, quoted) of every include of a file."""
    # Comments go, string literals must stay: an include's name looks like one.
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [(quoted or angled, bool(quoted)) for quoted, angled in INCLUDE.findall(text)]


def room_of(path):
    parts = path.relative_to(SOURCE).parts
    return parts[1] if parts[0] == "lib" and parts[1] != "include" else None


def owner_allows(path, owners):
    name = relative(path)
    return any(name == owner or name.startswith(owner + "/") for owner in owners)


@functools.lru_cache(maxsize=None)
def compile_commands():
    with open(BUILD / "compile_commands.json", encoding="utf-8") as file:
        return json.load(file)


def first_includes():
    """The headers that some source of the build includes ahead of all others."""
    headers = {}
    for header in sources("lib", "app", "bench", "tools", suffixes=(".h",)):
        headers.setdefault(header.name, []).append(header)
    found = set()
    for entry in compile_commands():
        source = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if not (source.is_relative_to(SOURCE) and source.is_file()):
            continue
        for name, quoted in includes(source)[:1]:
            if quoted:
                # Its folder stands in the name, or it lies beside the source.
                ends = f"/{name}"
                meant = [header for header in headers.get(pathlib.PurePath(name).name, []) if str(header).endswith(ends)]
                found.update(header for header in meant if "/" in name or header.parent == source.parent)
    return found


def flags_of(folder):
    """The compiler and the flags with which the build compiles the sources of a folder.

    Where a folder has several targets, those of the one that may see most. A room of headers alone compiles nothing:
    it gets the flags of base and the folders of the rooms it may see."""
    found = []
    for entry in compile_commands():
        source = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if source.parent == SOURCE / folder:
            words = shlex.split(entry["command"])
            kept = []
            skip = 0
            for word in words:
                if skip:
                    skip -= 1
                elif word in ("-o", "-MF", "-MQ", "-MT", "-c"):
                    skip = 1
                elif word not in ("-MD", "-MMD", "-MP", "-fdiagnostics-color=always"):
                    kept.append(word)
            found.append(kept)
    if found:
        return max(found, key=len)
    room = folder.removeprefix("lib/")
    if room in ROOMS and room != "base":
        return flags_of("lib/base") + [f"-I{BUILD}/lib/rooms/{name}" for name in ROOMS[room] | {room}]
    return None


def compiles(folder, text, name="probe.cc"):
    """(success, messages) of compiling a text as if it were a source of that folder."""
    flags = flags_of(folder)
    assert flags is not None, f"the build compiles nothing in {folder}"
    with tempfile.TemporaryDirectory() as temporary:
        probe = pathlib.Path(temporary, name)
        probe.write_text(text, encoding="utf-8")
        done = subprocess.run(
            flags + ["-fsyntax-only", str(probe)],
            cwd=BUILD,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
        return done.returncode == 0, done.stderr


class Includes(unittest.TestCase):
    maxDiff = None

    def none(self, wrong, why):
        self.assertEqual([], wrong, why)

    def test_every_room_is_in_the_table_and_every_source_in_a_room(self):
        folders = {path.name for path in (SOURCE / "lib").iterdir() if path.is_dir()} - {"include"}
        self.assertEqual(set(ROOMS), folders)
        self.assertGreater(len(sources("lib")), 20)

    def test_the_table_itself_has_no_cycle(self):
        done = set()
        while len(done) < len(ROOMS):
            ready = {room for room in ROOMS if room not in done and ROOMS[room] <= done}
            self.assertTrue(ready, f"cycle among {set(ROOMS) - done}")
            done |= ready

    def test_a_room_includes_only_rooms_below_it(self):
        wrong = []
        for path in sources("lib"):
            room = room_of(path)
            if room is None:
                continue
            for name, _ in includes(path):
                target = name.split("/")[0]
                if target in ROOMS and target != room and target not in ROOMS[room]:
                    wrong.append(f"{relative(path)}: {name}")
        self.none(wrong, "these includes go against the direction of dependencies")

    def test_quoted_includes_name_a_room_or_the_public_face(self):
        wrong = []
        for path in sources("lib"):
            for name, quoted in includes(path):
                if quoted and name.split("/")[0] not in set(ROOMS) | {"weir"}:
                    wrong.append(f"{relative(path)}: {name}")
        self.none(wrong, 'write "room/file.h" or "weir/file.h"')

    def test_no_include_climbs_out_of_its_folder(self):
        wrong = [
            f"{relative(path)}: {name}"
            for path in sources("lib", "app", "bench", "tools", "tests")
            for name, _ in includes(path)
            if "../" in name
        ]
        self.none(wrong, "no ../ in includes")

    def test_public_headers_include_public_headers_only(self):
        wrong = []
        for path in sources("lib/include"):
            for name, quoted in includes(path):
                if name.split("/")[0] in ROOMS or (quoted and not name.startswith("weir/")):
                    wrong.append(f"{relative(path)}: {name}")
        self.none(wrong, "an installed header must stand without the rooms")

    def test_programs_and_benchmarks_see_the_public_face_only(self):
        wrong = []
        for path in sources("app", "bench", "tools"):
            for name, quoted in includes(path):
                # The simulator drives the very objects that run in production, one level below the public face, and what
                # their keys take of memory is asked of them; the
                # benchmarks of the store and of classification measure one room, that of the controller tells the parts
                # of a turn, and that of the decision has its floor and its requests in the same memory.
                if name.split("/")[0] in ROOMS and relative(path).startswith(("tools/weir-sim/", "tools/key-memory/")):
                    continue
                if name.split("/")[0] in ("store", "base") and relative(path).startswith("bench/store/"):
                    continue
                if name.split("/")[0] in ("classify", "base") and relative(path).startswith("bench/classify/"):
                    continue
                if name.split("/")[0] in ("node", "control", "engine", "store", "base") and relative(path).startswith(
                    "bench/controller/"
                ):
                    continue
                if name in ("base/huge_allocator.h", "base/huge_array.h", "shared/grant_lines.h") and relative(path).startswith(
                    "bench/decision/"
                ):
                    continue
                # Benchmarks use each other's workloads (some folders are called as the rooms they measure), and
                # bench/filter measures the program's own loop.
                if relative(path).startswith("bench/") and (SOURCE / "bench" / name).is_file():
                    continue
                if relative(path).startswith("bench/filter/") and (SOURCE / "app" / name).is_file():
                    continue
                if name.split("/")[0] in ROOMS:
                    wrong.append(f"{relative(path)}: {name}")
                elif quoted and not name.startswith("weir/"):
                    top = SOURCE / path.relative_to(SOURCE).parts[0]
                    if not any(
                        (parent / name).is_file()
                        for parent in path.parents
                        if top in (parent, *parent.parents)
                    ):
                        wrong.append(f"{relative(path)}: {name}")
        self.none(wrong, "programs include weir/*.h and files of their own")

    def test_files_include_each_other_without_a_cycle(self):
        edges = {}
        for path in sources("lib"):
            name = relative(path)
            found = set()
            for include, _ in includes(path):
                for candidate in (SOURCE / "lib" / include, SOURCE / "lib/include" / include):
                    if candidate.is_file():
                        found.add(relative(candidate))
            edges[name] = found
        done = set()
        while len(done) < len(edges):
            ready = {name for name in edges if name not in done and edges[name] <= done}
            self.assertTrue(ready, f"include cycle among {sorted(set(edges) - done)}")
            done |= ready


class ForeignHeaders(unittest.TestCase):
    def test_each_foreign_library_stays_in_its_place(self):
        for library, (pattern, owners) in FOREIGN.items():
            with self.subTest(library):
                found = [
                    (path, name)
                    for path in sources("lib", "app", "bench", "tools")
                    for name, _ in includes(path)
                    if pattern.match(name)
                ]
                self.assertTrue(found, f"nothing includes {library} any more: this check has lost its object")
                self.assertEqual(
                    [],
                    [f"{relative(path)}: {name}" for path, name in found if not owner_allows(path, owners)],
                )

    def test_base_stands_on_the_standard_library_alone(self):
        wrong = [
            f"{relative(path)}: {name}"
            for path in sources("lib/base")
            for name, _ in includes(path)
            if not (STANDARD_HEADER.match(name) or name.startswith(("base/", "weir/")))
            and (relative(path), name) not in IN_BASE
            or name == "weir/mbuf.h"
        ]
        self.assertEqual([], wrong)

    def test_decisions_know_neither_threads_nor_clocks(self):
        wrong = [
            f"{relative(path)}: {name}"
            for path in sources("lib/engine", "lib/limit", "lib/classify")
            for name, _ in includes(path)
            # Threads may share a limit (an atomic state), but limits know of none.
            if NO_THREADS_NO_CLOCKS.match(name)
            or (name == "atomic" and room_of(path) != "limit")
        ]
        self.assertEqual([], wrong)

    def test_the_dpdk_version_is_tested_in_one_header_at_most(self):
        users = [
            path
            for path in sources("lib", "app", "bench", "tools", "tests")
            if re.search(r"\bRTE_VERSION\b|\bRTE_VER_YEAR\b", without_comments(path))
        ]
        self.assertLessEqual(len(users), 1, [relative(path) for path in users])
        self.assertTrue(all(path.suffix == ".h" for path in users), users)


class Words(unittest.TestCase):
    def test_the_path_of_a_request_has_no_lock_throw_clock_or_bare_allocation(self):
        wrong = []
        for path in sources(*WORKER_PATH):
            for number, line in enumerate(without_comments(path).splitlines(), start=1):
                if not line.lstrip().startswith("#include"):
                    wrong += [
                        f"{relative(path)}:{number}: {word}"
                        for word in FORBIDDEN_WORDS.findall(line)
                        if (relative(path), word) not in IN_SET_UP
                    ]
        self.assertEqual([], wrong)

    def test_the_word_search_finds_what_it_is_for(self):
        for line in (
            "std::mutex m;",
            "throw 1;",
            "p = malloc (8);",
            "auto t = Clock::now();",
            "auto* p = new Entry;",
            "std::lock_guard guard(m);",
            "std::condition_variable c;",
            "std::shared_mutex m;",
        ):
            with self.subTest(line):
                self.assertRegex(line, FORBIDDEN_WORDS)
        for line in ("bool renew = x;", "new_table()", "a_new value", "::new (place) T"):
            with self.subTest(line):
                self.assertNotRegex(line, FORBIDDEN_WORDS)

    def test_the_library_owns_no_process(self):
        wrong = []
        for path in sources("lib"):
            for number, line in enumerate(without_comments(path).splitlines(), start=1):
                for word in re.findall(
                    r"\brte_eal_init\b|\brte_lcore_id\b|\bsigaction\b|\bsignal\s*\(|std::cout"
                    r"|\bprintf\s*\(|\bexit\s*\(|\babort\s*\(",
                    line,
                ):
                    wrong.append(f"{relative(path)}:{number}: {word}")
        self.assertEqual([], wrong)

    def test_every_source_begins_with_its_licence(self):
        wrong = []
        for path in sources("lib", "app", "bench", "tools", "tests"):
            if (
                path.read_text(encoding="utf-8").split("\n", 1)[0]
                != "// SPDX-License-Identifier: BSD-3-Clause"
            ):
                wrong.append(relative(path))
        for folder in ("tools", "tests", ".ci"):
            for path in sorted((SOURCE / folder).rglob("*")):
                if not path.is_file() or "__pycache__" in path.parts:
                    continue
                with open(path, "rb") as file:
                    head = file.read(300).split(b"\n")
                script = path.suffix in (".py", ".sh") or head[0].startswith(b"#!")
                if script and b"# SPDX-License-Identifier: BSD-3-Clause" not in head[:2]:
                    wrong.append(relative(path))
        self.assertEqual([], wrong)

    def test_header_guards_are_pragma_once(self):
        wrong = [
            relative(path)
            for path in sources("lib", "app", "bench", "tools", "tests", suffixes=(".h",))
            if "#pragma once" not in path.read_text(encoding="utf-8")
        ]
        self.assertEqual([], wrong)


class Build(unittest.TestCase):
    def test_the_build_refuses_a_forbidden_include(self):
        for folder, header, word in (
            ("lib/dataplane", "engine/engine.h", "engine"),
            ("lib/dataplane", "store/store.h", "store"),
            ("lib/dataplane", "control/controller.h", "control"),
            ("lib/engine", "store/store.h", "store"),
            ("lib/engine", "shared/publication.h", "shared"),
            ("lib/classify", "dataplane/worker_core.h", "dataplane"),
            ("lib/store", "engine/engine.h", "engine"),
            ("app/filter", "engine/engine.h", "engine"),
        ):
            with self.subTest(folder=folder, header=header):
                self.assertTrue(
                    (SOURCE / "lib" / header).is_file(), f"{header} has moved: name another one here"
                )
                good, messages = compiles(folder, f'#include "{header}"\nint main();\n')
                self.assertFalse(good, f"{folder} can include {header}")
                # It must have failed for this reason, not because of some flag.
                self.assertRegex(messages, rf"{re.escape(header)}.*(No such file|not found)", word)

    def test_the_build_accepts_an_allowed_include(self):
        for folder, header in (
            ("lib/dataplane", "shared/publication.h"),
            ("lib/engine", "base/span_clock.h"),
            ("lib/control", "engine/engine.h"),
            ("lib/dataplane", "weir/packet.h"),
            ("app/filter", "weir/throttle.h"),
        ):
            with self.subTest(folder=folder, header=header):
                good, messages = compiles(folder, f'#include "{header}"\nint main();\n')
                self.assertTrue(good, messages)

    def test_every_header_compiles_alone(self):
        work, by_the_build = [], 0
        first = first_includes()
        for header in sources("lib", "app", "bench", "tools", suffixes=(".h",)):
            if header in first:
                by_the_build += 1  # of some source the first include: each build compiles it alone
                continue
            parts = header.relative_to(SOURCE).parts
            if parts[:2] == ("lib", "include"):
                folder = "lib/dataplane" if header.name == "mbuf.h" else "lib/node"
            else:
                folder = relative(header.parent)
            work.append((folder, header))
        self.assertGreater(by_the_build, 10)
        self.assertGreater(len(work), 10)

        def check(item):
            folder, header = item
            # Twice: a header must bear that, too.
            return relative(header), compiles(folder, f'#include "{header}"\n#include "{header}"\n')

        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            wrong = [f"{name}:\n{messages}" for name, (good, messages) in pool.map(check, work) if not good]
        self.assertEqual([], wrong)


if __name__ == "__main__":
    tap.main()
