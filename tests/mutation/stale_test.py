#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Does every mutant still apply? Within a second of changing a source, not half an hour later when all of them are run."""

import unittest

from mutation_test import mutants, mutated, tap


class Mutants(unittest.TestCase):
    def test_apply_to_the_sources_as_they_are(self):
        # Those too that this machine cannot run.
        for mutant in mutants.MUTANTS:
            with self.subTest(mutant=mutant["name"]):
                mutated(mutant)


if __name__ == "__main__":
    tap.main()
