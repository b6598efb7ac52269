#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tools/test asks about a meson build folder.

summary.py targets BUILD SUITE...   the ninja targets that the tests of these suites need
summary.py count BUILD LOGBASE      "PASSED FAILED SKIPPED" single test cases of one run; the failed ones, and what they said, on stderr
summary.py clean BUILD              removes results of earlier runs, which a crashed test would leave behind as its own
"""

import itertools
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree


def introspect(build, what):
    answer = subprocess.run(
        ["meson", "introspect", what, str(build)], check=True, capture_output=True, text=True
    )
    return json.loads(answer.stdout)


def targets(build, suites):
    by_id = {target["id"]: target["filename"][0] for target in introspect(build, "--targets")}
    made = {str(pathlib.Path(name)) for name in by_id.values()}
    found = set()
    for test in introspect(build, "--tests"):
        if not {suite.split(":")[-1] for suite in test["suite"]} & set(suites):
            continue
        found |= {by_id[name] for name in test["depends"] if name in by_id}
        found |= {word for word in test["cmd"] if word in made}
    return sorted(pathlib.Path(name).relative_to(build).as_posix() for name in found)


def name_of(text):
    """Of a test that meson calls "project:suite / name", "project:name" or "name"."""
    return text.split(" / ")[-1].split(":")[-1]


def last_lines(lines):
    return [line for line in lines if line.strip()][-15:]


def said_of(case, test):
    """What GoogleTest says of a case that failed; of one in TAP, the comments behind it."""
    failures = [failure.text for failure in case.findall("failure") if failure.text]
    if failures:
        return "\n".join(failures).splitlines()
    behind = itertools.dropwhile(lambda line: line != f"not ok {case.get('name')}", test["stdout"].splitlines())
    return itertools.takewhile(lambda line: line.startswith("#"), itertools.islice(behind, 1, None))


def count(build, logbase):
    """Cases come from the JUnit file; a test that crashed, timed out or failed outside its cases counts as one more."""
    logs = build / "meson-logs"
    with open(logs / f"{logbase}.json", encoding="utf-8") as file:
        tests = {name_of(test["name"]): test for test in (json.loads(line) for line in file if line.strip())}
    names = sorted(tests, key=len, reverse=True)
    cases = {}  # test name -> [passed, failed, skipped]
    told = []

    def tell_failed(what, said):
        told.extend([f"FAILED {what}", *(f"    {line}" for line in last_lines(said))])

    for suite in xml.etree.ElementTree.parse(logs / f"{logbase}.junit.xml").iter("testsuite"):
        # "project.test" or "project.test.suite"; tests without cases of their own are all in "project".
        rest = name_of(suite.get("name").partition(".")[2])
        if not rest:
            continue
        owner = next(name for name in names if rest == name or rest.startswith(name + "."))
        tally = cases.setdefault(owner, [0, 0, 0])
        for case in suite.findall("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                tally[1] += 1
                tell_failed(f"{rest}: {case.get('name')}", said_of(case, tests[owner]))
            elif case.find("skipped") is not None or case.get("status") == "notrun":
                tally[2] += 1
            else:
                tally[0] += 1
    for name, test in tests.items():
        good = test["result"] in ("OK", "EXPECTEDFAIL")
        skipped = test["result"] == "SKIP"
        if name not in cases:
            cases[name] = [int(good), int(not good and not skipped), int(skipped)]
        elif good or skipped:
            continue
        elif cases[name][1] > 0 and test["result"] == "FAIL" and test.get("returncode") in (0, 1):
            continue  # for no other reason than its cases
        else:
            cases[name][1] += 1
        if not good and not skipped:
            said = test.get("stdout", "") + test.get("stderr", "")
            tell_failed(f"{name}: {test['result'].lower()} (exit status {test.get('returncode')})", said.splitlines())
    for line in told:
        print(line, file=sys.stderr)
    return [sum(tally[i] for tally in cases.values()) for i in range(3)]


def main():
    command, build, *rest = sys.argv[1:]
    build = pathlib.Path(build).resolve()
    if command == "targets":
        print("\n".join(targets(build, rest)))
    elif command == "count":
        print(*count(build, rest[0]))
    elif command == "clean":
        for path in build.glob("*.xml"):
            path.unlink()
        for path in (build / "meson-logs").glob("testlog*"):
            path.unlink()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
