#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What weir-filter tells of its ports, where a kernel's interfaces are these. Needs root.

Environment: WEIR_BUILD_ROOT.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests"), str(SOURCE / "tools/demo")]
import tap
from programs import Program, eal_environment, figures

PATIENCE = 30
# More than the kernel keeps for a reader.
FRAMES = 5000
FRAME = b"\xff" * 12 + b"\x88\xb5" + b"x" * 1400


SENDER = f"""
import socket
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("y0", 0))
for _ in range({FRAMES}):
    sender.send({FRAME!r})
"""


class Ports(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("network namespaces need root")
        folder = tempfile.TemporaryDirectory(prefix="weir-ports-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.namespace = f"weir-ports-{os.getpid()}"
        self.run_ip("netns", "add", self.namespace)
        self.addCleanup(self.run_ip, "netns", "delete", self.namespace)

    def run_ip(self, *command):
        subprocess.run(["ip", *command], stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE)

    def inside(self, *command):
        self.run_ip("-n", self.namespace, *command)

    def connect(self, inner, outer):
        self.inside("link", "add", inner, "type", "veth", "peer", "name", outer)
        for end in (inner, outer):
            self.inside("link", "set", end, "up")

    def start(self, *vdevs):
        configuration = self.folder / "weir.toml"
        configuration.write_text('[node]\nstatistics = "500ms"\nidle_sleep = "100us"\n', encoding="utf-8")
        program = Program(
            [
                *("ip", "netns", "exec", self.namespace),
                os.path.join(os.environ["WEIR_BUILD_ROOT"], "app/filter/weir-filter"),
                *("--log-level=error", "--no-huge", "--no-shconf", "--no-pci", "-m", "256"),
                *("--file-prefix", self.namespace, "--lcores", "0@0,1@1"),
                *(f"--vdev={vdev}" for vdev in vdevs),
                *("--", "--config", str(configuration)),
            ],
            name="weir-filter",
            env=eal_environment(self.folder),
        )
        self.addCleanup(program.kill)
        program.wait_for_line(r"^time=", PATIENCE)
        return program

    def port(self, program, number):
        """The figures of a port, at the program's end."""
        self.assertEqual(program.stop(), 0, program.output())
        return figures(program.wait_for_line(rf"^total port={number} .*", 1)[0])

    def test_what_is_lost_before_it_comes_here_is_counted_by_port(self):
        self.connect("x0", "y0")
        self.connect("x1", "y1")
        program = self.start("net_pcap0,iface=x0", "net_pcap1,iface=x1")
        # Nobody takes what comes meanwhile.
        os.kill(program.pid, signal.SIGSTOP)
        self.run_ip("netns", "exec", self.namespace, sys.executable, "-c", SENDER)
        os.kill(program.pid, signal.SIGCONT)
        line = figures(program.wait_for_line(r"^time=.* rx_missed=[1-9].*", PATIENCE)[0])
        self.assertEqual(line["rx_lost_at"], f"0:{line['rx_missed']}")
        lost = self.port(program, 0)
        packets = figures(program.wait_for_line(r"^total packets .*", 1)[0])
        self.assertGreaterEqual(packets["rx"] + lost["rx_missed"], FRAMES)
        self.assertEqual((lost["name"], lost["rx_no_buffer"], lost["rx_errors"]), ("net_pcap0", 0, 0))
        self.assertEqual(figures(program.wait_for_line(r"^total port=1 .*", 1)[0])["rx_missed"], 0)

    def test_what_a_device_has_taken_and_not_sent_is_counted_by_port(self):
        self.connect("x0", "y0")
        self.connect("x1", "y1")
        program = self.start("net_pcap0,iface=x0", "net_af_packet1,iface=x1")
        self.inside("link", "set", "x1", "down")
        self.run_ip("netns", "exec", self.namespace, sys.executable, "-c", SENDER)
        line = figures(program.wait_for_line(r"^time=.* tx_errors=[1-9].*", PATIENCE)[0])
        self.assertEqual(line["rx_errors"], 0)
        self.assertGreater(self.port(program, 1)["tx_errors"], 0)
        self.assertEqual(figures(program.wait_for_line(r"^total port=0 .*", 1)[0])["tx_errors"], 0)

    @unittest.skipUnless(os.path.exists("/dev/net/tun"), "net_tap needs /dev/net/tun")
    def test_a_link_that_is_lost_and_comes_back_is_told(self):
        program = self.start("net_tap0,iface=t0", "net_tap1,iface=t1")
        program.wait_for_line(r"port 0 \(net_tap0\): link up", 1)
        program.wait_for_line(r"^time=.* links_down=0 ", PATIENCE)
        for state, down in (("down", 1), ("up", 0)):
            seen = len(program.lines)
            self.inside("link", "set", "t1", state)
            program.wait_for_line(rf"weir-filter: port 1 \(net_tap1\): link {state}", PATIENCE, seen)
            program.wait_for_line(rf"^time=.* links_down={down} ", PATIENCE, seen)
        self.inside("link", "set", "t1", "down")
        self.assertEqual(self.port(program, 1)["link"], "down")
        self.assertEqual(figures(program.wait_for_line(r"^total port=0 .*", 1)[0])["link"], "up")


if __name__ == "__main__":
    tap.main()
