# SPDX-License-Identifier: BSD-3-Clause
"""Programs started by a demonstration or a test: their output read line by line, and ended by their process id."""

import ctypes
import functools
import os
import re
import signal
import subprocess
import threading
import time

PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Failed(Exception):
    """Something that had to happen did not."""


class Ended(KeyboardInterrupt):
    """This process is to end, as by Ctrl-C: passes by all that takes an exception for a failure."""

    def __init__(self, number):
        super().__init__()
        self.number = number


def end_in_order():
    """From here on SIGTERM and SIGHUP (unless it is ignored, as under nohup) raise Ended, so that what has been started
    is ended, too."""

    def end(number, _):
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def exit_status(interrupt):
    """Of a process that an Ended, or a Ctrl-C, has ended."""
    return 128 + getattr(interrupt, "number", signal.SIGINT)


def _end_with_parent(parent):
    """In a child, before its program: SIGTERM comes when its parent has gone, however that came about."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def wait_until(condition, patience, what):
    """Waits until condition() is true and returns its value; raises Failed after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failed(f"not within {patience:g} s: {what}")
        time.sleep(0.02)


def figures(line):
    """The key=value words of a line: numbers where they are numbers."""
    found = {}
    for word in line.split():
        name, separator, value = word.partition("=")
        if separator:
            found[name] = int(value) if re.fullmatch(r"-?\d+", value) else value
    return found


class Program:
    """A running program. `on_line` sees each line of its output as it comes, on another thread."""

    def __init__(self, command, on_line=None, name=None, **options):
        self.name = name or os.path.basename(command[0])
        self.lines = []
        self._on_line = on_line
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            bufsize=1,
            start_new_session=True,
            preexec_fn=functools.partial(_end_with_parent, os.getpid()),
            **options,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self):
        return self._process.pid

    def _read(self):
        for line in self._process.stdout:
            line = line.rstrip("\n")
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()
            if self._on_line is not None:
                self._on_line(line)

    def output(self, last=40):
        return "\n".join(self.lines[-last:])

    def running(self):
        return self._process.poll() is None

    def wait_for_line(self, pattern, patience, begin=0):
        """The first line, from number `begin` on, that the pattern is found in, as a match."""
        expression = re.compile(pattern)
        deadline = time.monotonic() + patience
        with self._changed:
            while True:
                for line in self.lines[begin:]:
                    match = expression.search(line)
                    if match:
                        return match
                begin = len(self.lines)
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    break
                self._changed.wait(min(left, 0.2))
        how = "still running" if self.running() else f"ended with status {self._process.returncode}"
        raise Failed(f"{self.name} did not say /{pattern}/ ({how}); it said:\n{self.output()}")

    def finish(self, patience):
        """Waits for the program to end by itself; returns its exit status."""
        try:
            status = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            raise Failed(
                f"{self.name} did not end within {patience:g} s; it said:\n{self.output()}"
            ) from None
        self._reader.join(5)
        return status

    def stop(self, patience=10):
        """Asks the program to end (SIGTERM); returns its exit status."""
        if self.running():
            self._process.send_signal(signal.SIGTERM)
        return self.finish(patience)

    def kill(self):
        """Ends the program and what it has started, if anything is left of it."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._reader.join(5)


def filter_totals(lines):
    """What weir-filter prints at its end: {"rules": {name: figures}, "packets": figures, "store": figures}."""
    totals = {"rules": {}, "packets": {}, "store": {}}
    for line in lines:
        if not line.startswith("total "):
            continue
        found = figures(line)
        if "rule" in found:
            totals["rules"][str(found["rule"])] = found
        elif line.startswith("total packets "):
            totals["packets"] = found
        elif line.startswith("total store "):
            totals["store"] = found
    return totals


def eal_environment(folder):
    """The environment of a DPDK program whose run-time files go, with the folder, when the demonstration ends."""
    return dict(os.environ, RUNTIME_DIRECTORY=str(folder))


def cores():
    """Two processor numbers that this process may use; the same one twice where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1] if len(usable) < 2 else usable[1]
