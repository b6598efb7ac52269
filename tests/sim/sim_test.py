#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-sim as a program: its scenarios are gates, its output repeats, its messages name the place of a mistake.

Environment: WEIR_SOURCE_ROOT, WEIR_SIM (the program), WEIR_TEST_SEED (default: a fixed one).
"""

import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

SOURCE = pathlib.Path(os.environ["WEIR_SOURCE_ROOT"]).resolve()
SCENARIOS = SOURCE / "tools/weir-sim/scenarios"
PROGRAM = os.environ["WEIR_SIM"]
SEED = int(os.environ.get("WEIR_TEST_SEED", "20261121"))
# A scenario that lacks nothing; tests change it.
SMALL = """duration = "3s"
[[rule]]
name = "user"
key = ["header:user"]
limit = 50
interval = "1s"
[nodes]
count = 3
[demand]
of_limit = 2
"""


def run(*arguments, limits=None):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=250,
        preexec_fn=limits,
    )


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, text, name="scenario.toml"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def simulate(self, scenario, *arguments, seed=SEED):
        """The JSON document of a run whose gates hold."""
        done = run(scenario, "--json", "--seed", seed, *arguments)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        failed = [gate for gate in report["gates"] if not gate["good"]]
        self.assertEqual([], failed, f"weir-sim {scenario} --seed {seed} {' '.join(map(str, arguments))}")
        self.assertEqual(0, done.returncode)
        return report


class StockScenarios(Case):
    def test_every_scenario_keeps_its_gates(self):
        names = sorted(path.name for path in SCENARIOS.glob("*.toml"))
        self.assertGreater(len(names), 10)
        for name in names:
            with self.subTest(name):
                report = self.simulate(SCENARIOS / name)
                self.assertTrue(report["gates"], "a scenario without gates shows nothing")

    def test_every_scenario_says_what_it_shows(self):
        for path in sorted(SCENARIOS.glob("*.toml")):
            with self.subTest(path.name):
                comment = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
                self.assertGreaterEqual(len(comment), 2)

    def test_the_steady_state_holds_over_demand_nodes_and_spread(self):
        for nodes, demand, spread, seconds in (
            (1, 10, "even", 15),
            (1, 1.2, "even", 15),
            (3, 2, "one", 15),
            (8, 1.2, "zipf", 15),
            (64, 3, "zipf", 12),
            (1024, 1.5, "even", 9),
        ):
            with self.subTest(f"{nodes} nodes, demand {demand}, {spread}"):
                self.simulate(
                    SCENARIOS / "steady-state.toml",
                    f"--set=nodes.count={nodes}",
                    f"--set=demand.of_limit={demand}",
                    f"--set=spread.kind={spread}",
                    f"--set=duration={seconds}s",
                )

    def test_the_bound_of_cooldown_and_the_ledger_hold_in_random_scenarios(self):
        for number in range(20):
            seed = SEED + number
            chance = random.Random(seed)
            settings = {
                "duration": "8s",
                "nodes.count": chance.choice([1, 2, 3, 7, 20, 60]),
                "nodes.cores": chance.choice([1, 2, 4]),
                "rule.limit": chance.choice([1, 7, 100, 2000]),
                "rule.spans": chance.choice([2, 5, 10, 20]),
                "rule.cooldown": chance.choice(["50ms", "300ms", "1s", "3s"]),
                "demand.of_limit": chance.choice([0.9, 1.3, 4, 10]),
                "spread.kind": chance.choice(["even", "zipf", "one", "moving"]),
                "spread.period": chance.choice(["100ms", "1s", "5s"]),
                "clocks.offset_max": chance.choice(["0s", "5ms"]),
                "store.loss_reply": chance.choice([0, 0, 0.05]),
                "store.loss_request": chance.choice([0, 0, 0.05]),
            }
            with self.subTest(f"seed {seed}"):
                options = [f"--set={key}={value}" for key, value in settings.items()]
                self.simulate(SCENARIOS / "cooldown-bound.toml", *options, seed=seed)


    def test_the_bound_of_cooldown_holds_where_nodes_fall_silent_for_whole_spans(self):
        # A node without counts hears nothing from the store, and comes back with what it knew.
        for nodes, limit, demand in ((7, 2000, 10), (20, 100, 4), (60, 7, 4)):
            with self.subTest(f"{nodes} nodes, limit {limit}, demand {demand}"):
                settings = {
                    "duration": "10s",
                    "nodes.count": nodes,
                    "rule.limit": limit,
                    "demand.of_limit": demand,
                    "demand.on": "5s",
                    "spread.kind": "moving",
                    "spread.period": "100ms",
                }
                options = [f"--set={key}={value}" for key, value in settings.items()]
                self.simulate(SCENARIOS / "cooldown-bound.toml", *options)


class Repeats(Case):
    def outputs(self, seed):
        plot = self.folder / "plot.svg"
        text = run(SCENARIOS / "replay.toml", "--seed", seed, "--plot", plot)
        document = run(SCENARIOS / "replay.toml", "--seed", seed, "--json")
        return text.stdout, document.stdout, plot.read_text(encoding="utf-8")

    def test_the_same_seed_gives_the_same_bytes(self):
        self.assertEqual(self.outputs(SEED), self.outputs(SEED))

    def test_another_seed_gives_others(self):
        for one, other in zip(self.outputs(SEED), self.outputs(SEED + 1)):
            self.assertNotEqual(one, other)

    def test_every_seed_of_64_bits_is_one(self):
        done = run(self.file(SMALL), "--seed", 2**64 - 1)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(f"seed {2**64 - 1}, ", done.stdout)

    def test_algorithms_beside_one_another_meet_the_same_demand(self):
        report = self.simulate(self.file(SMALL), "--algorithm", "cooldown", "--algorithm", "fixed-window")
        offered = {
            name: [row["offered"] for row in report["intervals"] if row["algorithm"] == name]
            for name in ("cooldown", "fixed-window")
        }
        self.assertEqual(offered["cooldown"], offered["fixed-window"])
        alone = self.simulate(self.file(SMALL), "--algorithm", "fixed-window")
        self.assertEqual(alone["summaries"]["fixed-window"], report["summaries"]["fixed-window"])


class Output(Case):
    FIGURES = (
        "admission_error_pct overshoot_max_pct overshoot_sliding_max_pct utilization_pct false_block_intervals_pct "
        "reaction_ms_p50 reaction_ms_p99 store_ops_per_s lost_counts duplicated_counts seed nodes virtual_s"
    ).split()

    def test_the_json_has_intervals_and_a_summary(self):
        report = self.simulate(self.file(SMALL))
        for name in self.FIGURES:
            self.assertIn(name, report["summary"])
        self.assertEqual((SEED, 3, 3), tuple(report["summary"][name] for name in ("seed", "nodes", "virtual_s")))
        rows = report["intervals"]
        self.assertEqual([0, 1, 2], [row["begin_s"] for row in rows])
        for row in rows:
            self.assertEqual(("user", "k0", 50), (row["rule"], row["key"], row["limit"]))
            self.assertGreater(row["offered"], row["admitted"])
            self.assertGreater(row["admitted"], 0)
        self.assertEqual(report["summary"]["offered"], sum(row["offered"] for row in rows))
        self.assertEqual(report["summary"]["admitted"], sum(row["admitted"] for row in rows))

    def test_the_text_has_a_table_a_summary_and_gates(self):
        done = run(self.file(SMALL + "[expect]\nlost_counts = [0, 0]\n"))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for part in ("interval  limit  offered", "admission_error_pct", "lost_counts  user   cooldown"):
            self.assertIn(part, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^lost_counts .* ok$")

    def test_a_gate_that_fails_is_shown_and_ends_with_1(self):
        done = run(self.file(SMALL + "[expect]\nutilization_pct = [0, 1]\n"))
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stdout, r"(?m)^utilization_pct .* FAILED$")

    def test_a_gate_of_an_algorithm_goes_before_the_one_of_all(self):
        gates = "[expect]\nutilization_pct = [0, 1]\n[expect.cooldown]\nutilization_pct = [0, 200]\n"
        self.assertEqual(0, run(self.file(SMALL + gates)).returncode)
        self.assertEqual(1, run(self.file(SMALL + gates), "--algorithm", "fixed-window").returncode)

    def test_a_gate_that_the_runs_asked_for_do_not_come_to_is_shown_as_not_applied(self):
        text = SMALL.replace("limit = 50", 'limit = 50\nalgorithm = "shed"')
        gates = "[expect]\nlost_counts = [0, 0]\n[expect.shed]\nutilization_pct = [0, 200]\n"
        scenario = self.file(text + gates)
        done = run(scenario, "--algorithm", "fixed-window")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"(?m)^lost_counts .* ok$")
        self.assertRegex(done.stdout, r"(?m)^utilization_pct +user +shed +0 +200 +- +not applied$")
        report = self.simulate(scenario, "--algorithm", "fixed-window", "--algorithm", "strict")
        gate = {"metric": "utilization_pct", "rule": "user", "algorithm": "shed", "least": 0, "most": 200}
        self.assertEqual([gate], report["gates_not_applied"])
        report = self.simulate(scenario, "--algorithm", "fixed-window", "--algorithm", "shed")
        self.assertEqual([], report["gates_not_applied"])

    def test_where_no_gate_applies_nobody_says_that_there_is_none(self):
        text = SMALL + "[expect.cooldown]\ncooldown_margin_pct = [0, inf]\n"
        for arguments in (("--algorithm", "shed"), ("--set", "rule.algorithm=shed")):
            with self.subTest(arguments):
                done = run(self.file(text), *arguments)
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.assertNotIn("no gates", done.stdout)
                self.assertRegex(done.stdout, r"(?m)^cooldown_margin_pct +user +cooldown .* not applied$")
        self.assertIn("no gates: the scenario has no [expect]", run(self.file(SMALL)).stdout)

    def test_the_plot_is_a_drawing_with_a_panel_per_algorithm(self):
        plot = self.folder / "plot.svg"
        self.simulate(self.file(SMALL), "--plot", plot, "--algorithm", "cooldown", "--algorithm", "fixed-window")
        root = xml.etree.ElementTree.parse(plot).getroot()
        words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for word in ("cooldown", "fixed-window", "offered", "admitted", "3 s"):
            self.assertIn(word, words)
        self.assertEqual(4, len(list(root.iter("{http://www.w3.org/2000/svg}path"))))

    def test_a_plot_that_cannot_be_written_ends_with_1(self):
        done = run(self.file(SMALL), "--plot", self.folder / "absent" / "plot.svg")
        self.assertEqual(1, done.returncode)
        self.assertIn("plot.svg: the plot could not be written", done.stderr)

    def test_no_plot_is_written_over_what_is_read(self):
        recording = self.file("time_ms,key\n5,a\n", "demand.csv")
        scenario = self.file(SMALL.replace("of_limit = 2", 'shape = "recorded"\nfile = "demand.csv"'))
        before = {path: path.read_bytes() for path in (scenario, recording)}
        for number, path in enumerate(before):
            symbolic, hard = self.folder / f"symbolic{number}", self.folder / f"hard{number}"
            symbolic.symlink_to(path.name)
            os.link(path, hard)
            for plot in (path, f"{self.folder}/./{path.name}", symbolic, hard):
                with self.subTest(read=path.name, plot=plot):
                    done = run(scenario, "--plot", plot)
                    self.assertEqual((2, ""), (done.returncode, done.stdout))
                    self.assertEqual(f"weir-sim: --plot would write over {path}\n", done.stderr)
                    self.assertEqual(before, {each: each.read_bytes() for each in before})
        # What was drawn before is drawn anew, and what is no file has nothing that could be lost.
        plot = self.file("an older one", "plot.svg")
        for path in (plot, "/dev/null"):
            self.assertEqual(0, run(scenario, "--plot", path).returncode)
        self.assertIn("</svg>", plot.read_text(encoding="utf-8"))

    def test_help_and_version_end_with_0(self):
        for option, word in (("--help", "SCENARIO"), ("--version", "weir-sim ")):
            done = run(option)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertIn(word, done.stdout)


class Settings(Case):
    def test_values_are_set_from_the_command_line(self):
        report = self.simulate(
            self.file(SMALL), "--set", "nodes.count=2", "--set", "rule.limit=7", "--set", "rule.0.interval=500ms"
        )
        self.assertEqual(2, report["summary"]["nodes"])
        self.assertEqual({7}, {row["limit"] for row in report["intervals"]})
        self.assertEqual(6, len(report["intervals"]))

    def test_a_setting_that_means_nothing_ends_with_2(self):
        for setting, message in (
            ("nodes.count", "--set wants key=value"),
            ("nodes.cuont=3", 'unknown key "cuont" in [nodes]'),
            ("rule.7.limit=3", "there are only 1 of them"),
            ("nodes.count=many", "count must be a whole number, not a string"),
        ):
            with self.subTest(setting):
                done = run(self.file(SMALL), "--set", setting)
                self.assertEqual(2, done.returncode)
                self.assertIn(message, done.stderr)

    def test_recorded_demand_is_played_as_it_stands(self):
        self.file("\ntime_ms,key,weight,node\n0,a,1,0\n10.5,b,2,1\n999,a,3,2\n1500,b,1,0\n", "demand.csv")
        text = SMALL.replace("of_limit = 2", 'shape = "recorded"\nfile = "demand.csv"')
        rows = self.simulate(self.file(text))["intervals"]
        self.assertEqual(
            [("a", 4), ("a", 0), ("a", 0), ("b", 2), ("b", 1), ("b", 0)],
            [(row["key"], row["offered"]) for row in rows],
        )


class World(Case):
    """What the scenario says happens, counted in requests that come at equal distances."""

    def offered(self, text, *settings):
        options = [f"--set={setting}" for setting in settings]
        rows = self.simulate(self.file(text), *options)["intervals"]
        return [row["offered"] for row in rows if row["key"] == rows[0]["key"]]

    def regular(self, more=""):
        demand = 'rate = 120\narrivals = "regular"'
        return SMALL.replace("of_limit = 2", demand).replace("count = 3", "count = 2") + more

    def test_shapes_offer_what_they_say(self):
        for shape, offered in (
            ('shape = "constant"', [120, 120, 120]),
            ('shape = "step"\npoints = [["0s", 0.5], ["1s", 2], ["2s", 0]]', [60, 240, 0]),
            ('shape = "ramp"\npoints = [["0s", 0], ["3s", 3]]', [60, 180, 300]),
            ('shape = "on-off"\non = "500ms"\noff = "1s"', [60, 60, 0]),
            ('shape = "constant"\nfrom = "1s"\nuntil = "2500ms"', [0, 120, 60]),
            ('shape = "constant"\nweight = 3', [360, 360, 360]),
        ):
            with self.subTest(shape):
                self.assertEqual(offered, self.offered(self.regular(shape)))

    def test_keys_share_the_demand(self):
        self.assertEqual([40, 40, 40], self.offered(self.regular('[[keys]]\nheader = "user"\ncount = 3\n')))

    def test_every_pair_of_two_headers_is_asked_for_as_often(self):
        text = SMALL.replace('"header:user"', '"header:user", "header:path"').replace("limit = 50", "limit = 20")
        text = text.replace("of_limit = 2", 'of_limit = 2\narrivals = "regular"')
        for header in ("user", "path"):
            text += f'[[keys]]\nheader = "{header}"\ncount = 10\n'
        rows = self.simulate(self.file(text))["intervals"]
        self.assertEqual(100, len({row["key"] for row in rows}))
        self.assertEqual({40}, {row["offered"] for row in rows})

    def test_what_would_come_to_a_node_that_is_away_goes_to_the_others_or_is_lost(self):
        for kind, more in (("crash", ""), ("leave", ""), ("pause", 'for = "2s"\n')):
            for traffic, offered in (("others", [120, 120, 120]), ("lost", [120, 60, 60])):
                with self.subTest(kind, traffic=traffic):
                    event = f'[[event]]\nkind = "{kind}"\nat = "1s"\nnode = 1\ntraffic = "{traffic}"\n{more}'
                    self.assertEqual(offered, self.offered(self.regular(event)))

    def test_a_pause_within_a_pause_does_not_end_it(self):
        pause = '[[event]]\nkind = "pause"\nat = "{}"\nfor = "{}"\nnode = 1\ntraffic = "lost"\n'
        for first, second, offered in (
            (("500ms", "2s"), ("1s", "500ms"), [90, 60, 90]),
            (("500ms", "1s"), ("1s", "1500ms"), [90, 60, 90]),
            (("500ms", "500ms"), ("1500ms", "500ms"), [90, 90, 120]),
        ):
            with self.subTest(f"{first} and {second}"):
                events = pause.format(*first) + pause.format(*second)
                self.assertEqual(offered, self.offered(self.regular(events)))

    def test_a_node_that_restarts_gets_its_part_again(self):
        event = '[[event]]\nkind = "{}"\nat = "{}"\nnode = 1\ntraffic = "lost"\n'
        events = event.format("crash", "500ms") + event.format("restart", "1500ms")
        self.assertEqual([90, 90, 120], self.offered(self.regular(events)))

    def test_every_request_falls_under_every_rule(self):
        rules = '[[rule]]\nname = "all"\nlimit = 70\ninterval = "1s"\nalgorithm = "fixed-window"\n'
        text = self.regular('[[keys]]\nheader = "user"\ncount = 3\n').replace("count = 2", "count = 1") + rules
        report = self.simulate(self.file(text))
        rows = {(row["rule"], row["key"], row["begin_s"]): row for row in report["intervals"]}
        for second in range(3):
            # Three users of 40 requests, and 70 for all together: one level refuses, and none is charged.
            self.assertEqual((120, 70), tuple(rows["all", "", second][name] for name in ("offered", "admitted")))
            users = [rows["user", f"k{user}", second]["admitted"] for user in range(3)]
            self.assertEqual(70, sum(users))

    def test_a_store_that_is_away_is_not_asked(self):
        with_store = self.simulate(self.file(self.regular()))["summary"]
        without = self.simulate(self.file(self.regular('[store]\noutages = [["0s", "3s"]]\n')))["summary"]
        self.assertGreater(with_store["store_ops_per_s"], 1)
        self.assertEqual(0, without["store_ops_per_s"])
        self.assertEqual((0, 0), (without["lost_counts"], without["duplicated_counts"]))


class Account(Case):
    """What becomes of what workers have counted."""

    def summary(self, text):
        return self.simulate(self.file(text))["summary"]

    def test_what_dies_with_a_node_is_crashed_and_not_lost_also_beside_a_strict_rule(self):
        text = SMALL.replace("limit = 50", "limit = 1000").replace("of_limit = 2", "rate = 500")
        text += '[store]\nrtt = "2ms"\n[[event]]\nkind = "crash"\nat = "1050ms"\nnode = 0\n'
        strict = '[[rule]]\nname = "all"\nkey = ["header:user"]\nlimit = 100000\ninterval = "1s"\n'
        strict += 'algorithm = "strict"\n'
        for where, rules in (("nowhere", ""), ("before it", "[[rule]]"), ("behind it", "[nodes]")):
            with self.subTest(f"a strict rule {where}"):
                summary = self.summary(text.replace(rules, strict + rules, 1) if rules else text)
                # What comes to the node in two spans is about 30.
                self.assertIn(summary["crashed_counts"], range(1, 100))
                self.assertEqual((0, 0), (summary["lost_counts"], summary["duplicated_counts"]))


    def test_what_was_given_up_has_not_died_with_the_node_as_well(self):
        text = SMALL.replace("limit = 50", "limit = 1000").replace("of_limit = 2", "rate = 500")
        text = text.replace('"3s"', '"20s"').replace("count = 3", "count = 1")
        text = text.replace('interval = "1s"', 'interval = "1s"\nalgorithm = "fixed-window"')
        text += '[store]\noutages = [["2s", "20s"]]\n'
        for kind in ("leave", "crash"):
            with self.subTest(kind):
                summary = self.summary(text + f'[[event]]\nkind = "{kind}"\nat = "15s"\nnode = 0\n')
                crashed, expired = summary["crashed_counts"], summary["expired_counts"]
                # Counters live for some seconds; what is older than that has been given up.
                self.assertIn(expired, range(2500, 6500))
                self.assertIn(crashed, range(500, 4000))
                self.assertIn(crashed + expired, range(6000, 7000))
                self.assertEqual((0, 0), (summary["lost_counts"], summary["duplicated_counts"]))


class Mistakes(Case):
    def test_each_is_named_with_its_place(self):
        for change, place, message in (
            (('duration = "3s"', 'duration = "0s"'), "1:12", "duration must be longer than 0"),
            (('duration = "3s"\n', ""), None, 'lacks the key "duration"'),
            (('duration = "3s"', "duration = 3"), "1:12", "duration must be a duration in quotes"),
            (("limit = 50", "limit = 0"), "5:9", "limit must be a whole number of at least 1"),
            (("limit = 50", "limit = 50\nlimits = 3"), "6:1", 'unknown key "limits" in [[rule]]'),
            (('"header:user"', '"src_ip"'), "4:8", "a scenario's requests differ in the headers"),
            (('key = ["header:user"]', 'key = ["header:user"]\nmatch = { path = "/x" }'), "5:9", "leave match out"),
            (("count = 3", "count = 0"), "8:9", "count must be a whole number from 1 to"),
            (("of_limit = 2", "of_limit = -2"), "10:12", "of_limit must be from 0 to"),
            (("of_limit = 2", ""), "9:1", 'lacks the key "rate" or "of_limit"'),
            (("of_limit = 2", 'of_limit = 2\nshape = "stpe"'), "11:9", 'did you mean "step"?'),
            (("of_limit = 2", 'of_limit = 2\nshape = "step"'), "9:1", 'lacks the key "points"'),
            (("of_limit = 2", "of_limit = 2\n[expect]\nlost = [0, 0]"), "12:1", 'unknown key "lost" in [expect]'),
            (("of_limit = 2", "of_limit = 2\n[expect]\nlost_counts = 0"), "12:15", "must be a range"),
            (("of_limit = 2", 'of_limit = 2\n[[event]]\nkind = "crash"\nat = "1s"\nnode = 3'), "14:8", "node must be"),
            (("of_limit = 2", "of_limit = 2\n[store]\nrtt = 3"), "12:7", "rtt must be"),
            (("of_limit = 2", 'of_limit = 2\noff = "3s"'), "11:7", 'off belongs to the shape "on-off"'),
            (("of_limit = 2", 'of_limit = 2\n[spread]\ns = 2'), "12:5", 's belongs to the kind "zipf"'),
            (("of_limit = 2", 'of_limit = 2\n[spread]\nperiod = "2s"'), "12:10", 'the kind "moving"'),
            (("of_limit = 2", "of_limit = 2 2"), "10:14", ""),
        ):
            with self.subTest(change=change):
                self.assertIn(change[0], SMALL)
                path = self.file(SMALL.replace(*change))
                done = run(path)
                self.assertEqual(2, done.returncode, done.stdout)
                self.assertIn(message, done.stderr)
                self.assertEqual("", done.stdout)
                if place is not None:
                    self.assertIn(f"weir-sim: {path}:{place}: ", done.stderr)

    def test_a_factor_that_no_run_would_end_with_is_one(self):
        for factor in ("inf", "nan", "-1", "1000001"):
            with self.subTest(factor):
                points = f'of_limit = 2\nshape = "step"\npoints = [["0s", 1], ["1s", {factor}]]'
                path = self.file(SMALL.replace("of_limit = 2", points))
                done = run(path)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                message = f"weir-sim: {path}:12:22: a point's factor must be from 0 to 1000000\n"
                self.assertEqual(message, done.stderr)
        points = 'rate = 0.0001\nshape = "step"\npoints = [["0s", 1000000]]'
        self.assertEqual(0, run(self.file(SMALL.replace("of_limit = 2", points))).returncode)

    def test_more_keys_than_can_be_counted_are_too_many(self):
        # 65536 to the power of 4 is 0 in 64 bits.
        for count, headers in ((65536, "abcd"), (2001, "ab")):
            with self.subTest(count=count, headers=headers):
                key = ", ".join(f'"header:{header}"' for header in headers)
                spaces = "".join(f'[[keys]]\nheader = "{header}"\ncount = {count}\n' for header in headers)
                path = self.file(SMALL.replace('"header:user"', key) + spaces)
                done = run(path)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                message = f"weir-sim: {path}:4:7: a rule of a scenario can have at most 4000000 keys\n"
                self.assertEqual(message, done.stderr)

    def test_times_whose_sums_would_not_fit_are_refused(self):
        for change, place, name in (
            (('duration = "3s"', 'duration = "106751d"'), "1:12", "duration"),
            (('duration = "3s"', 'duration = "3660.5d"'), "1:12", "duration"),
            (("of_limit = 2", 'of_limit = 2\nshape = "on-off"\non = "106751d"\noff = "1s"'), "12:6", "on"),
            (("of_limit = 2", 'of_limit = 2\n[store]\nrtt = "106751d"'), "12:7", "rtt"),
            (("of_limit = 2", 'of_limit = 2\n[clocks]\noffsets = ["-106751d"]'), "12:12", "an offset"),
            (("of_limit = 2", 'of_limit = 2\n[plot]\nbucket = "106751d"'), "12:10", "bucket"),
        ):
            with self.subTest(change=change):
                path = self.file(SMALL.replace('interval = "1s"', 'interval = "366d"').replace(*change))
                done = run(path)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertIn(f"weir-sim: {path}:{place}: {name} must be at most 3660d\n", done.stderr)
        self.assertEqual(0, run(self.file(SMALL + '[plot]\nbucket = "3660d"\n')).returncode)

    def test_a_gate_that_no_run_of_the_scenario_comes_to_is_one(self):
        only_shed = SMALL.replace("limit = 50", 'limit = 50\nalgorithm = "shed"')
        in_turn = 'algorithms = ["shed", "strict"]\n' + SMALL
        two = only_shed.replace("[nodes]", '[[rule]]\nname = "all"\nlimit = 9\ninterval = "1s"\n[nodes]')
        for text, gates, place, runs in (
            (SMALL, "[expect.shed]\nlost_counts = [0, 0]\n", "12:15", 'rule "user" runs under cooldown'),
            (in_turn, "[expect.cooldown]\nlost_counts = [0, 0]\n", "13:15", 'rule "user" runs under shed, strict'),
            (only_shed, "[expect]\ncooldown_margin_pct = [0, inf]\n", "13:23", 'rule "user" runs under shed'),
            (SMALL, "[expect.shed]\ncooldown_margin_pct = [0, inf]\n", "12:23", 'rule "user" runs under cooldown'),
            (two, "[expect.rule.all.shed]\nlost_counts = [0, 0]\n", "17:15", 'rule "all" runs under cooldown'),
        ):
            with self.subTest(gates, runs=runs):
                path = self.file(text + gates)
                done = run(path)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertIn(f"weir-sim: {path}:{place}: no run comes to this gate: {runs}", done.stderr)

    def test_broken_recordings_are_named_with_their_place(self):
        text = SMALL.replace("of_limit = 2", 'shape = "recorded"\nfile = "demand.csv"')
        for recording, place in (
            ("time,key\n", "demand.csv:1:1: "),
            ("time_ms,key\n5,a\n4,a\n", "demand.csv:3:1: "),
            ("time_ms,key\n5\n", "demand.csv:2:2: "),
            ("time_ms,key,weight\n5,a,0\n", "demand.csv:2:5: "),
            ("time_ms,key,weight,node\n5,a,1,2\n6,a,1,3\n", "demand.csv:3:7: there is no node 3"),
            ("\ntime,key\n5,a\n", "demand.csv:2:1: the first line must read"),
            ("\n\n5,a\n6,b\n", "demand.csv:3:1: the first line must read"),
            ("time_ms,key\n", "demand.csv: the recording has no requests"),
            ("\n", "demand.csv: the recording has no requests"),
        ):
            with self.subTest(recording):
                self.file(recording, "demand.csv")
                done = run(self.file(text))
                self.assertEqual(2, done.returncode)
                self.assertIn(place, done.stderr)

    def test_what_a_recording_has_of_its_own_is_not_said_beside_it(self):
        self.file("time_ms,key\n5,a\n", "demand.csv")
        for line in (
            "rate = 10",
            "of_limit = 2",
            'from = "1s"',
            'until = "2s"',
            'on = "1s"',
            'off = "1s"',
            "weight = 5",
            "weight = [1, 2]",
            "key = 0",
        ):
            with self.subTest(line):
                path = self.file(SMALL.replace("of_limit = 2", f'shape = "recorded"\nfile = "demand.csv"\n{line}'))
                done = run(path)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                message = line.split(" ")[0] + ' does not go with the shape "recorded"'
                self.assertRegex(done.stderr, rf"^weir-sim: {path}:12:\d+: {message}.*\n\Z")

    def test_what_an_algorithm_cannot_bear_is_told(self):
        done = run(self.file(SMALL.replace("limit = 50", "limit = 50\nspans = 900")), "--algorithm", "sliding-window")
        self.assertEqual(2, done.returncode)
        self.assertIn("under algorithm sliding-window: ", done.stderr)

    def test_what_an_algorithm_cannot_use_is_left_out_for_it(self):
        every = "cooldown fixed-window sliding-window token-bucket leaky-bucket sliding-log shed strict".split()
        options = [f"--algorithm={name}" for name in every]
        for line in (
            "debt = true",
            "penalize = true",
            'early_block = "predictive"',
            'on_store_failure = "open"',
            'dephase = "2s"',
            'algorithm = "token-bucket"\nburst = 80',
        ):
            with self.subTest(line):
                done = run(self.file(SMALL.replace("limit = 50", f"limit = 50\n{line}")), *options)
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                for name in every:
                    self.assertIn(name, done.stdout)

    def test_wrong_command_lines_end_with_2(self):
        scenario = self.file(SMALL)
        for arguments in ((), (scenario, "--sed", "1"), (scenario, "--algorithm", "colddown"), ("absent.toml",)):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual(2, done.returncode)
                self.assertTrue(done.stderr.startswith("weir-sim: "), done.stderr)

    def test_a_scenario_that_there_is_no_memory_for_ends_with_2(self):
        # Ten million intervals of one key.
        path = self.file(SMALL.replace('"3s"', '"116d"'))
        done = run(path, limits=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28)))
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        message = "weir-sim: there is not enough memory for the nodes, keys and intervals of this scenario\n"
        self.assertEqual(message, done.stderr)

    def test_numbers_that_are_none_or_do_not_fit_end_with_2(self):
        scenario = self.file(SMALL)
        for option in ("--seed", "--rows"):
            for number in ("-1", "18446744073709551616", "", "0x10", "+5", "1.5"):
                with self.subTest(option, number=number):
                    done = run(scenario, option, number)
                    self.assertEqual((2, ""), (done.returncode, done.stdout))
                    self.assertIn(option, done.stderr)


if __name__ == "__main__":
    print(f"# WEIR_TEST_SEED={SEED}", flush=True)
    tap.main()
