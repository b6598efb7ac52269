# SPDX-License-Identifier: BSD-3-Clause
"""Software distribution: ports with one queue, several workers behind one I/O lcore."""
import random
from collections import defaultdict

from harness import VdevTest, tap
from packets import ACK, arp, decode, tcp, udp

SERVER = "198.51.100.80"
FLOWS = 300
# Several lcores on the CPUs there are: the order must hold however they are scheduled.
LCORES = {2: "0@0,1@1,2@0,3@1", 4: "0@0,1@0,2@1,3@0,4@1,5@0"}
REQUEST = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"


def client(flow):
    return "10.0.%d.%d" % (flow // 200, 1 + flow % 200)


def flow_frames(count, seed, request_every=4):
    """Frames of many flows, mixed; each flow's sequence numbers count its frames."""
    source = random.Random(seed)
    position = defaultdict(int)
    frames = []
    for _ in range(count):
        flow = source.randrange(FLOWS)
        position[flow] += 1
        payload = REQUEST % flow if position[flow] % request_every == 0 else b"data"
        frames.append(tcp(client(flow), SERVER, 1000 + flow, 80, payload, sequence=position[flow], flags=ACK))
    return frames


def by_flow(frames):
    flows = defaultdict(list)
    for frame in frames:
        decoded = decode(frame)
        flows[tuple(sorted([(decoded.source, decoded.source_port),
                            (decoded.destination, decoded.destination_port)]))].append(frame)
    return flows


class Distribution(VdevTest):
    COUNT = 3000

    def check_order(self, workers):
        seed = 7
        print("# seed", seed)
        frames = flow_frames(self.COUNT, seed)
        rules = '[[rule]]\nname = "all"\nlimit = 1000000\ninterval = "8760h"\n'
        run = self.run_filter(frames, rules=rules, lcores=LCORES[workers], duration=3)
        self.assertIn("workers: %d (lcores 2, " % workers, run.stderr)
        self.assertEqual(run.totals("packets")["tx_drops"], 0)
        self.assertEqual(by_flow(run.to_server), by_flow(frames))

    def test_every_flow_keeps_its_order_with_two_workers(self):
        self.check_order(2)

    def test_every_flow_keeps_its_order_with_four_workers(self):
        self.check_order(4)

    def test_both_directions_of_a_flow_meet_and_both_are_forwarded(self):
        there = flow_frames(500, 3)
        back = [tcp(SERVER, client(flow), 80, 1000 + flow, b"HTTP/1.1 200 OK\r\n\r\n", sequence=i)
                for i in range(5) for flow in range(100)]
        run = self.run_filter(there, back, lcores=LCORES[2], duration=2)
        self.assertEqual(by_flow(run.to_server), by_flow(there))
        self.assertEqual(by_flow(run.to_client), by_flow(back))

    def test_one_limit_holds_over_all_workers_and_no_request_is_lost(self):
        rules = '[[rule]]\nname = "all"\nlimit = 100\ninterval = "8760h"\naction = "reply-429"\n'
        frames = [tcp(client(i), SERVER, 1000 + i, 80, REQUEST % i) for i in range(FLOWS)]
        run = self.run_filter(frames, rules=rules, lcores=LCORES[4], duration=2)
        figures = run.totals("rule=all")
        self.assertEqual(figures["offered"], FLOWS)
        self.assertEqual(figures["offered"], figures["admitted"] + figures["blocked"])
        self.assertLessEqual(figures["admitted"], 100)
        self.assertGreater(figures["admitted"], 0)
        self.assertEqual(len(run.to_client), figures["blocked"])
        for frame in run.to_client:
            self.assertTrue(decode(frame).payload.startswith(b"HTTP/1.1 429 "))

    def test_what_is_not_tcp_passes_too(self):
        frames = [arp(), udp(client(1), SERVER, 5353, 53, b"x")] * 100
        run = self.run_filter(frames, lcores=LCORES[2])
        self.assertEqual(sorted(run.to_server), sorted(frames))

    def test_a_single_configured_queue_distributes_although_ports_have_more(self):
        run = self.run_filter([arp()], ports="queues = 1", lcores="0@0,1@1,2@0")
        self.assertIn("workers: 1 (lcore 2), and lcore 1, which polls 2 receive queues, distributes", run.stderr)


if __name__ == "__main__":
    tap.main()
