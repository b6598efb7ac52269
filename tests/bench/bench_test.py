#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/bench runs to its end, and tells what it leaves out. No figure is looked at: they are the machine's.

Environment: WEIR_SOURCE_ROOT, WEIR_BUILD_ROOT.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

SOURCE = pathlib.Path(os.environ["WEIR_SOURCE_ROOT"]).resolve()
BUILD = pathlib.Path(os.environ["WEIR_BUILD_ROOT"]).resolve()
sys.path.insert(0, str(SOURCE / "tools/benchmark"))
import common
import controller
import decision
import filter as filter_section
import gateways
import latency
import plot
import scaling


def bench(*arguments, **environment):
    return subprocess.run(
        [sys.executable, SOURCE / "tools/bench", *map(str, arguments)],
        env=dict(os.environ, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )


def asked_for(listening, count):
    """The API keys of a client's first requests, one after the other. (One that asks without a script comes first: wrk
    looks whether there is a server.)"""
    keys = []
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(30)
            rest = b""
            while received := connection.recv(1 << 16):
                *requests, rest = (rest + received).split(b"\r\n\r\n")
                keys += [re.search(rb"(?i)^x-api-key: (\S+)", request, re.MULTILINE)[1].decode() for request in requests]
                if len(keys) >= count:
                    return keys[:count]
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * len(requests))


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-bench-test-")
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name, "report")

    def report(self, *arguments, **environment):
        done = bench("--quick", "--no-build", "--build", BUILD, "--output", self.output, *arguments, **environment)
        self.assertEqual(0, done.returncode, done.stdout)
        return (self.output / "report.md").read_text(encoding="utf-8")

    def test_a_section_is_measured_told_and_plotted(self):
        text = self.report("--only", "scaling")
        self.assertIn("## More workers", text)
        self.assertIn("Not so the controller's spans", text)
        self.assertIn("| **weir**, a key at hand |", text)
        self.assertIn("![scaling](scaling.svg)", text)
        xml.etree.ElementTree.parse(self.output / "scaling.svg")
        runs = json.loads((self.output / "scaling.json").read_text(encoding="utf-8"))["figures"]["runs"]
        self.assertTrue(all(run["per_second_cpu"] > 0 for run in runs))
        self.assertEqual(text.split("## ")[1:], self.report("--only", "scaling", "--reuse").split("## ")[1:])

    def test_figures_of_another_version_are_named_and_cost_the_other_sections_nothing(self):
        self.report("--only", "scaling")
        for name, left in (("decision", {"figures": {"runs": [{"contender": "weir_key"}]}, "left_out": []}),
                           ("memory", [1, 2])):
            (self.output / f"{name}.json").write_text(json.dumps(left), encoding="utf-8")
        (self.output / "latency.json").write_text('{"figures": {', encoding="utf-8")
        done = bench("--build", BUILD, "--output", self.output, "--reuse")
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertNotIn("Traceback", done.stdout)
        for name in ("decision", "memory", "latency"):
            self.assertIn(f"{name}.json: not the figures of this version", done.stdout)
            self.assertIn(f"measure them again: tools/bench --only {name}", done.stdout)
        text = (self.output / "report.md").read_text(encoding="utf-8")
        self.assertIn("**Failed: decision, memory, latency.**", text)
        self.assertIn("| **weir**, a key at hand |", text)

    def test_a_quick_run_is_called_so_however_the_report_is_written_anew(self):
        self.report("--only", "scaling")
        done = bench("--output", self.output, "--reuse")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("**Too short to quote anything from: scaling.**", (self.output / "report.md").read_text(encoding="utf-8"))

    def test_figures_keep_when_and_on_what_they_were_measured(self):
        began = self.report("--only", "scaling").splitlines()[2]
        self.assertIn("processors", began)
        path = self.output / "scaling.json"
        left = json.loads(path.read_text(encoding="utf-8"))
        left["run"]["began"], left["quick"] = "long ago", False
        path.write_text(json.dumps(left), encoding="utf-8")
        text = self.report("--only", "scaling", "--reuse")
        self.assertIn("Began long ago", text)
        self.assertNotIn("Too short", text)
        left["run"]["machine"] = "another machine"
        (self.output / "memory.json").write_text(json.dumps({**left, "figures": []}), encoding="utf-8")
        self.assertIn("memory: another machine", self.report("--reuse"))

    def test_what_a_section_left_out_is_said_whatever_becomes_of_the_next_one(self):
        with tempfile.TemporaryDirectory() as folder:
            decision_program = pathlib.Path(folder, decision.TARGETS[0])
            decision_program.parent.mkdir(parents=True)
            decision_program.symlink_to(BUILD / decision.TARGETS[0])
            done = bench("--quick", "--no-build", "--build", folder, "--output", self.output, "--only", "gateways", "--only", "latency", PATH="/nonexistent")
        self.assertEqual(1, done.returncode, done.stdout)
        text = (self.output / "report.md").read_text(encoding="utf-8")
        self.assertIn("**Failed: latency.**", text)
        for words in ("- left out: nginx and HAProxy: wrk", "- left out: a store that syncs"):
            self.assertIn(words, text)

    def test_decisions_are_told_beside_their_floor(self):
        text = self.report("--only", "decision")
        for words in ("| floor: a random line, prefetched |", "| **weir**, a key at hand |", "### First touches",
                      "| **weir**, a key never met before |", "### What the controller costs the worker", "| rule without dimensions / array |",
                      "| key at hand, token-bucket / floor, below a million keys | 1,000 keys, zipf |", "| key at hand while keys are made up / else | 1,000 keys, uniform |",
                      "| **weir**, a key at hand that is blocked: refused |"):
            self.assertIn(words, text)
        xml.etree.ElementTree.parse(self.output / "decision-zipf.svg")
        figures = json.loads((self.output / "decision.json").read_text(encoding="utf-8"))["figures"]
        self.assertEqual({int(keys) for keys in figures["floor_bytes_per_key"]}, {run["keys"] for run in figures["runs"] if run["keys"] > 1})
        self.assertTrue(all(bytes_per_key > 8 for bytes_per_key in figures["floor_bytes_per_key"].values()))
        self.assertTrue(any(run.get("ns", 0) > 0 and run.get("floor_ns", 0) > 0 for run in figures["runs"]))

    def test_a_size_that_memory_does_not_allow_is_left_out_and_said(self):
        figures = {"floor_bytes_per_key": {"1000": 16}, "left_out": [{"keys": 10_000_000, "bytes_needed": 12e9, "bytes_available": 3e9}],
                   "runs": [{"contender": "weir_key", "keys": 1000, "round": 0, "wrong": "counted 1 of 2 requests"}]}
        context = common.Context(BUILD, self.output, quick=True)
        with unittest.mock.patch.object(decision, "run_json", return_value=figures), contextlib.redirect_stdout(io.StringIO()):
            told = decision.measure(context)
        self.assertIn("left out: decisions among 10,000,000 keys: they need 12.0 GB of memory, there are 3.0", context.left_out)
        self.assertIn("left out: TBB concurrent_hash_map: not there when the build folder was configured (Debian: libtbb-dev)", context.left_out)
        aims = common.Aims("decision")
        decision._add_aims(aims, decision.Turns([]), "zipf", told["sizes_left_out"])
        self.assertIn("| rte_hash / key at hand | 10,000,000 keys, zipf |  | ≥ 3 | not measured |", aims.table())
        self.assertNotIn("token-bucket", aims.table())
        self.assertEqual([], told["runs"])
        self.assertIn("**weir_key, 1,000 keys: 1 turns are not in the figures: counted 1 of 2 requests**", context.left_out)

    def test_what_the_controller_costs_is_told_by_stream_and_what_a_turn_counts_once(self):
        runs = [{"contender": name, "keys": 1000, "drawn": drawn, "round": [0, 0, 0], "ns": ns, "floor_ns": floor, "spans": 5, "overruns": 1, "requests": 8_000_000,
                 "overflowed": 7, "requests_once_met": 3_000_000, "refused": 2}
                for name, ns, floor in (("weir_key", 10, 2), ("weir_key_alone", 8, 1)) for drawn in ("uniform", "zipf")]
        text = "\n".join(decision.report({"floor_bytes_per_key": {}, "sizes_left_out": [], "runs": runs}, unittest.mock.Mock(plot=lambda name, _: name), common.Aims("decision")))
        for drawn in ("uniform", "zipf"):
            self.assertIn(f"| 1,000 | {drawn} | 125 | 100 | 0.80 | 1.60 |", text)
        self.assertEqual(1, text.count("| 1,000 | 1 of 5 | 7 of 8 | 2 of 3 |"))

    def test_ratios_are_those_of_one_round(self):
        runs = [{"contender": name, "keys": 1000, "drawn": "zipf", "round": [0, turn], "ns": ns, "floor_ns": floor}
                for name, turn, ns, floor in (("a", 0, 10, 1), ("b", 0, 5, 1), ("a", 1, 60, 2), ("b", 1, 15, 2),
                                              ("a", 2, 90, 3), ("b", 2, 10, 3), ("a", 3, 1, 1))]
        turns = decision.Turns(runs)
        self.assertEqual(4, turns.times("a", "b", 1000, "zipf"))
        self.assertEqual(20, turns.times_floor("a", 1000, "zipf"))
        self.assertIsNone(turns.times("a", "c", 1000, "zipf"))

    @unittest.skipUnless((BUILD / "bench/filter/bench-filter").exists(), "built without programs")
    def test_frames_are_told_beside_who_waited_for_them(self):
        text = self.report("--only", "filter")
        for words in ("| io: receive and send, no more |", "| **weir-filter**, three rules: global, user, endpoint |",
                      "| **weir-filter**, an attack: all keys blocked, all frames dropped |", "F, loop of rings |"):
            self.assertIn(words, text)
        runs = json.loads((self.output / "filter.json").read_text(encoding="utf-8"))["figures"]
        self.assertEqual({0}, {run["round"] for run in runs})
        for run in runs:
            self.assertGreater(run["ns_per_frame"], 0)
            self.assertIn("waited" if run["source"] == "cloned" else "ns_per_frame", run)
        if filter_section.testpmd.available():
            theirs = [i for i, run in enumerate(runs) if run["contender"] in filter_section.THEIRS]
            self.assertEqual(4, len(theirs))
            self.assertNotEqual(list(range(len(runs) - len(theirs), len(runs))), theirs, "they take their turns among ours")

    @unittest.skipUnless((BUILD / "bench/filter/bench-filter").exists(), "built without programs")
    def test_frames_of_an_attack_are_measured_once_all_are_refused_however_many_keys_there_are(self):
        told = common.run_json(BUILD / "bench/filter/bench-filter", "--sources", "null-16384", "--contenders", "blocked,answered,one_of_three_blocks", "--rounds", 1, "--seconds", 0.05)
        self.assertEqual([], [run["wrong"] for run in told["runs"] if "wrong" in run])

    @unittest.skipUnless((BUILD / "tools/key-memory/weir-key-memory").exists(), "built without programs")
    def test_aims_are_told_at_the_section_and_at_the_top(self):
        text = self.report("--only", "memory")
        top, section = text.split("## What a key takes of a worker's memory")
        self.assertIn("| memory | bytes per active key and worker: of all more is asked | ≤ 32 |", top)
        self.assertIn("| bytes per active key and worker: of all more is asked | 100,000 keys |", section)
        self.assertIn("| the same, as the process has grown: little is asked of any: all within their grants | 1,000,000 keys |", section)

    def test_what_is_not_installed_is_left_out_and_said(self):
        text = self.report("--only", "gateways", PATH="/nonexistent")
        self.assertIn("left out: nginx and HAProxy: wrk", text)
        self.assertIn("| **weir**, a decision: the key at hand is found, decided, counted; 1,000 keys |", text)
        self.assertIn("| **weir**, a request under one rule: its header found, matched, hashed, decided, counted; 1,000 keys |", text)
        for server in ("nginx limit_req", "HAProxy stick-table"):
            self.assertIn(f"| gateways | {server}, added / weir's decision | ≥ 100 |  | not measured |", text)

    @unittest.skipUnless(common.find_program("wrk"), "wrk is not installed")
    def test_the_gateways_are_asked_for_as_many_keys_as_the_report_says_each_once_and_in_no_order(self):
        script = self.output.parent / "requests.lua"
        script.write_text(gateways.SCRIPT, encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(30)
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
            wrk = subprocess.Popen([common.find_program("wrk"), "-t1", "-c1", "-d60s", "-s", script, url], stdout=subprocess.DEVNULL)
            self.addCleanup(wrk.wait)
            self.addCleanup(wrk.kill)
            keys = asked_for(listening, 2 * gateways.CLIENTS)
        once, again = keys[: gateways.CLIENTS], keys[gateways.CLIENTS :]
        self.assertEqual({f"user-{i}" for i in range(1, gateways.CLIENTS + 1)}, set(once))
        self.assertEqual(once, again, "in the same order, time and again")
        follow = sum(int(key[5:]) + 1 == int(other[5:]) for key, other in zip(once, once[1:]))
        self.assertLess(follow, 20, "keys that come after their neighbours")

    def test_the_controllers_time_for_a_span_is_held_against_the_span(self):
        text = self.report("--only", "controller")
        for words in ("| ms for a span | cooldown, 100 % written in every span |", "| ms for a span at an interval's end | token-bucket, 1 % written in every span |",
                      "| ms for a span | sliding-window, 2 nodes, 10 % near their limits |",
                      "| ms for a span | sliding-window, 1 % written in every span, 4 workers |",
                      "| ms for a span | cooldown, all keys blocked, 4 workers |",
                      "| ms for a span | cooldown, all keys blocked, a thousandth more in every span |",
                      "| ms for the span in which all are blocked |", "| cooldown | 10 % |", "![controller](controller.svg)"):
            self.assertIn(words, text)
        runs = json.loads((self.output / "controller.json").read_text(encoding="utf-8"))["figures"]
        self.assertTrue(all(run["quiet" if run["kind"] == "storm" else "median"] > 0 for run in runs))
        self.assertNotIn("not measured", text.split("## What the controller takes for a span")[1])

    def test_aims_of_what_is_not_installed_are_not_measured(self):
        text = self.report("--only", "latency", PATH="/nonexistent")
        self.assertIn("left out: a store that syncs, and one that dies: redis-server is not installed", text)
        self.assertIn("| span 10 ms, Redis dies, 1,000 keys |  | ≤ 1.2 | not measured |", text)


class SpansOfAController(unittest.TestCase):
    FIGURES = [{"kind": kind, "keys": 1_000_000, "hot": hot, "algorithm": 0, "nodes": nodes, "workers": workers,
                "median": 30.0 + 10 * nodes + 10 * workers, "border": 120.0, "worst": 130.0, "overflowed": 0.0, "refused": 0.005,
                **({"store": 60.0} if kind == "turn" else {"first": 300.0})}
               for kind in ("turn", "meet") for nodes, workers, hot in ((1, 1, 10), (2, 1, 10), (1, 4, 1))]
    FIGURES += [{"kind": kind, "keys": 1_000_000, "hot": 0, "algorithm": 0, "nodes": 1, "workers": 4, "median": median, "border": 180.0,
                 "worst": 190.0, "store": 5.0, "overflowed": 0.0, "refused": 1.0} for kind, median in (("refuse", 170.0), ("join", 175.0))]
    FIGURES.append({"kind": "storm", "keys": 1_000_000, "hot": 0, "algorithm": 0, "nodes": 1, "workers": 1, "blocked": 900.0, "store": 300.0,
                    "quiet": 25.0, "overflowed": 0.0, "refused": 1.0})

    def test_are_told_in_milliseconds_for_all_keys(self):
        aims = common.Aims("controller")
        text = "\n".join(controller.report(self.FIGURES, unittest.mock.Mock(plot=lambda name, _: name), aims))
        self.assertIn("| cooldown | 10 % | 50.0 | 120 | 130 | 60.0 | 300 | 50.0 | 0.00% | 0.50% |", text)
        self.assertIn("| cooldown | 10 % | 60.0 | 120 | 130 | 60.0 | 300 | 60.0 | 0.00% | 0.50% |", text)
        told = aims.table()
        self.assertIn("| ms for a span | cooldown, 10 % written in every span | 50.0 | ≤ 50 | met |", told)
        self.assertIn("| ms for a span at an interval's end | cooldown, 10 % written in every span | 120 | ≤ 100 | **not met** |", told)
        self.assertIn("| ms for a span, the worst of all | cooldown, 10 % written in every span | 130 | ≤ 100 | **not met** |", told)
        self.assertIn("| ms for a span, the memory store's work included | cooldown, 10 % written in every span | 110 | ≤ 100 | **not met** |", told)
        self.assertIn("| ms for a span | cooldown, 2 nodes, 10 % near their limits | 60.0 | ≤ 50 | **not met** |", told)
        self.assertIn("| ms for a span | cooldown, 1 % written in every span, 4 workers | 80.0 | ≤ 50 | **not met** |", told)
        self.assertIn("| ms for a span | token-bucket, 1 % written in every span |  | ≤ 50 | not measured |", told)

    def test_are_told_of_blocked_keys_too(self):
        aims = common.Aims("controller")
        text = "\n".join(controller.report(self.FIGURES, unittest.mock.Mock(plot=lambda name, _: name), aims))
        self.assertIn("| 4 | 0 | 170 | 180 | 190 | 5.00 | 170 | 0.00% | 100.00% |", text)
        self.assertIn("| 4 | 1000 | 175 | 180 | 190 | 5.00 | 175 | 0.00% | 100.00% |", text)
        self.assertIn("| 1 | 900 | 300 | 25.0 |", text)
        told = aims.table()
        self.assertIn("| ms for a span | cooldown, all keys blocked, 4 workers | 170 | ≤ 50 | **not met** |", told)
        self.assertIn("| ms for a span at an interval's end | cooldown, all keys blocked |  | ≤ 100 | not measured |", told)


class DecisionsOfSeveralWorkers(unittest.TestCase):
    def test_that_do_not_add_up_are_left_out_and_said(self):
        runs = [{"contender": name, "keys": 1000, "drawn": "uniform", "workers": workers, "round": turn, "per_second_cpu": 1e6 * workers, "per_second_wall": 1e6 * workers}
                for name in ("weir_key", "mutex_and_map") for workers in (1, 2) for turn in (0, 1)]
        runs[2:4] = [{"contender": "weir_key", "keys": 1000, "drawn": "uniform", "workers": 2, "round": turn, "wrong": "counted 1 of 2 decisions"} for turn in (0, 1)]
        context = common.Context(BUILD, None, quick=True)
        with unittest.mock.patch.object(scaling, "run_json", return_value={"processors": 2, "runs": runs}), contextlib.redirect_stdout(io.StringIO()):
            figures = scaling.measure(context)
        self.assertIn("**weir_key, 1,000 keys, uniform, 2 workers: 2 turns are not in the figures: counted 1 of 2 decisions**", context.left_out)
        aims = common.Aims("scaling")
        text = "\n".join(scaling.report(figures, unittest.mock.Mock(plot=lambda name, _: name), aims))
        self.assertIn("| mutex and unordered_map | 1,000 | uniform | 2 | 2.00 | 2.00 | 2.00 | 2.00 |", text)
        self.assertNotIn("| **weir**, a key at hand | 1,000 | uniform | 2 |", text)
        self.assertIn("| 2 workers / 1, by processor time | 1,000 keys, uniform |  | ≥ 1.9 | not measured |", aims.table())

    def test_tell_of_all_rounds_how_many_spans_ended_late_where_there_are_any(self):
        runs = [{"contender": "weir_key", "keys": 1000, "drawn": "uniform", "workers": 1, "round": turn, "per_second_cpu": 1e6, "per_second_wall": 1e6, "spans": 3, "overruns": turn}
                for turn in (0, 1)]
        runs.append({"contender": "floor", "keys": 1000, "drawn": "uniform", "workers": 1, "round": 0, "per_second_cpu": 1e6, "per_second_wall": 1e6})
        text = "\n".join(scaling.report({"processors": 2, "runs": runs}, unittest.mock.Mock(plot=lambda name, _: name), common.Aims("scaling")))
        self.assertIn("| **weir**, a key at hand | 1,000 | uniform | 1 | 1.00 | 1.00 | 1.00 | 1.00 | 1 of 6 |", text)
        self.assertIn("prefetched | 1,000 | uniform | 1 | 1.00 | 1.00 | 1.00 | 1.00 |  |", text)

    def test_are_held_against_the_aims_by_how_keys_are_drawn_and_of_too_many_keys_are_not_measured(self):
        runs = [{"contender": name, "keys": 1000, "drawn": drawn, "workers": 2, "round": 0, "per_second_cpu": rate, "per_second_wall": rate}
                for name, drawn, rate in (("weir_key", "uniform", 400e6), ("weir_key", "zipf", 300e6), ("mutex_and_map", "uniform", 2e6), ("mutex_and_map", "zipf", 6e6))]
        aims = common.Aims("scaling")
        scaling.report({"processors": 2, "runs": runs}, unittest.mock.Mock(plot=lambda name, _: name), aims)
        for where, words in (("1,000 keys, uniform", "200 | ≥ 100 | met"), ("1,000 keys, zipf", "50.0 | ≥ 100 | **not met**"), ("10,000,000 keys, zipf", " | ≥ 100 | not measured")):
            self.assertIn(f"| weir / mutex and map, each on two threads, by the wall clock | {where} | {words} |", aims.table())

    def test_of_one_processor_are_not_measured(self):
        runs = [{"contender": "weir_key", "keys": 1000, "drawn": "uniform", "workers": 1, "round": 0, "per_second_cpu": 1e6, "per_second_wall": 1e6}]
        aims = common.Aims("scaling")
        scaling.report({"processors": 1, "runs": runs}, unittest.mock.Mock(plot=lambda name, _: name), aims)
        self.assertIn("| 2 workers / 1, by processor time | 1,000 keys, uniform |  | ≥ 1.9 | not measured |", aims.table())


class FramesOfARound(unittest.TestCase):
    def test_are_divided_by_that_rounds_io(self):
        runs = [{"source": source, "contender": name, "round": turn, "ns_per_frame": ns}
                for source, name, turn, ns in (("loop", "io", 0, 1), ("loop", "no_http", 0, 4), ("loop", "io", 1, 10), ("loop", "no_http", 1, 20),
                                               ("loop", "io", 2, 9), ("null-4096", "io", 0, 8), ("null-4096", "io", 1, 10))]
        turns = filter_section.Turns(runs)
        self.assertEqual(0.375, turns.part_of_io("loop", "no_http"))
        self.assertEqual(1.25, turns.part_of_io("loop", "no_http", "null-4096"))
        self.assertIsNone(turns.part_of_io("loop", "request_line"))

    def test_are_held_against_testpmd_where_its_memory_is_as_good_as_ours(self):
        for huge in (False, True):
            runs = [{"source": "null-4096", "contender": name, "round": 0, "ns_per_frame": ns, "received": 1, "dropped": 0, "refused": 0,
                     **({"huge_pages": huge} if name in filter_section.THEIRS else {})}
                    for name, ns in (("io", 6), ("testpmd io", 8), ("no_http", 10))]
            aims = common.Aims("filter")
            text = "\n".join(filter_section.report(runs, unittest.mock.Mock(plot=lambda name, _: name), aims))
            self.assertEqual(not huge, "**That lay on small pages**" in text)
            self.assertIn(f"| A: no http / dpdk-testpmd io | A, 4,096 mbufs | {'0.80' if huge else ''} | ≥ 0.85 | {'**not met**' if huge else 'not measured'} |", aims.table())

    def test_are_told_as_dropped_by_a_port_or_by_the_filter_and_nothing_is_said_of_a_testpmd_that_is_not_there(self):
        runs = [{"source": "null-4096", "contender": name, "round": 0, "ns_per_frame": 6, "received": 5000, "dropped": dropped, "refused": refused}
                for name, dropped, refused in (("io", 1, 0), ("blocked", 0, 4000))]
        text = "\n".join(filter_section.report(runs, unittest.mock.Mock(plot=lambda name, _: name), common.Aims("filter")))
        self.assertIn("Frames of whole turns: 10,000; dropped for want of room at a port: 1; dropped by the filter, as refused and not answered: 4,000.", text)
        self.assertNotIn("huge pages", text)
        self.assertIn("testpmd itself is not in the figures", text)

    def measured(self, context, answer, peers=None):
        """What is measured where bench-filter answers so. answer(source, name): the figures of its turn. peers: testpmds, by source."""
        def run_json(*command):
            source, name = (command[command.index(option) + 1] for option in ("--sources", "--contenders"))
            return {"runs": [{"source": source, "contender": name, **answer(source, name)}]}

        with unittest.mock.patch.object(filter_section, "run_json", run_json), contextlib.redirect_stdout(io.StringIO()), \
                unittest.mock.patch.object(filter_section, "_testpmds", return_value=peers or {}):
            return filter_section.measure(context)

    def test_that_do_not_add_up_are_left_out_and_said(self):
        context = common.Context(BUILD, None, quick=True)
        peer = unittest.mock.Mock(huge_pages=True, forward=unittest.mock.Mock(side_effect=[5.0, common.Failed("dpdk-testpmd, macswap: 2 frames in, 1 out\nand more")]))
        runs = self.measured(context, lambda source, name: {"wrong": "2 frames in, 1 out"} if (source, name) == ("loop", "no_http") else {"ns_per_frame": 1}, {"null-4096": peer})
        self.assertFalse(any((run["source"], run["contender"]) == ("loop", "no_http") for run in runs))
        self.assertTrue(any((run["source"], run["contender"]) == ("null-4096", "no_http") for run in runs))
        self.assertEqual([5.0], [run["ns_per_frame"] for run in runs if run["contender"] in filter_section.THEIRS])
        self.assertIn("**F, loop of rings: no_http: 1 turns are not in the figures: 2 frames in, 1 out**", context.left_out)
        self.assertEqual(1, sum("turns are not in the figures: dpdk-testpmd, macswap: 2 frames in, 1 out**" in line for line in context.left_out))

    def test_of_which_none_adds_up_are_a_failure(self):
        with self.assertRaisesRegex(common.Failed, "no turn adds up"):
            self.measured(common.Context(BUILD, None, quick=True), lambda source, name: {"wrong": "2 frames in, 1 out"})

    def test_are_left_out_by_contender_where_the_worker_hardly_found_any(self):
        context = common.Context(BUILD, None, quick=False)
        waits = {"io": iter((0.5, 0.99, 0.9, 0.7, 0.9)), "no_http": iter((0.5, 0.9, 0.7, 0.9, 0.6))}
        runs = self.measured(context, lambda source, name: {"ns_per_frame": 1, "waited": next(waits.get(name, iter([0])))} if source == "cloned" else {"ns_per_frame": 1})
        self.assertEqual(5, len([run for run in runs if run["source"] == "cloned" and run["contender"] == "no_http"]))
        self.assertEqual([], [run for run in runs if run["source"] == "cloned" and run["contender"] == "io"])
        self.assertEqual(["**E, cloned by another core: io is not in the figures, and so are no parts of io: the worker waited for frames for 90% of its time**"],
                         [line for line in context.left_out if "cloned" in line])
        self.assertIsNone(filter_section.Turns(runs).part_of_io("cloned", "no_http"))


class BurstsOfARound(unittest.TestCase):
    @staticmethod
    def run_of(scenario, turn, p99):
        return {"scenario": scenario, "round": turn, "quantiles": [[part, p99] for part in latency.SHOWN], "max_ns": 9000 + turn, "slow_time": 0.015, "cpu_share": 1,
                **{name: 1 for name in ("spans", "publications", "syncs", "switches", "refused", "decided")}}

    def report(self, runs, context):
        with unittest.mock.patch.object(latency, "run_json", return_value={"keys": 1000, "runs": runs}), contextlib.redirect_stdout(io.StringIO()):
            sets = latency.measure(context)
        aims = common.Aims("latency")
        return "\n".join(latency.report(sets, unittest.mock.Mock(plot=lambda name, _: name), aims)), aims

    def test_that_do_not_add_up_are_left_out_and_said_and_the_others_keep_their_rounds(self):
        context = common.Context(BUILD, None, quick=True)
        runs = [self.run_of("alone", turn, p99) for turn, p99 in enumerate((100, 200, 400))]
        runs += [{"scenario": "redis-10ms", "round": 0, "wrong": "no sync with Redis was seen"}, *(self.run_of("redis-10ms", turn, p99) for turn, p99 in ((1, 220), (2, 440)))]
        text, aims = self.report(runs, context)
        self.assertIn("**span 10 ms, Redis, 1,000 keys: 1 turns are not in the figures: no sync with Redis was seen**", context.left_out)
        self.assertIn("| span 10 ms, Redis | 330 | 330 | 330 | 9002 | 1.50% | 1.10 |", text)
        self.assertIn("| p99 of a burst / without a controller | span 10 ms, Redis, 1,000 keys | 1.10 | ≤ 1.2 | met |", aims.table())

    def test_without_any_to_compare_with_are_not_measured(self):
        _, aims = self.report([{"scenario": "alone", "round": 0, "wrong": "nothing adds up"}, self.run_of("redis-10ms", 0, 220)], common.Context(BUILD, None, quick=True))
        self.assertIn("| p99 of a burst / without a controller | span 10 ms, Redis, 1,000 keys |  | ≤ 1.2 | not measured |", aims.table())

    def test_of_which_none_adds_up_are_a_failure(self):
        with self.assertRaisesRegex(common.Failed, "no turn with 1,000 keys adds up"):
            self.report([{"scenario": "alone", "round": 0, "wrong": "nothing adds up"}], common.Context(BUILD, None, quick=True))


class RequestsOfGateways(unittest.TestCase):
    def test_that_do_not_add_up_are_left_out_and_said_and_so_are_decisions(self):
        context = common.Context(BUILD, None, quick=True)
        rounds = iter([[{"contender": "weir_key", "keys": 1000, "wrong": "counted 1 of 2 requests"}, {"contender": "weir_one_rule", "keys": 1000, "drawn": "uniform", "ns": 5}],
                       [{"contender": name, "keys": 1000, "drawn": drawn, "ns": 4} for name in gateways.DECISIONS for drawn in ("uniform", "zipf")]])
        server = unittest.mock.Mock(cpu_per_request=unittest.mock.Mock(side_effect=[common.Failed("nginx limit_req, free: wrk says\nNon-2xx"), 2e-6, 1e-6]))
        server.name = gateways.NGINX_NAME
        with unittest.mock.patch.object(gateways, "run_json", side_effect=lambda *_: {"runs": next(rounds)}), contextlib.redirect_stdout(io.StringIO()), \
                unittest.mock.patch.object(gateways, "find_program", side_effect=lambda name: None if name == "haproxy" else name), \
                unittest.mock.patch.object(gateways, "nginx", unittest.mock.Mock(__name__="nginx", return_value=server)):
            figures = gateways.measure(context)
        self.assertEqual({"weir_key": {1000: [4]}, "weir_one_rule": {1000: [5, 4]}}, figures["weir"])
        self.assertEqual([["free", "limited"]], [sorted(pair) for pair in figures["servers"][gateways.NGINX_NAME]])
        self.assertIn("**weir's decision, 1,000 keys: 1 turns are not in the figures: counted 1 of 2 requests**", context.left_out)
        self.assertIn("**nginx limit_req: 1 turns are not in the figures: nginx limit_req, free: wrk says Non-2xx**", context.left_out)
        server.end.assert_called_once()


class AimsOfASection(unittest.TestCase):
    def setUp(self):
        self.aims = common.Aims("speed")
        self.aims.at_most("ours / floor", "1,000 keys", 1.0, 1.5)
        self.aims.at_most("ours / floor", "2,000 keys", 1.8, 1.5)
        self.aims.at_least("theirs / ours", "", 3, 3)
        self.aims.at_least("others / ours", "", None, 3)

    def test_are_met_or_not_or_not_measured(self):
        text = self.aims.table()
        self.assertIn("| ours / floor | 1,000 keys | 1.00 | ≤ 1.5 | met |", text)
        self.assertIn("| ours / floor | 2,000 keys | 1.80 | ≤ 1.5 | **not met** |", text)
        self.assertIn("| theirs / ours |  | 3.00 | ≥ 3 | met |", text)
        self.assertIn("| others / ours |  |  | ≥ 3 | not measured |", text)

    def test_are_summed_up_by_where_they_are_missed_most(self):
        text = common.summary([self.aims, common.Aims("nothing")])
        self.assertIn("| speed | ours / floor | ≤ 1.5 | 1.80 (2,000 keys) | **not met**, 1 of 2 met |", text)
        self.assertIn("| speed | others / ours | ≥ 3 |  | not measured |", text)
        self.assertNotIn("nothing", text)

    def test_that_are_measured_in_some_places_only_are_not_called_met(self):
        self.aims.at_least("part / whole", "here", 5, 3)
        self.aims.at_least("part / whole", "there", None, 3)
        self.assertIn("| speed | part / whole | ≥ 3 | 5.00 (here) | met, 1 of 1 met, 1 not measured |", common.summary([self.aims]))

    def test_that_are_given_up_are_one_row(self):
        self.aims.give_up("not measured")
        self.assertFalse(self.aims)
        self.assertEqual(["| speed | all |  |  | not measured |"], common.summary([self.aims]).splitlines()[2:])

    def test_of_nothing_make_no_table(self):
        self.assertEqual("", common.summary([common.Aims("nothing")]))


class OneProcessor(unittest.TestCase):
    @unittest.skipUnless((BUILD / "tools/key-memory/weir-key-memory").exists(), "built without programs")
    def test_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            one = {min(os.sched_getaffinity(0))}
            done = subprocess.run([sys.executable, SOURCE / "tools/bench", "--quick", "--no-build", "--build", BUILD, "--output", folder, "--only", "memory"],
                                  preexec_fn=lambda: os.sched_setaffinity(0, one), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=180, check=False)
            self.assertEqual(0, done.returncode, done.stdout)
            self.assertIn("- **one processor alone: ", pathlib.Path(folder, "report.md").read_text(encoding="utf-8"))


def load_bench():
    """tools/bench as a module."""
    loader = importlib.machinery.SourceFileLoader("bench", str(SOURCE / "tools/bench"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    loader.exec_module(module)
    return module


class Sections(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-bench-test-")
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name, "report")
        self.bench = load_bench()

    def run_main(self, sections, *arguments):
        """The exit status of a run with no other sections than these."""
        with unittest.mock.patch.dict(self.bench.SECTIONS, sections, clear=True), \
                unittest.mock.patch.object(sys, "argv", ["bench", "--no-build", "--build", str(BUILD), "--output", str(self.output), *arguments]), \
                contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return self.bench.main()

    @staticmethod
    def section(words, **what_it_does):
        return unittest.mock.Mock(TITLE=words.capitalize(), TARGETS=(), **{"measure.return_value": {}, "report.return_value": [f"{words}, told"], **what_it_does})

    def test_that_are_not_asked_for_stay_in_the_report_and_are_told_with_what_they_are_of(self):
        version = unittest.mock.patch.object(self.bench, "version", side_effect=["v1", "v2"])
        with version:
            self.assertEqual(0, self.run_main({"first": self.section("first"), "second": self.section("second")}))
            self.assertEqual(0, self.run_main({"first": self.section("first"), "second": self.section("second", **{"report.return_value": ["second, told anew"]})}, "--only", "second"))
        text = (self.output / "report.md").read_text(encoding="utf-8")
        self.assertIn("first, told", text)
        self.assertIn("second, told anew", text)
        self.assertRegex(text, "- first: .*; version v1, buildtype|- first: .*; version v1, ..unknown build")
        self.assertRegex(text, "- second: .*; version v2, ")

    def test_are_told_with_the_version_that_they_began_with(self):
        asked = []
        with unittest.mock.patch.object(self.bench, "version", side_effect=lambda: asked.append("version") or "v1"):
            self.run_main({"first": self.section("first", **{"measure.side_effect": lambda _: asked.append("measure") or {}})})
        self.assertEqual(asked, ["version", "measure"])

    def test_that_are_not_asked_for_and_are_of_another_version_are_left_out_and_said(self):
        self.run_main({"first": self.section("first"), "second": self.section("second")})
        first = self.section("first", **{"report.side_effect": KeyError("round")})
        self.assertEqual(0, self.run_main({"first": first, "second": self.section("second")}, "--only", "second"))
        text = (self.output / "report.md").read_text(encoding="utf-8")
        self.assertIn("first.json: not the figures of this version", text)
        self.assertIn("| first | all |  |  | not measured |", text)
        self.assertNotIn("## First", text)
        self.assertIn("second, told", text)
        self.assertEqual(1, self.run_main({"first": first, "second": self.section("second")}, "--reuse"))

    def test_that_nobody_has_measured_are_named_among_the_aims(self):
        self.run_main({"first": self.section("first"), "second": self.section("second")}, "--only", "second")
        self.assertIn("| first | all |  |  | not measured |", (self.output / "report.md").read_text(encoding="utf-8"))

    def test_that_fail_in_a_way_that_nobody_has_thought_of_cost_the_others_nothing(self):
        for what in ("measure", "report"):
            with self.subTest(what):
                status = self.run_main({"first": self.section("first", **{f"{what}.side_effect": ValueError("math domain error")}), "second": self.section("second")})
                self.assertEqual(1, status)
                text = (self.output / "report.md").read_text(encoding="utf-8")
                self.assertIn("**Failed: first.**", text)
                self.assertIn("| first | all |  |  | **failed**: none is known |", text)
                self.assertIn("ValueError: math domain error", text)
                self.assertIn("second, told", text)


def members(session):
    """Names of the processes of a session, by number."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, rest = (folder / "stat").read_text(encoding="utf-8").partition("(")[2].rsplit(")", 1)
            state, _, _, of = rest.split()[:4]
            if int(of) == session and state != "Z":
                found[int(folder.name)] = name
    return found


class Signals(unittest.TestCase):
    def end(self, number, section, awaited):
        """Sends a signal once a program runs that a section's figures come from. Returns the status."""
        with tempfile.TemporaryDirectory(prefix="weir-bench-test-") as folder:
            temporary = pathlib.Path(folder, "temporary")
            temporary.mkdir()
            running = subprocess.Popen(
                [sys.executable, SOURCE / "tools/bench", "--quick", "--no-build", "--build", BUILD, "--output", pathlib.Path(folder, "report"), "--only", section],
                env=dict(os.environ, TMPDIR=str(temporary)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # also where the tests run under nohup
            try:
                deadline = time.monotonic() + 60
                while not any(awaited in name for name in members(running.pid).values()):
                    self.assertIsNone(running.poll(), "it has ended before")
                    self.assertLess(time.monotonic(), deadline, "it does not begin")
                    time.sleep(0.02)
                running.send_signal(number)
                _, told = running.communicate(timeout=60)
                # Who dies with its parent may still be at it.
                while (left := members(running.pid)) and time.monotonic() < deadline + 10:
                    time.sleep(0.02)
                self.assertEqual({}, left)
                self.assertEqual([], list(temporary.iterdir()))
                self.assertNotIn("Traceback", told)
            finally:
                for process in members(running.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                running.communicate()
            return running.returncode

    def test_end_it_and_all_that_it_has_started(self):
        with_servers = all(map(common.find_program, ("wrk", "nginx", "haproxy")))
        self.assertEqual(128 + signal.SIGTERM, self.end(signal.SIGTERM, "gateways", "wrk" if with_servers else "bench-decision"))
        self.assertEqual(128 + signal.SIGHUP, self.end(signal.SIGHUP, "latency", "redis-server" if common.find_program("redis-server") else "bench-latency"))
        if filter_section.testpmd.available() and (BUILD / "bench/filter/bench-filter").exists():
            self.assertEqual(128 + signal.SIGTERM, self.end(signal.SIGTERM, "filter", "dpdk-testpmd"))


class Testpmd(unittest.TestCase):
    def test_that_does_not_answer_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "dpdk-testpmd")
            program.write_text("#!/bin/sh\necho $$\nexec sleep 60\n", encoding="ascii")
            program.chmod(0o755)
            with unittest.mock.patch.object(filter_section.testpmd, "find_program", return_value=str(program)), \
                    unittest.mock.patch.object(filter_section.testpmd, "PATIENCE", 1), self.assertRaises(common.Failed) as failed:
                filter_section.testpmd.Testpmd("none", (), 1, False)
        number = int(re.search(r"^\d+$", str(failed.exception), re.MULTILINE)[0])
        with self.assertRaises(ProcessLookupError):
            os.kill(number, 0)


class Builds(unittest.TestCase):
    # As introspection has it; that compiler says what it is told.
    TARGETS = [{"target_sources": []}, {"target_sources": [{"language": "c", "compiler": ["false"]}, {"language": "cpp", "compiler": ["echo", "g++ 12.2.0"]}]}]

    def told(self, **values):
        options = [{"name": name, "value": value} for name, value in values.items()]
        bench_program = load_bench()
        with unittest.mock.patch.object(bench_program, "introspected", lambda _, what: options if what == "--buildoptions" else self.TARGETS):
            return bench_program.kind_of_build(BUILD)

    def test_are_told_as_far_as_figures_depend_on_them(self):
        self.assertEqual("buildtype release, optimization 3, no sanitizer, g++ 12.2.0 --version", self.told(buildtype="release", optimization="3", b_sanitize="none"))
        self.assertEqual("buildtype custom, **optimization 0**, **sanitizer thread**, g++ 12.2.0 --version", self.told(buildtype="custom", optimization="0", b_sanitize="thread"))

    @unittest.skipUnless(shutil.which("meson"), "meson is not in the path")
    def test_are_told_by_meson_of_a_folder_that_it_has_configured(self):
        bench_program = load_bench()
        self.assertIn(", optimization", bench_program.kind_of_build(BUILD).replace("*", ""))
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual("**unknown build**", bench_program.kind_of_build(pathlib.Path(folder)))


class Mistakes(unittest.TestCase):
    def test_wrong_options_are_refused(self):
        for arguments in (["--no-such-option"], ["--only", "nothing"]):
            with self.subTest(arguments):
                self.assertEqual(2, bench(*arguments).returncode)

    def test_a_file_is_no_place_for_a_report(self):
        with tempfile.NamedTemporaryFile() as file:
            done = bench("--quick", "--no-build", "--build", BUILD, "--output", file.name, "--only", "scaling")
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertIn(f"--output {file.name}: File exists", done.stdout)
        self.assertNotIn("Traceback", done.stdout)

    def test_figures_that_are_not_there_make_no_report(self):
        with tempfile.TemporaryDirectory() as folder:
            for arguments, words in (([], "there are no figures;"), (["--only", "scaling"], "there are no figures of scaling;")):
                with self.subTest(arguments):
                    done = bench("--reuse", "--output", pathlib.Path(folder, "report"), *arguments)
                    self.assertEqual(1, done.returncode, done.stdout)
                    self.assertIn(words, done.stdout)
            self.assertEqual([], os.listdir(folder))

    def test_one_key_is_too_few_for_a_burst(self):
        done = subprocess.run([BUILD / scaling.TARGETS[0], "--keys", "1", "--rounds", "1"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(2, done.returncode, done.stderr)

    def test_a_missing_program_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            done = bench("--quick", "--no-build", "--build", folder, "--output", folder, "--only", "scaling")
        self.assertEqual(1, done.returncode)
        self.assertIn("bench-scaling", done.stdout)
        self.assertNotIn("Traceback", done.stdout)


class Plots(unittest.TestCase):
    def test_are_well_formed_whatever_they_are_given(self):
        for svg in (
            plot.bars("<title>", "ns", ["a & b", "c"], ["x", "y"], [[1, None], [0.001, 2e6]], logarithmic=True),
            plot.bars("one", "ns", ["a"], ["x"], [[5]]),
            plot.lines("lines", "ns", ["50 %", "99 %"], [("a", [1, 10]), ("b", [3, None])]),
            plot.lines("one point", "ns", ["50 %"], [("a", [7])]),
        ):
            xml.etree.ElementTree.fromstring(svg)

    def test_of_up_to_twenty_things_show_no_two_alike(self):
        names = [f"name {i}" for i in range(20)]
        svg = xml.etree.ElementTree.fromstring(plot.bars("many", "ns", ["a"], names, [range(1, 21)]))
        defined = {pattern.get("id"): [part.get("fill") for part in pattern] for pattern in svg.iter("{http://www.w3.org/2000/svg}pattern")}
        for height in ("11", None):  # the legend's, the bars
            fills = [each.get("fill") for each in svg.findall("{http://www.w3.org/2000/svg}rect")[1:] if (each.get("height") == "11") == (height == "11")]
            self.assertEqual(20, len(set(fills)))
            looks = {tuple(defined[fill[5:-1]]) if fill.startswith("url(#") else fill for fill in fills}
            self.assertEqual(20, len(looks))
        svg = xml.etree.ElementTree.fromstring(plot.lines("many", "ns", ["50 %", "99 %"], [(name, [1, 2]) for name in names]))
        self.assertEqual(20, len({(each.get("stroke"), each.get("stroke-dasharray")) for each in svg.iter("{http://www.w3.org/2000/svg}polyline")}))

    def test_names_of_groups_do_not_overlap_however_many_and_long_they_are(self):
        for groups in (["a", "b"], ["800 B with headers, cold"] * 6, [f"cooldown, all keys blocked, a thousandth more in every span, {i} workers" for i in range(22)]):
            with self.subTest(groups=len(groups)):
                svg = xml.etree.ElementTree.fromstring(plot.bars("long", "ns", groups, ["x", "y"], [[1, 2]] * len(groups)))
                labels = [each for each in svg.iter("{http://www.w3.org/2000/svg}text") if each.get("text-anchor") == "middle" and each.get("font-size") == "12"]
                self.assertGreaterEqual(len(labels), len(groups))
                ends = {}
                for label in labels:
                    x, half = float(label.get("x")), 3.5 * len(label.text)
                    self.assertLess(ends.get(label.get("y"), 0), x - half, label.text)
                    ends[label.get("y")] = x + half
                self.assertLess(max(ends.values()), plot.WIDTH)
                text = " ".join(each.text for each in svg.iter("{http://www.w3.org/2000/svg}text"))
                for group in groups:
                    self.assertIn(group, text)
                lowest = max(float(each.get("y")) for each in svg.iter("{http://www.w3.org/2000/svg}text"))
                self.assertLess(lowest, float(svg.get("height")))

    def test_what_is_not_above_nothing_has_no_bar(self):
        for logarithmic in (True, False):
            svg = plot.bars("differences", "ns", ["a", "b"], ["x", "y"], [[-3, 5], [0, None]], logarithmic)
            bars = [each for each in xml.etree.ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect") if float(each.get("height").rstrip("%")) > 11]
            self.assertEqual(2, len(bars), "the ground and one bar")
            self.assertIsNone(plot.bars("differences", "ns", ["a"], ["x"], [[-3]], logarithmic))
        xml.etree.ElementTree.fromstring(plot.lines("lines", "ns", ["50 %", "99 %"], [("a", [-1, 10])]))

    def test_nothing_to_show_is_no_plot(self):
        self.assertIsNone(plot.bars("none", "ns", ["a"], ["x"], [[None]]))
        self.assertIsNone(plot.lines("none", "ns", ["a"], []))


if __name__ == "__main__":
    tap.main()
