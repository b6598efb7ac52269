#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tools/test asks about a meson build folder.

summary.py targets BUILD SUITE...   the ninja targets that the tests of these suites need
summary.py count BUILD LOGBASE      "PASSED FAILED SKIPPED" single test cases of one run; the failed ones on stderr
summary.py clean BUILD              removes results of earlier runs, which a crashed test would leave behind as its own
"""

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


def count(build, logbase):
    """Cases come from the JUnit file; a test that crashed, timed out or failed outside its cases counts as one more."""
    logs = build / "meson-logs"
    with open(logs / f"{logbase}.json", encoding="utf-8") as file:
        tests = [json.loads(line) for line in file if line.strip()]
    cases = {}  # test name -> [passed, failed, skipped]
    failed_names = []
    names = sorted((test["name"].split(" / ")[-1].split(":")[-1] for test in tests), key=len, reverse=True)
    for suite in xml.etree.ElementTree.parse(logs / f"{logbase}.junit.xml").iter("testsuite"):
        # A suite is called "project", "project.test" or "project.test.suite".
        rest = suite.get("name").partition(".")[2]
        for case in suite.findall("testcase"):
            owner = (
                case.get("name")
                if not rest
                else next((name for name in names if rest == name or rest.startswith(name + ".")), rest)
            )
            tally = cases.setdefault(owner, [0, 0, 0])
            if case.find("failure") is not None or case.find("error") is not None:
                tally[1] += 1
                failed_names.append(f"{owner}: {case.get('classname', '')}.{case.get('name')}")
            elif case.find("skipped") is not None or case.get("status") == "notrun":
                tally[2] += 1
            else:
                tally[0] += 1
    for test in tests:
        name = test["name"].split(" / ")[-1].split(":")[-1]
        if test["result"] in ("OK", "SKIP", "EXPECTEDFAIL"):
            continue
        tally = cases.setdefault(name, [0, 0, 0])
        if tally[1] == 0:
            if tally == [
                1,
                0,
                0,
            ]:  # a test without cases of its own, reported as good by mistake of the format
                tally[0] = 0
            tally[1] = 1
            failed_names.append(f"{name}: {test['result'].lower()} (exit status {test.get('returncode')})")
    for name in failed_names:
        print(f"FAILED {name}", file=sys.stderr)
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
