# SPDX-License-Identifier: BSD-3-Clause
"""The program's face: bad input, --check, statistics, and how it ends."""
import os
import pty
import re
import resource
import signal
import socket
import subprocess
import threading

from harness import PROGRAM, TIMEOUT_SECONDS, VdevTest, command, tap
from packets import tcp

RULE = '[[rule]]\nname = "all"\nlimit = 3\ninterval = "8760h"\naction = "drop"\n'
STATISTICS = ["time", "node", "rx", "tx", "pps", "requests", "admitted", "blocked", "observed", "dropped", "tx_drops",
              "tx_errors", "rx_missed", "rx_no_buffer", "rx_errors", "rx_lost_at", "links_down", "malformed", "cut_heads",
              "generation", "keys", "overflowed", "store", "sync_rtt_us", "pending", "expired", "overruns", "stalled"]


def requests(count):
    return [tcp("192.0.2.1", "198.51.100.1", 2000 + i, 80, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") for i in range(count)]


class Program(VdevTest):
    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=TIMEOUT_SECONDS, check=False)

    def fails(self, done, status, *words):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_help_and_version(self):
        done = self.run_program("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for option in ("--config", "--live", "--duration", "--check", "--version"):
            self.assertIn(option, done.stdout)
        done = self.run_program("-l", "0", "--", "--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^weir-filter \d+\.\d+\.\d+\n$")

    def test_a_wrong_command_line_says_what_is_wrong(self):
        self.fails(self.run_program(), 2, "--config is required")
        self.fails(self.run_program("--config", "x", "--nonsense"), 2, "--nonsense")
        self.fails(self.run_program("-l", "0", "--config", "x"), 2, "EAL options go before '--'")
        self.fails(self.run_program("--", "--config", "x", "--duration", "-3"), 2, "--duration")
        self.fails(self.run_program("--", "--config", "x", "--duration", "soon"), 2, "--duration")

    def test_a_missing_configuration_says_so(self):
        self.fails(self.run_program("--", "--config", self.path("none.toml")), 2, "none.toml", "No such file")

    def test_every_mistake_in_a_configuration_is_told_with_its_place_before_dpdk_starts(self):
        path = self.path("bad.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write('[[rule]]\nname = "a"\nlimit = 0\ninterval = "1s"\ncolour = "red"\n')
        done = self.run_program("--", "--config", path)
        self.fails(done, 2, path + ":3:", path + ":5:")
        self.assertNotIn("EAL", done.stderr)
        self.assertEqual(self.run_program("--check", "--config", path).returncode, 2)

    def test_what_is_wrong_about_the_store_is_told_before_dpdk_starts_too(self):
        path = self.path("weir.toml")
        for store, mistake in (('url = "redis://redis:port"', "store.url: the port must be a number"),
                               ('url = "redis://redis"\npassword_file = "/none"', "store: password_file: cannot read")):
            self.write_config(RULE, store=store)
            for options in ([], ["--check"]):
                done = self.run_program("--", "--config", path, *options)
                self.fails(done, 2, "%s: %s" % (path, mistake))
                self.assertNotIn("EAL", done.stderr)

    def test_a_rule_that_could_never_apply_is_told_before_dpdk_starts_too(self):
        rules = [RULE.replace("all", "rule-%d" % i) for i in range(18)]
        path = self.write_config("".join(rules[:16]))
        self.assertEqual(self.run_program("--config", path, "--check").returncode, 0)
        self.write_config("".join(rules))
        for options in ([], ["--check"]):
            done = self.run_program("--", "--config", path, *options)
            self.fails(done, 2, '%s: rule "rule-16": it would never apply' % path)
            self.assertNotIn("EAL", done.stderr)

    def test_check_does_not_ask_the_store_that_the_configuration_names(self):
        with socket.create_server(("127.0.0.1", 0)) as store:
            # So many keys that there is time to connect while their memory is looked at.
            path = self.write_config(RULE, node="keys = 4000000", store='url = "redis://127.0.0.1:%d"' % store.getsockname()[1])
            self.assertEqual(self.run_program("--config", path, "--check").returncode, 0)
            store.setblocking(False)
            with self.assertRaises(BlockingIOError):
                store.accept()

    def test_check_tells_what_the_configuration_does(self):
        path = self.write_config(RULE, ports="pairs = [[0, 1]]", store='url = "redis://me:secret@localhost:6379/1"')
        done = self.run_program("--config", path, "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("rule all: every request; one key for all; limit 3 per 31536000s in 10 spans", done.stdout)
        self.assertIn("action drop", done.stdout)
        self.assertIn("node: %s\n" % re.sub(r"[^0-9A-Za-z._-]", "-", socket.gethostname()), done.stdout)
        self.assertIn("ports: 0-1;", done.stdout)
        self.assertIn("store: redis://me:***@localhost:6379/1", done.stdout)
        self.assertNotIn("secret", done.stdout)
        self.assertRegex(done.stdout, r"memory: .* MiB")

    def run_ports(self, ports, vdevs):
        eal = ["--lcores", "0@0,1@1"]
        for number in range(vdevs):
            eal += ["--vdev", "net_null%d" % number]
        return subprocess.run(command(self.write_config(RULE, ports=ports), eal, ["--duration", "1"]),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                              check=False)

    def test_ports_that_cannot_be_paired(self):
        self.fails(self.run_ports("", 0), 1, "no ports")
        self.fails(self.run_ports("", 3), 1, "an odd number of ports cannot be paired", "0, 1, 2")
        self.fails(self.run_ports("pairs = [[0, 5]]", 2), 1, "names port 5, which does not exist", "0, 1")

    def test_an_mtu_that_the_configuration_or_a_device_does_not_allow(self):
        self.fails(self.run_ports("mtu = 67", 2), 2, "mtu must be a whole number from 68 to 65535, not 67")
        done = self.run_ports("mtu = 65535\ndescriptors = 64", 2)
        self.fails(done, 1, "port 0 (net_null0): [ports] mtu = 65535 is more than a buffer holds", "write less")
        self.assertEqual(self.run_ports("mtu = 9000\ndescriptors = 64", 2).returncode, 0)

    def test_dpdk_that_does_not_start(self):
        done = subprocess.run([PROGRAM, "--no-huge", "--no-shconf", "--no-pci", "-l", "9999", "--", "--config",
                               self.write_config(RULE)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                              check=False)
        self.fails(done, 1, "DPDK does not start", "--no-huge")

    def test_beside_another_one_of_the_same_name_it_says_what_to_do(self):
        folder = {**os.environ, "RUNTIME_DIRECTORY": self.folder}
        line = [PROGRAM, "--no-huge", "-m", "64", "--no-pci", "--no-telemetry", "--lcores", "0@0,1@1", "--vdev",
                "net_null0", "--vdev", "net_null1", "--", "--config", self.write_config(RULE)]
        with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=folder) as first:
            try:
                self.assertIn("time=", first.stdout.readline())
                second = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=folder,
                                        timeout=TIMEOUT_SECONDS, check=False)
            finally:
                first.kill()
        self.fails(second, 1, "DPDK does not start;", "--file-prefix")

    def test_too_little_memory_is_told(self):
        line = command(self.write_config(RULE, ports="descriptors = 32768"),
                       ["--lcores", "0@0,1@1", *self.vdevs([], [])])
        line[line.index("-m") + 1] = "32"
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                              check=False)
        self.fails(done, 1, "no memory for", "lower [ports] descriptors")

    def test_check_tells_of_too_little_memory_as_of_no_mistake_in_the_configuration(self):
        done = subprocess.run([PROGRAM, "--config", self.write_config(RULE, node="keys = 16777216"), "--check"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29)))
        self.fails(done, 1, "not enough memory for node.keys = 16777216 (workers: 1, corrections of each in a span: ")

    def test_a_controller_that_gets_no_thread_is_told_on_one_lcore_too(self):
        line = command(self.write_config(RULE), ["--lcores", "0@0", *self.vdevs([], [])], ["--duration", "1"])
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                              check=False, env={**os.environ, "LD_PRELOAD": os.environ["WEIR_NO_MORE_THREADS"]})
        self.fails(done, 1, "weir-filter: Resource temporarily unavailable")

    def test_statistics_lines_are_key_value_pairs_on_stdout(self):
        run = self.run_filter(requests(10), rules=RULE, node='name = "gateway-a"', duration=2)
        lines = [line for line in run.stdout.splitlines() if line.startswith("time=")]
        self.assertGreaterEqual(len(lines), 2)
        for line in lines:
            self.assertEqual([pair.split("=")[0] for pair in line.split()], STATISTICS)
        last = dict(pair.split("=") for pair in lines[-1].split())
        self.assertEqual((last["rx"], last["requests"], last["admitted"], last["blocked"], last["dropped"]),
                         ("10", "10", "3", "7", "7"))
        self.assertEqual((last["node"], last["store"]), ("gateway-a", "none"))
        self.assertNotIn("EAL:", run.stdout)

    def test_live_prints_plain_tables_where_there_is_no_terminal(self):
        run = self.run_filter(requests(10), rules=RULE, duration=2.5, options=["--live"])
        self.assertNotIn("\033", run.stdout)
        self.assertNotIn("time=", run.stdout)
        row = re.compile(r"^all +10 +3 +7 +\d+ +3/31536000s  (open|1 key blocked)$", re.MULTILINE)
        self.assertGreaterEqual(len(row.findall(run.stdout)), 2)

    def test_a_store_that_cannot_be_reached_stops_nothing(self):
        frames = requests(10)
        run = self.run_filter_without_balance(frames, 'url = "redis+unix://%s"' % self.path("none.sock"))
        self.assertIn("total rule=all offered=10", run.stdout)
        self.assertIn("store=down", run.stdout)
        self.assertIn("counts pending", run.stderr)
        self.assertEqual(re.search(r"total store pending=(\d+) synced=(\d+)", run.stdout).groups(), ("3", "0"))

    def run_filter_without_balance(self, frames, store):
        line = command(self.write_config(RULE, store=store),
                       ["--lcores", "0@0,1@1", *self.vdevs(frames, [])], ["--duration", "1"])
        return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                              check=True)


class Started(VdevTest):
    """With the program running until the test ends it."""

    def start(self, store="", stdout=subprocess.PIPE, stderr=subprocess.PIPE, before=(), lcores="0@0,1@1", rules=RULE):
        line = [*before, *command(self.write_config(rules, store=store),
                                  ["--log-level=error", "--lcores", lcores, *self.vdevs(requests(10), [])])]
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, text=True)
        # A test that fails must not leave a process behind, nor wait for one for ever.
        timer = threading.Timer(TIMEOUT_SECONDS, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        for stream in filter(None, (process.stderr, process.stdout)):
            self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for_packets(self, process):
        while True:
            line = process.stdout.readline()
            self.assertNotEqual(line, "", "the program ended early")
            if " rx=10 " in line:
                return


class Threads(Started):
    def test_on_one_lcore_the_worker_has_its_processor_to_itself(self):
        processors = os.sched_getaffinity(0)
        if len(processors) < 2:
            self.skipTest("one processor: all threads share it")
        worker = min(processors)
        # Nobody listens: what talks to the store is there all the same.
        process = self.start('url = "redis+unix://%s"' % self.path("none.sock"), lcores="0@%d" % worker)
        self.wait_for_packets(process)
        self.assertEqual(os.sched_getaffinity(process.pid), {worker})
        others = set(map(int, os.listdir("/proc/%d/task" % process.pid))) - {process.pid}
        # Of statistics and control, and of the store.
        self.assertGreaterEqual(len(others), 2)
        for thread in others:
            self.assertNotIn(worker, os.sched_getaffinity(thread), self.name_of(process, thread))

    def name_of(self, process, thread):
        with open("/proc/%d/task/%d/comm" % (process.pid, thread), encoding="utf-8") as name:
            return name.read()


class Ending(Started):
    def check_clean_end(self, number, **how):
        process = self.start(**how)
        self.wait_for_packets(process)
        self.check_that_it_ends_cleanly(process, number)

    def check_that_it_ends_cleanly(self, process, number):
        process.send_signal(number)
        output = process.stdout.read()
        self.assertEqual(process.wait(TIMEOUT_SECONDS), 0)
        self.assertIn("total rule=all offered=10 admitted=3 blocked=7\n", output)
        self.assertIn("total store pending=0 synced=3 expired=0\n", output)

    def test_sigterm_synchronises_the_last_counts(self):
        self.check_clean_end(signal.SIGTERM)

    def test_sigint_does_too(self):
        self.check_clean_end(signal.SIGINT)

    def test_a_terminal_that_closes_does_too(self):
        # Who runs the tests may have nohup's word for it.
        self.check_clean_end(signal.SIGHUP, before=["env", "--default-signal=HUP"])

    def test_under_nohup_it_does_not_end_with_its_terminal(self):
        process = self.start(before=["nohup"])
        self.wait_for_packets(process)
        process.send_signal(signal.SIGHUP)
        self.wait_for_packets(process)
        self.check_that_it_ends_cleanly(process, signal.SIGTERM)

    def wait_until_signals_end_it(self, process):
        """Until its main thread does not hold them any more."""
        while process.poll() is None:
            with open("/proc/%d/status" % process.pid, encoding="utf-8") as status:
                held = int(re.search(r"^SigBlk:\s*(\w+)$", status.read(), re.MULTILINE)[1], 16)
            if not held >> (signal.SIGTERM - 1) & 1:
                return

    def check_that_a_second_signal_ends_it_at_once(self, lcores):
        # A store that accepts and never answers keeps the last synchronisation waiting.
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path("silent.sock"))
            listener.listen()
            process = self.start('url = "redis+unix://%s"\ntimeout = "10s"' % self.path("silent.sock"), lcores=lcores)
            self.wait_for_packets(process)
            process.send_signal(signal.SIGTERM)
            # Two signals sent at once would be one: wait until the first has been taken.
            self.assertTrue(any("stopping" in line for line in process.stderr))
            self.wait_until_signals_end_it(process)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(TIMEOUT_SECONDS), -signal.SIGTERM)

    def test_a_second_signal_ends_it_at_once(self):
        self.check_that_a_second_signal_ends_it_at_once("0@0,1@1")

    def test_a_second_signal_ends_it_at_once_on_one_lcore_too(self):
        self.check_that_a_second_signal_ends_it_at_once("0@0")

    def test_a_closed_output_does_not_end_it(self):
        process = self.start()
        self.wait_for_packets(process)
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), 0)

    def test_without_any_output_it_ends_as_ever(self):
        process = self.start(before=["sh", "-c", 'exec "$0" "$@" >&-'])
        self.assertTrue(any("queues per port" in line for line in process.stderr))
        # Nor does anything that it has opened take what it says.
        self.assertEqual(os.readlink("/proc/%d/fd/1" % process.pid), "/dev/null")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), 0)

    def full_pipe(self):
        """A pipe without room that nobody reads: its two ends."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"." * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        return reader, writer

    def test_statistics_that_nobody_reads_do_not_keep_it_from_ending(self):
        _, writer = self.full_pipe()
        process = self.start(stdout=writer)
        self.assertTrue(any("queues per port" in line for line in process.stderr))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), 0)
        self.assertIn("stopping", process.stderr.read())

    def test_a_terminal_that_takes_some_of_the_last_table_does_not_either(self):
        terminal, output = pty.openpty()
        self.addCleanup(os.close, terminal)
        self.addCleanup(os.close, output)
        # A table of far more than the 20 kB that a terminal takes before somebody reads it.
        rules = "".join(RULE.replace("all", "rule-%d" % i) + 'match.path = "/%d"\n' % i for i in range(500))
        process = self.start(stdout=output, rules=rules)
        self.assertTrue(any("queues per port" in line for line in process.stderr))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), 0)

    def test_messages_that_nobody_reads_stop_neither_control_nor_statistics(self):
        reader, writer = self.full_pipe()
        process = self.start('url = "redis+unix://%s"' % self.path("none.sock"), stderr=writer)
        # The loss is told by the thread that controls; each line after it says that the thread goes on.
        generations = []
        while len(generations) < 3:
            line = process.stdout.readline()
            self.assertNotEqual(line, "", "the program ended early")
            if "store=down" in line:
                generations.append(int(re.search(r" generation=(\d+) ", line).group(1)))
        self.assertLess(generations[0], generations[2])
        os.read(reader, 1 << 20)
        process.send_signal(signal.SIGTERM)
        self.assertIn("total rule=all offered=10 admitted=3 blocked=7\n", process.stdout.read())
        self.assertEqual(process.wait(TIMEOUT_SECONDS), 0)
        self.assertRegex(os.read(reader, 65536).decode(), r"weir-filter: \d+ lines are missing here: .*\n"
                                                           r"weir-filter: stopping\n")


if __name__ == "__main__":
    tap.main()
