# SPDX-License-Identifier: BSD-3-Clause
"""dpdk-testpmd, driven through its prompt: what forwarding costs in DPDK's own program, on the same devices."""

import os
import pathlib
import re
import subprocess
import time

from common import Failed, find_program, process_cpu

PATIENCE = 30  # seconds for an answer to a command
MEMORY_MB = 128


def available():
    return find_program("dpdk-testpmd")


def huge_pages_free():
    """MB that the administrator has set aside in huge pages, and nobody uses."""
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    free, size = (re.search(rf"{name}:\s+(\d+)", text) for name in ("HugePages_Free", "Hugepagesize"))
    return int(free[1]) * int(size[1]) // 1024 if free and size else 0


class Testpmd:
    """One testpmd, its worker on the last processor. Between start and stop its threads sleep."""

    PROMPT = b"testpmd> "

    def __init__(self, name, devices, mbufs, loop):
        """mbufs: in the pool, a FIFO without caches as ours; loop: the devices are rings, frames must be put in."""
        cpus = sorted(os.sched_getaffinity(0))
        self._start = "start tx_first 31" if loop else "start"
        self.huge_pages = huge_pages_free() >= MEMORY_MB
        memory = ["--in-memory"] if self.huge_pages else ["--no-huge", "--no-shconf"]
        command = [
            "stdbuf", "-oL",  # into a pipe it would keep its answers to itself
            find_program("dpdk-testpmd"), f"--lcores=0@{cpus[0]},1@{cpus[-1]}", *memory, "--no-pci",
            "--no-telemetry", "-m", str(MEMORY_MB), f"--file-prefix=weir-{os.getpid()}-{name}", "--mbuf-pool-ops-name=ring_sp_sc",
            *(f"--vdev={device}" for device in devices),
            "--", "--interactive", "--nb-cores=1", f"--total-num-mbufs={mbufs}", "--mbcache=0",
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.set_blocking(self._process.stdout.fileno(), False)
        try:
            self._answer()
        except BaseException:
            self.end()
            raise

    def _answer(self):
        """What it says until it asks again."""
        text, deadline = b"", time.monotonic() + PATIENCE
        while not text.endswith(self.PROMPT):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._kill()  # what it would say later would be taken for another answer
                raise Failed(f"dpdk-testpmd does not answer; it said:\n{text.decode(errors='replace')[-2000:]}")
            text += self._process.stdout.read() or b""
            time.sleep(0.01)
        return text.decode(errors="replace")

    def _say(self, command):
        if self._process.poll() is not None:
            raise Failed("dpdk-testpmd has ended")
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def forward(self, mode, seconds):
        """Nanoseconds of its processor time for each frame, forwarding so for some seconds."""
        self._say(f"set fwd {mode}")
        before = process_cpu(self._process.pid)
        self._say(self._start)
        time.sleep(seconds)
        text = self._say("stop")
        cpu = process_cpu(self._process.pid) - before
        total = re.search(r"Accumulated forward statistics for all ports.*?RX-packets:\s*(\d+).*?TX-packets:\s*(\d+)\s+TX-dropped:\s*(\d+)",
                          text, re.DOTALL)
        if not total or not int(total[1]):
            raise Failed(f"dpdk-testpmd, {mode}: no frames were forwarded:\n{text[-1500:]}")
        received, sent, dropped = (int(group) for group in total.groups())
        if sent + dropped < received:
            raise Failed(f"dpdk-testpmd, {mode}: {received} frames in, {sent} out, {dropped} dropped")
        return cpu * 1e9 / received

    def end(self):
        if self._process.poll() is None:
            try:
                self._process.communicate(b"quit\n", timeout=10)
            except subprocess.TimeoutExpired:
                self._kill()

    def _kill(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
