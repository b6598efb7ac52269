#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Where several mutants can stand in one text, and where not."""

import unittest
import unittest.mock

import mutation_test
from mutation_test import caught, combined, mutants, source_text, tap, together


def mutant(old, new):
    return {"old": old, "new": new}


def bodies(text):
    return [text[body.begin : body.end].strip() for body in combined.bodies(text)]


class Bodies(unittest.TestCase):
    def test_are_those_of_functions_of_members_and_of_templates(self):
        text = """
namespace weir {
int one(int a) { return a; }
struct Two {
  explicit Two(int b) : b_(b), c_{b} { check(b_); }
  int two() const noexcept { return b_; }
};
template <typename T>
T three(T c) noexcept {
  return c;
}
}  // namespace weir
"""
        self.assertEqual(["return a;", "check(b_);", "return b_;", "return c;"], bodies(text))

    def test_hold_lambdas_and_blocks_whole(self):
        text = "int f() {\n  const auto g = [&](int a) { if (a) { return 1; } return 2; };\n  return g(3);\n}\n"
        self.assertEqual(1, len(bodies(text)))
        self.assertTrue(bodies(text)[0].endswith("return g(3);"))

    def test_end_where_code_does_not_where_texts_or_comments_have_a_brace(self):
        text = "int f() {\n  // }\n  g('}', \"}\", R\"(})\", 1'000);  /* } */\n  return 1;\n}\nint h() { return 2; }\n"
        self.assertEqual(2, len(bodies(text)))
        self.assertEqual("return 2;", bodies(text)[1])

    def test_are_neither_values_nor_what_only_holds_functions(self):
        text = """
#define LOOKS_LIKE_ONE() {
namespace weir {
struct alignas(64) Line { int a = f(1); };
constexpr int table[] = {f(1), f(2)};
int spread{f(3)};
enum class Kind { a, b };
}  // namespace weir
"""
        self.assertEqual([], bodies(text))

    def test_are_not_those_that_may_be_asked_before_a_mutant_is_picked(self):
        self.assertEqual([], bodies("constexpr int f(int a) { return a; }\nconsteval int g() { return 1; }\n"))
        self.assertEqual([], bodies("constexpr int f(int a) {\n  if (a) {\n    return 1;\n  }\n  return 2;\n}\n"))


class Combined(unittest.TestCase):
    TEXT = "int f(int a) {\n  ++a;\n  return a;\n}\nint g() { return 1; }\nint limit(2);\n"

    def test_a_body_comes_once_for_each_mutant_and_once_as_it_was(self):
        numbered = [(1, mutant("++a", "--a")), (5, mutant("return 1", "return 3")), (7, mutant("return a", "return 4"))]
        text = combined.combine(self.TEXT, numbered)
        self.assertEqual(1, text.count("weir_mutant == 1) {\n\n  --a;\n  return a;\n"))
        self.assertEqual(1, text.count("weir_mutant == 5) {\n return 3; \n"))
        self.assertEqual(1, text.count("weir_mutant == 7) {\n\n  ++a;\n  return 4;\n"))
        self.assertEqual(1, text.count("else {\n  ++a;\n  return a;\n\n}}"))
        self.assertEqual(1, text.count("else { return 1; \n}}"))
        self.assertTrue(text.endswith("int limit(2);\n"))

    def test_only_what_differs_has_to_lie_in_a_body(self):
        text = combined.combine(self.TEXT, [(1, mutant("  return a;\n}\nint g", "  return 0;\n}\nint g"))])
        self.assertIn("  return 0;\n", text)

    def test_what_lies_outside_of_bodies_or_across_two_is_left_alone(self):
        found = combined.bodies(self.TEXT)
        self.assertFalse(combined.can_be_combined(self.TEXT, found, mutant("limit(2)", "limit(3)")))
        self.assertFalse(combined.can_be_combined(self.TEXT, found, mutant("a;\n}\nint g() { return 1", "1;\n}\nint g() { return 2")))


class Lists(unittest.TestCase):
    def test_have_every_mutant_once_and_of_one_program_each(self):
        lists = together(mutants.MUTANTS)
        names = [one["name"] for some in lists for one in some]
        self.assertEqual(sorted(one["name"] for one in mutants.MUTANTS), sorted(names))
        for some in lists:
            self.assertEqual(1, len({one["program"] for one in some}))

    def test_are_few(self):
        # Where this fails, combined.py takes something for a body no more that is one.
        alone = [one["name"] for one in mutants.MUTANTS if not mutation_test.can_be_combined(one)]
        self.assertLess(len(alone), len(mutants.MUTANTS) / 20)
        self.assertLess(len(together(mutants.MUTANTS)), len(mutants.MUTANTS) / 20)

    def test_those_that_cannot_be_combined_are_in_one_with_others_of_the_same_units(self):
        for some in together(mutants.MUTANTS):
            if not mutation_test.can_be_combined(some[0]):
                self.assertEqual(1, len({tuple(mutation_test.units_of(one)) for one in some}))

    def test_a_stale_mutant_is_in_none_with_those_that_can_be_combined(self):
        some = [one for one in mutants.MUTANTS if one["file"] == "lib/engine/engine.cc"][:2]
        stale = dict(some[0], old="not there any more", name="stale")
        self.assertNotIn(stale["old"], source_text(stale["file"]))
        self.assertEqual([["stale"]], [[one["name"] for one in these] for these in together([*some, stale]) if stale in these])


class Caught(unittest.TestCase):
    """By programs that are made up: `status` says how a test ends, by the number of the mutant that is picked."""

    def caught(self, some, status, builds=lambda text: True):
        text_of = {}

        def built(_, texts, units, folder):
            text = "".join(texts.values())
            if not builds(text):
                raise AssertionError("does not compile")
            self.built.append(sorted(texts))
            text_of[folder] = text
            return folder

        def run_test(program, test, picked=0):
            ends = status(text_of[program], picked)
            return ends, f"[  FAILED  ] {test}" if ends else "", True

        with unittest.mock.patch.multiple(mutation_test, built=built, run_test=run_test):
            with unittest.mock.patch("sys.stderr"):
                return caught(some)

    def setUp(self):
        self.built = []  # the sources of each program, as they come
        some = [one for one in mutants.MUTANTS if one["file"] == "lib/engine/quota.cc"]
        self.combined = [one for one in some if mutation_test.can_be_combined(one)][:3]
        self.assertEqual(3, len(self.combined))
        self.alone = next(one for one in mutants.MUTANTS if not mutation_test.can_be_combined(one))
        self.without = ""  # what is built without any changed source

    def test_are_those_whose_test_fails_with_them_and_passes_without(self):
        self.assertEqual(["", "", ""], self.caught(self.combined, lambda _, picked: 1 if picked else 0))
        unnoticed = self.caught(self.combined, lambda _, picked: 1 if picked == 2 else 0)
        self.assertEqual(["", True], [unnoticed[1], all("did not notice" in unnoticed[at] for at in (0, 2))])

    def test_are_none_where_the_test_fails_without_them_too(self):
        for some in (self.combined, self.combined[:1], [self.alone]):
            for wrong in self.caught(some, lambda _, picked: 1):
                self.assertIn("fails without a mutant, too", wrong)

    def test_of_several_sources_have_one_program(self):
        other = next(one for one in mutants.MUTANTS if one["file"] == "lib/engine/replies.cc" and mutation_test.can_be_combined(one))
        some = [self.combined[0], other, self.combined[1]]
        self.assertEqual(["", "", ""], self.caught(some, lambda _, picked: 1 if picked else 0))
        self.assertEqual([["lib/engine/quota.cc", "lib/engine/replies.cc"]], self.built)
        wrong = self.caught(some, lambda _, picked: 1 if picked == 2 else 0)
        self.assertEqual(["did not notice" in one for one in wrong], [True, False, True])

    def test_of_several_sources_are_looked_for_source_by_source_where_they_do_not_compile_together(self):
        other = next(one for one in mutants.MUTANTS if one["file"] == "lib/engine/replies.cc" and mutation_test.can_be_combined(one))
        some = [self.combined[0], other, self.combined[1]]
        # Only the first of what is built by itself is noticed.
        is_one_source = lambda text: "weir_mutant == 3" not in text
        wrong = self.caught(some, lambda _, picked: 1 if picked == 1 else 0, is_one_source)
        self.assertEqual([["lib/engine/quota.cc"], ["lib/engine/replies.cc"]], self.built)
        self.assertEqual(["did not notice" in one for one in wrong], [False, False, True])

    def test_are_divided_until_the_one_is_alone_for_which_they_do_not_compile_together(self):
        is_one = lambda text: "weir_mutant == 2" not in text
        self.assertEqual(["", "", ""], self.caught(self.combined, lambda _, picked: 1 if picked else 0, is_one))
        for wrong in self.caught(self.combined, lambda _, picked: 1, is_one):
            self.assertIn("fails without a mutant, too", wrong)

    def test_are_compiled_alone_where_not_even_one_can_be_picked(self):
        are_alone = lambda text: "weir_mutant" not in text
        self.assertEqual(["", "", ""], self.caught(self.combined, lambda text, _: 0 if text == self.without else 1, are_alone))

    def test_one_that_is_compiled_alone_has_a_program_without_it_beside(self):
        self.assertEqual([""], self.caught([self.alone], lambda text, _: 0 if text == self.without else 1))
        self.assertEqual([[], [self.alone["file"]]], self.built)
        (wrong,) = self.caught([self.alone], lambda text, _: 0)
        self.assertIn("did not notice", wrong)

    def test_several_that_cannot_be_combined_have_one_program_without_them(self):
        file = self.alone["file"]
        some = [dict(self.alone, name=name, new=self.alone["new"] + f"/* {name} */") for name in ("first", "second", "third")]
        ends = lambda text, _: 0 if text == self.without or "/* second */" in text else 1
        wrong = self.caught(some, ends)
        self.assertEqual(["did not notice" in one for one in wrong], [False, True, False])
        self.assertEqual(["", ""], [wrong[0], wrong[2]])
        self.assertEqual([[], [file], [file], [file]], self.built)
        # One that does not compile is none of the others' business.
        wrong = self.caught(some, ends, lambda text: "/* third */" not in text)
        self.assertEqual("", wrong[0])
        self.assertIn("did not notice", wrong[1])
        self.assertEqual("does not compile", wrong[2])


if __name__ == "__main__":
    tap.main()
