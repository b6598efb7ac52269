# SPDX-License-Identifier: BSD-3-Clause
"""What is not a refused request passes byte for byte and in order."""
import os
import random
import subprocess

from harness import TIMEOUT_SECONDS, VdevTest, command, tap
from packets import ACK, FIN, SYN, arp, ip, link, read_pcap, tcp, udp, write_pcap

CLIENT, SERVER = "192.0.2.10", "198.51.100.80"
CLIENT6, SERVER6 = "2001:db8::10", "2001:db8:1::80"


REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

MALFORMED = [
    tcp(CLIENT, SERVER, 40000, 80, REQUEST)[:40],    # ends within the TCP header
    link(b"", 0x0800),                               # no IP header at all
    link(b"\x45" + b"\0" * 19, 0x0800),              # an IP length of zero
    link(bytes([0x4F]) + b"\0" * 30, 0x0800),        # IP options beyond the frame
]


def everything():
    """One frame of each kind, in an order that a reordering would disturb."""
    return [
        arp(),
        tcp(CLIENT, SERVER, 40000, 80, flags=SYN, acknowledgment=0, options=bytes([2, 4, 5, 180])),
        udp(CLIENT, SERVER, 5353, 53, b"not http"),
        tcp(CLIENT, SERVER, 40000, 80, flags=ACK),
        tcp(CLIENT, SERVER, 40000, 80, REQUEST),
        tcp(CLIENT6, SERVER6, 40000, 80, REQUEST, vlans=(100, 200)),
        link(ip(b"\1" * 64, CLIENT, SERVER, fragment=0x2000)[1], 0x0800),
        link(ip(b"\2" * 64, CLIENT, SERVER, fragment=0x0008)[1], 0x0800),
        tcp(CLIENT, SERVER, 40001, 443, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        *MALFORMED,
        tcp(CLIENT, SERVER, 40000, 80, b"G"),
        tcp(CLIENT, SERVER, 40000, 80, b"\0" * 1400),
        link(b"LLC" * 20, 60),
        tcp(CLIENT, SERVER, 40000, 80, flags=FIN | ACK),
    ]


class Forwarding(VdevTest):
    RULES = '[[rule]]\nname = "all"\nlimit = 1000000\ninterval = "1s"\n'

    def test_every_kind_of_frame_passes_untouched_in_order_both_ways(self):
        clients, servers = everything() * 40, list(reversed(everything())) * 30
        run = self.run_filter(clients, servers, rules=self.RULES)
        self.assertEqual(run.to_server, clients)
        self.assertEqual(run.to_client, servers)
        self.assertEqual(run.totals("packets")["crafted"], 0)

    def test_malformed_frames_pass_and_are_counted(self):
        run = self.run_filter(MALFORMED * 3, rules=self.RULES)
        self.assertEqual(run.to_server, MALFORMED * 3)
        self.assertEqual(run.totals("packets")["malformed"], 3 * len(MALFORMED))

    def test_noise_passes(self):
        seed = 1
        print("# seed", seed)
        source = random.Random(seed)
        frames = []
        for _ in range(2000):
            frame = bytearray(source.choice(everything()))
            for _ in range(source.randrange(1, 8)):
                frame[source.randrange(12, len(frame)) if len(frame) > 14 else 13] = source.randrange(256)
            frames.append(bytes(frame))
        run = self.run_filter(frames, rules=self.RULES)
        self.assertEqual(run.to_server, frames)

    def test_a_frame_of_several_buffers_is_inspected_and_passes_whole(self):
        head = b"POST /jumbo HTTP/1.1\r\nHost: a\r\n\r\n"
        frames = [tcp(CLIENT, SERVER, 40000, 80, head + bytes(range(256)) * 30) for _ in range(5)]
        run = self.run_filter(frames, rules=self.RULES)
        self.assertEqual(run.to_server, frames)
        self.assertEqual(run.totals("packets")["requests"], 5)

    def test_a_longer_mtu_than_a_buffer_holds_makes_the_buffers_larger(self):
        frames = [tcp(CLIENT, SERVER, 40000, 80, REQUEST + bytes(range(256)) * 34) for _ in range(5)]
        run = self.run_filter(frames, rules=self.RULES, ports="mtu = 9000")
        self.assertEqual(run.to_server, frames)
        self.assertEqual(run.totals("packets")["requests"], 5)
        # Of the driver that reads a file: one that has no MTU is told so, and goes on.
        self.assertIn("port 0 (net_pcap0): cannot set its MTU to 9000", run.stderr)
        self.assertRegex(run.stderr, r"(?m)^weir-filter: port 0 \(net_pcap0\): link up, 10 Gbit/s; MTU 9000$")

    def test_with_several_queues_each_worker_serves_the_same_queue_of_both_ports(self):
        queues = [[tcp(CLIENT, SERVER, 40000 + queue, 80, REQUEST, sequence=i) for i in range(100)] for queue in (0, 1)]
        vdev = []
        for port in (0, 1):
            name = "net_pcap%d" % port
            for queue in (0, 1):
                write_pcap(self.path("in%d%d.pcap" % (port, queue)), queues[queue] if port == 0 else [])
                name += ",rx_pcap=%s" % self.path("in%d%d.pcap" % (port, queue))
            for queue in (0, 1):
                name += ",tx_pcap=%s" % self.path("out%d%d.pcap" % (port, queue))
            vdev += ["--vdev", name]
        run = self.run_ports(vdev, "0@0,1@1,2@0")
        self.assertIn("queues per port: 2; workers: 2 (lcores 1, 2), each polling 2 receive queues; rules: 1\n", run.stderr)
        for queue in (0, 1):
            self.assertEqual(read_pcap(self.path("out1%d.pcap" % queue)), queues[queue])

    def test_two_pairs_are_bridged_apart(self):
        vdev = []
        for port in range(4):
            write_pcap(self.path("in%d.pcap" % port), [tcp(CLIENT, SERVER, 40000 + port, 80, REQUEST)] * (port + 1))
            vdev += ["--vdev", "net_pcap%d,rx_pcap=%s,tx_pcap=%s" % (port, self.path("in%d.pcap" % port),
                                                                     self.path("out%d.pcap" % port))]
        for lcores, workers in (("0@0,1@1", 1), ("0@0,1@1,2@0", 2)):
            run = self.run_ports(vdev, lcores, ports="pairs = [[0, 3], [1, 2]]")
            self.assertIn("ports 0-3 1-2; queues per port: 1; workers: %d (lcore" % workers, run.stderr)
            for port, peer in ((0, 3), (3, 0), (1, 2), (2, 1)):
                self.assertEqual(read_pcap(self.path("out%d.pcap" % peer)), read_pcap(self.path("in%d.pcap" % port)))

    def run_ports(self, vdev, lcores, ports=""):
        line = command(self.write_config(self.RULES, ports=ports), ["--lcores", lcores, *vdev],
                       ["--duration", "1"])
        return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                              check=True)

    def test_the_main_lcore_alone_is_enough(self):
        frames = everything() * 10
        run = self.run_filter(frames, rules=self.RULES, lcores="0@0")
        self.assertEqual(run.to_server, frames)
        self.assertIn("(the main lcore)", run.stderr)

    def test_the_main_lcore_waits_for_the_controller(self):
        # With one processor for both and few keys to make room for it is ready first, most times.
        processors = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, processors)
        first = min(processors)
        os.sched_setaffinity(0, {first})
        frames = everything() * 10
        run = self.run_filter(frames, rules=self.RULES, lcores="0@%d" % first, node="keys = 64")
        self.assertEqual(run.to_server, frames)


if __name__ == "__main__":
    tap.main()
