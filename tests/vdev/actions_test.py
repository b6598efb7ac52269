# SPDX-License-Identifier: BSD-3-Clause
"""What happens to a refused request, and what the two ends are told."""
import re
import subprocess
import time
import unittest

from harness import VdevTest, tap
from packets import (ACK, CLIENT_MAC, FIN, PSH, RST, SERVER_MAC, SYN, checksum, decode, pseudo_header, tcp, timestamps,
                     write_pcap)

CLIENT, SERVER = "192.0.2.10", "198.51.100.80"
CLIENT6, SERVER6 = "2001:db8::10", "2001:db8:1::80"
GET = b"GET /items HTTP/1.1\r\nHost: shop.example\r\n\r\n"


def rule(action, limit=1, **more):
    extra = "".join('%s = "%s"\n' % pair for pair in more.items())
    return '[[rule]]\nname = "items"\nlimit = %d\ninterval = "8760h"\ncooldown = "90s"\naction = "%s"\n%s' % (
        limit, action, extra)


def request(port, payload=GET, sequence=1000, acknowledgment=5000, **more):
    return tcp(CLIENT, SERVER, port, 80, payload, sequence=sequence, acknowledgment=acknowledgment, **more)


def response(decoded):
    """Status line, header fields and body of an HTTP response."""
    head, _, body = decoded.payload.partition(b"\r\n\r\n")
    status, *lines = head.decode("ascii").split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


class Refused(VdevTest):
    """Each run lets the first request through: the limit is one per year, whose border no test run meets by accident."""

    def refuse_one(self, action, refused, **arguments):
        first = request(50000)
        run = self.run_filter([first, refused], rules=rule(action), **arguments)
        figures = run.totals("rule=items")
        self.assertEqual((figures["offered"], figures["admitted"], figures["blocked"]), (2, 1, 1))
        self.assertEqual(run.to_server[0], first)
        return run

    def check_reset_of_server(self, frame, refused):
        reset, asked = decode(frame), decode(refused)
        self.assertEqual(reset.flags, RST)
        self.assertEqual(reset.sequence, asked.sequence)
        self.assertEqual(reset.payload, b"")
        self.assertEqual((reset.source_mac, reset.destination_mac), (CLIENT_MAC, SERVER_MAC))
        self.assertEqual((reset.source, reset.destination, reset.source_port, reset.destination_port),
                         (asked.source, asked.destination, asked.source_port, asked.destination_port))
        self.assertEqual((reset.ttl, reset.vlans), (64, asked.vlans))

    def check_comes_back(self, answer, refused):
        """From the server, as far as the client can tell."""
        asked = decode(refused)
        self.assertEqual((answer.source_mac, answer.destination_mac), (SERVER_MAC, CLIENT_MAC))
        self.assertEqual((answer.source, answer.destination, answer.source_port, answer.destination_port),
                         (asked.destination, asked.source, asked.destination_port, asked.source_port))
        self.assertEqual((answer.ttl, answer.vlans), (64, asked.vlans))
        self.assertEqual(answer.sequence, asked.acknowledgment)

    def test_drop_lets_it_vanish(self):
        run = self.refuse_one("drop", request(50001))
        self.assertEqual((len(run.to_server), len(run.to_client)), (1, 0))
        self.assertEqual(run.totals("packets")["dropped"], 1)

    def test_observe_lets_it_through(self):
        second = request(50001)
        run = self.run_filter([request(50000), second], rules=rule("observe"))
        self.assertEqual(run.to_server[1], second)
        self.assertEqual(run.to_client, [])
        self.assertEqual(run.totals("rule=items")["blocked"], 1)
        packets = run.totals("packets")
        self.assertEqual((packets["observed"], packets["admitted"], packets["blocked"]), (1, 2, 0))

    def test_reset_closes_both_ends(self):
        refused = request(50001, sequence=0xFFFFFFF0, acknowledgment=77)
        run = self.refuse_one("reset", refused)
        self.check_reset_of_server(run.to_server[1], refused)
        (frame,) = run.to_client
        answer = decode(frame)
        self.check_comes_back(answer, refused)
        self.assertEqual(answer.flags, RST | ACK)
        self.assertEqual(answer.acknowledgment, (0xFFFFFFF0 + len(GET)) & 0xFFFFFFFF)
        self.assertEqual(answer.payload, b"")

    def check_429(self, run, refused, body=True):
        self.check_reset_of_server(run.to_server[1], refused)
        (frame,) = run.to_client
        answer, asked = decode(frame), decode(refused)
        self.check_comes_back(answer, refused)
        self.assertEqual(answer.flags, PSH | ACK | FIN)
        self.assertEqual(answer.acknowledgment, (asked.sequence + len(asked.payload)) & 0xFFFFFFFF)
        status, fields, text = response(answer)
        self.assertEqual(status, "HTTP/1.1 429 Too Many Requests")
        # The cooldown ends long before the interval, whose limit is used up until then.
        seconds = int(fields["Retry-After"])
        year = 31536000
        self.assertAlmostEqual(seconds, year - time.time() % year, delta=60)
        self.assertEqual(fields["RateLimit-Policy"], '"items";q=1;w=31536000')
        self.assertEqual(fields["RateLimit"], '"items";r=0;t=%d' % seconds)
        self.assertEqual((fields["RateLimit-Limit"], fields["RateLimit-Remaining"], fields["RateLimit-Reset"]),
                         ("1", "0", str(seconds)))
        self.assertEqual((fields["Content-Type"], fields["Connection"]), ("text/plain", "close"))
        if body:
            self.assertEqual(int(fields["Content-Length"]), len(text))
            self.assertTrue(re.search(rb'rule "items"', text))
        else:
            self.assertEqual(text, b"")
            self.assertGreater(int(fields["Content-Length"]), 0)
        return answer

    def test_reply_429_answers_the_client_and_resets_the_server(self):
        refused = request(50001)
        answer = self.check_429(self.refuse_one("reply-429", refused), refused)
        self.assertEqual(answer.options, b"")

    def test_reply_429_over_ipv6_keeps_both_vlan_tags(self):
        refused = tcp(CLIENT6, SERVER6, 50001, 8080, GET, vlans=(0x2064, 0x00C8))
        self.check_429(self.refuse_one("reply-429", refused), refused)

    def test_reply_429_to_head_has_no_body(self):
        refused = request(50001, b"HEAD /items HTTP/1.1\r\nHost: shop.example\r\n\r\n")
        self.check_429(self.refuse_one("reply-429", refused), refused, body=False)

    def test_reply_429_carries_timestamps_where_the_client_does(self):
        refused = request(50001, options=timestamps(111111, 222222))
        answer = self.check_429(self.refuse_one("reply-429", refused), refused)
        self.assertEqual(answer.options, timestamps(222222, 111111))

    def test_reply_429_to_a_request_in_a_chain_of_buffers(self):
        refused = request(50001, b"POST /items HTTP/1.1\r\nHost: shop.example\r\n\r\n" + b"x" * 7000)
        self.check_429(self.refuse_one("reply-429", refused), refused)

    def test_reply_429_takes_a_fin_in_the_request_into_account(self):
        refused = request(50001, flags=PSH | ACK | FIN)
        run = self.refuse_one("reply-429", refused)
        self.assertEqual(decode(run.to_client[0]).acknowledgment, 1000 + len(GET) + 1)

    def test_a_request_in_a_syn_is_reset_since_there_is_no_stream_yet(self):
        refused = request(50001, flags=SYN, acknowledgment=0)
        run = self.refuse_one("reply-429", refused)
        answer = decode(run.to_client[0])
        self.assertEqual((answer.flags, answer.sequence, answer.acknowledgment), (RST | ACK, 0, 1000 + 1 + len(GET)))

    def test_one_refused_request_refuses_the_segment_it_came_in(self):
        pipelined = request(50000, GET + GET)
        run = self.run_filter([pipelined], rules=rule("reset"))
        figures = run.totals("rule=items")
        self.assertEqual((figures["offered"], figures["admitted"], figures["blocked"]), (2, 1, 1))
        self.assertEqual([decode(frame).flags for frame in run.to_server], [RST])

    def test_more_requests_in_a_burst_than_are_decided_at_once(self):
        pipelined = [request(50000 + i, b"GET / HTTP/1.1\r\n\r\n" * 70) for i in range(20)]
        run = self.run_filter(pipelined, rules=rule("drop", limit=701))
        figures = run.totals("rule=items")
        self.assertEqual((figures["offered"], figures["admitted"]), (1400, 701))
        self.assertEqual(run.to_server, pipelined[:10])

    def test_each_rule_counts_its_own(self):
        rules = ('[[rule]]\nname = "login"\nmatch = {method = "POST", path = "/login"}\nkey = ["src_ip/32"]\n'
                 'limit = 3\ninterval = "8760h"\naction = "drop"\n'
                 '[[rule]]\nname = "users"\nmatch = {path = "/users/{id}"}\nkey = ["path:id"]\n'
                 'limit = 5\ninterval = "8760h"\naction = "reset"\n')
        frames = [request(50000 + i, b"POST /login HTTP/1.1\r\nHost: a\r\n\r\n") for i in range(10)]
        frames += [request(51000 + i, b"GET /users/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (i % 2)) for i in range(20)]
        frames += [request(52000 + i, b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n") for i in range(7)]
        run = self.run_filter(frames, rules=rules)
        login, users = run.totals("rule=login"), run.totals("rule=users")
        self.assertEqual((login["offered"], login["admitted"], login["blocked"]), (10, 3, 7))
        self.assertEqual((users["offered"], users["admitted"], users["blocked"]), (20, 10, 10))
        packets = run.totals("packets")
        self.assertEqual((packets["requests"], packets["admitted"], packets["crafted"]), (37, 20, 20))

    def test_an_independent_decoder_finds_nothing_wrong(self):
        frames = [request(50000)]
        for i in range(40):
            payload = GET + b"x" * (i % 5)
            frames.append(tcp(CLIENT6, SERVER6, 50001 + i, 80, payload, vlans=(7,) * (i % 3)) if i % 2 else
                          request(50001 + i, payload, options=timestamps(i, i) if i % 4 else b""))
        run = self.run_filter(frames, rules=rule("reply-429"))
        path = self.path("crafted.pcap")
        write_pcap(path, run.to_client + run.to_server)
        shown = subprocess.run(
            ["tshark", "-r", path, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields",
             "-e", "tcp.checksum.status", "-e", "ip.checksum.status", "-e", "_ws.malformed", "-e", "http.response.code"],
            capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        self.assertEqual(len(shown), 81)
        good = "1"
        codes = []
        for line in shown:
            tcp_status, ip_status, malformed, code = (line + "\t\t\t").split("\t")[:4]
            self.assertEqual((tcp_status, ip_status or good, malformed), (good, good, ""), line)
            codes.append(code)
        self.assertEqual(codes.count("429"), 40)


class Closing(VdevTest):
    """The client of a refused request is seen to its end, so that no RST of the server overtakes its 429."""

    # Longer than a burst: what follows is decided after the refusal has been acted upon.
    PADDING = [request(60000 + i, b"", flags=ACK) for i in range(200)]

    def closing(self, later):
        run = self.run_filter([request(50000), request(50001, options=timestamps(10, 20)), *later],
                              rules=rule("reply-429"))
        self.first = decode(run.to_client[0])
        self.end = 5000 + len(self.first.payload) + 1  # behind the 429 and its FIN
        self.assertEqual(run.to_server[0], request(50000))
        self.assertEqual(decode(run.to_server[1]).flags, RST)
        return run

    def end_of_reply(self):
        """Sequence numbers of a reply depend on its length, so ask for one first."""
        self.closing([])
        return self.end

    def test_acknowledgments_are_absorbed_and_a_fin_is_acknowledged(self):
        end = self.end_of_reply()
        next_byte = 1000 + len(GET)
        run = self.closing([
            request(50001, b"", sequence=next_byte, acknowledgment=end, flags=ACK),
            request(50001, b"", sequence=next_byte, acknowledgment=end, flags=ACK | FIN, options=timestamps(30, 40)),
        ])
        self.assertEqual((len(run.to_server), len(run.to_client)), (2, 2))
        last = decode(run.to_client[1])
        self.assertEqual((last.flags, last.sequence, last.acknowledgment), (ACK, end, next_byte + 1))
        self.assertEqual(last.options, timestamps(40, 30))
        self.assertEqual(run.totals("packets")["absorbed"], 2)

    def test_the_rest_of_a_body_is_acknowledged_and_not_passed_on(self):
        end = self.end_of_reply()
        next_byte = 1000 + len(GET)
        run = self.closing([
            request(50001, b"b" * 100, sequence=next_byte, acknowledgment=end),
            request(50001, b"b" * 100, sequence=next_byte + 200, acknowledgment=end),  # one was lost: ask for it
            request(50001, b"b" * 100, sequence=next_byte + 100, acknowledgment=end),
        ])
        self.assertEqual(len(run.to_server), 2)
        self.assertEqual([decode(frame).acknowledgment - next_byte for frame in run.to_client[1:]], [100, 100, 200])

    def test_the_rest_of_a_body_is_not_acknowledged_before_the_client_has_seen_the_429(self):
        end = self.end_of_reply()
        next_byte = 1000 + len(GET)
        run = self.closing([
            *self.PADDING,
            request(50001, b"b" * 100, sequence=next_byte),  # on its way when the 429 was sent, and that is lost
            *self.PADDING,
            request(50001, options=timestamps(11, 20)),
            *self.PADDING,
            request(50001, b"", sequence=next_byte + 100, acknowledgment=end, flags=ACK),
        ])
        again, last = [decode(frame) for frame in run.to_client[1:]]
        self.assertEqual((again.payload, again.sequence), (self.first.payload, self.first.sequence))
        self.assertEqual((last.flags, last.sequence, last.acknowledgment), (ACK, end, next_byte + 100))
        self.assertEqual(run.totals("rule=items")["offered"], 2)

    def test_a_request_sent_again_gets_the_same_429_and_is_not_counted_again(self):
        run = self.closing([*self.PADDING, request(50001, options=timestamps(11, 20))])
        self.assertEqual(len(run.to_client), 2)
        self.assertEqual(decode(run.to_server[-1]).flags, RST)
        again = decode(run.to_client[1])
        self.assertEqual((again.payload, again.sequence), (self.first.payload, self.first.sequence))
        self.assertEqual(run.totals("rule=items")["offered"], 2)

    def test_a_new_connection_from_the_same_port_is_a_new_connection(self):
        syn = request(50001, b"", flags=SYN, sequence=99, acknowledgment=0)
        run = self.closing([syn, request(50001, sequence=100)])
        self.assertEqual(run.to_server[2], syn)
        self.assertEqual(run.totals("rule=items")["offered"], 3)
        self.assertEqual(decode(run.to_client[1]).acknowledgment, 100 + len(GET))

    def test_other_connections_of_the_client_are_not_touched(self):
        other = request(50002, b"", flags=ACK)
        run = self.closing([other])
        self.assertEqual(run.to_server[2], other)

    def test_a_flow_is_still_known_in_a_later_burst(self):
        late = request(50001, b"", sequence=1000 + len(GET), acknowledgment=self.end_of_reply(), flags=ACK | FIN)
        run = self.closing([*self.PADDING, late])
        self.assertEqual(run.to_server[2:], self.PADDING)
        self.assertEqual(len(run.to_client), 2)


class Decoder(unittest.TestCase):
    """The test's own eyes: without this, a decoder that checks nothing would go unnoticed."""

    def test_a_wrong_checksum_is_seen(self):
        frame = bytearray(request(1))
        decode(bytes(frame))
        frame[-1] ^= 1
        self.assertRaises(ValueError, decode, bytes(frame))
        frame[-1] ^= 1
        frame[22] ^= 1
        self.assertRaises(ValueError, decode, bytes(frame))

    def test_the_checksum_is_that_of_rfc_1071(self):
        self.assertEqual(checksum(bytes.fromhex("0001f203f4f5f6f7")), ~0xDDF2 & 0xFFFF)
        self.assertEqual(len(pseudo_header(CLIENT, SERVER, 6, 20)), 12)


if __name__ == "__main__":
    tap.main()
