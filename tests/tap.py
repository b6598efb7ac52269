# SPDX-License-Identifier: BSD-3-Clause
"""Runs the unittest cases of the calling module and reports each one in TAP, so that the build counts single cases."""

import sys
import time
import traceback
import unittest


class _TapResult(unittest.TestResult):
    """Prints one line per test case, or per subtest where a case has subtests."""

    def __init__(self):
        super().__init__()
        self._number = 0
        self._subtests = 0
        self._reported = False
        self._started = time.monotonic()  # set-up of a module comes before any case

    def _line(self, good, test, directive="", detail=""):
        self._number += 1
        self._reported = True
        # '#' starts a directive, and meson takes the line apart at the first one.
        name = str(test).split(" ")[0] if isinstance(test, unittest.TestCase) else str(test)
        name = name.replace("#", "no. ").replace("\n", " ")
        print(f"{'ok' if good else 'not ok'} {self._number} {name}{directive}", flush=True)
        took = time.monotonic() - self._started
        for line in [f"took {took:.1f} s"] + detail.splitlines():
            print(f"# {line}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self._reported = False
        self._subtests = 0
        self._started = time.monotonic()

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        name = f"{test._testMethodName} {subtest._subDescription()}"
        self._line(err is None, name, detail="" if err is None else "".join(traceback.format_exception(*err)))

    def addSuccess(self, test):
        super().addSuccess(test)
        if not self._reported:
            self._line(True, test)

    def _bad(self, test, err):
        self._line(False, test, detail="".join(traceback.format_exception(*err)))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(True, test, directive=f" # SKIP {reason}")

    @property
    def count(self):
        return self._number


def main():
    """Call as the last thing of a test module. Arguments: names of cases to run (default: all)."""
    module = sys.modules["__main__"]
    loader = unittest.defaultTestLoader
    suite = (
        loader.loadTestsFromNames(sys.argv[1:], module)
        if sys.argv[1:]
        else loader.loadTestsFromModule(module)
    )
    result = _TapResult()
    suite.run(result)
    print(f"1..{result.count}", flush=True)
    # A run that found nothing to do has proved nothing.
    sys.exit(0 if result.wasSuccessful() and result.count > 0 else 1)
