# SPDX-License-Identifier: BSD-3-Clause
"""Runs the real weir-filter between two virtual ports that read and write capture files."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass

import packets

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402,F401  (for the test modules)

PROGRAM = os.path.join(os.environ["WEIR_BUILD_ROOT"], "app", "filter", "weir-filter")
TIMEOUT_SECONDS = 120


@dataclass
class Run:
    """What a run left behind. `to_server` left by port 1, `to_client` by port 0."""
    status: int
    stdout: str
    stderr: str
    to_server: list
    to_client: list

    def totals(self, kind):
        """The numbers of the line `total <kind> …`."""
        for line in self.stdout.splitlines():
            if line.startswith("total %s" % kind):
                return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)(?= |$)", line)}
        raise AssertionError("no 'total %s' line in:\n%s\n%s" % (kind, self.stdout, self.stderr))


def command(config, eal=(), options=()):
    return [PROGRAM, "--no-huge", "--no-shconf", "-m", "256", "--no-pci", "--no-telemetry",
            "--file-prefix", "weir_vdev_%d" % os.getpid(), *eal, "--", "--config", config, *options]


class VdevTest(unittest.TestCase):
    """A test case with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir_vdev_")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_config(self, rules="", node="", ports="", store=""):
        path = self.path("weir.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write('[node]\nstatistics = "500ms"\nidle_sleep = "100us"\n%s\n[store]\n%s\n[ports]\n%s\n%s\n' %
                       (node, store, ports, rules))
        return path

    def vdevs(self, from_clients, from_servers):
        """Two ports: 0 to the clients, 1 to the servers."""
        arguments = []
        for port, frames in enumerate((from_clients, from_servers)):
            packets.write_pcap(self.path("in%d.pcap" % port), frames)
            arguments += ["--vdev", "net_pcap%d,rx_pcap=%s,tx_pcap=%s" %
                          (port, self.path("in%d.pcap" % port), self.path("out%d.pcap" % port))]
        return arguments

    def run_filter(self, from_clients, from_servers=(), rules="", lcores="0@0,1@1", duration=1, options=(), **config):
        eal = ["--lcores", lcores, *self.vdevs(from_clients, from_servers)]
        line = command(self.write_config(rules, **config), eal,
                       ["--duration", str(duration), *options])
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        run = Run(done.returncode, done.stdout, done.stderr, packets.read_pcap(self.path("out1.pcap")),
                  packets.read_pcap(self.path("out0.pcap")))
        self.check_balance(run, len(from_clients) + len(from_servers))
        return run

    def check_balance(self, run, sent):
        """No frame and no request is lost uncounted."""
        frames = run.totals("packets")
        self.assertEqual(frames["rx"], sent)
        self.assertEqual(frames["rx"] + frames["crafted"], frames["tx"] + frames["tx_drops"] + frames["consumed"])
        self.assertEqual(frames["tx"], len(run.to_server) + len(run.to_client))
        self.assertEqual(frames["requests"], frames["admitted"] + frames["blocked"])
        self.assertEqual(run.totals("store")["pending"], 0)
