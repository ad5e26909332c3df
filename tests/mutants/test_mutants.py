"""The list of breaks fits the code: every text stands in its file once. The breaks themselves run by `make mutants`."""

from __future__ import annotations

import pytest

from tests.mutants.run import GOAL_PERCENT, PAGE, PROJECT, Mutant, broken, mutants, recorded

ALL = list(mutants())


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_the_break_can_be_made(mutant: Mutant) -> None:
    assert broken(mutant)
    for test in mutant.tests.split():
        assert test.startswith("-") or (PROJECT / test.partition("::")[0]).exists(), test


def test_names_differ() -> None:
    assert len({mutant.name for mutant in ALL}) == len(ALL)


def test_few_breaks_survive() -> None:
    """By the recorded verdicts; one that was never run counts as a survivor. Fix: `make mutants WORDS="its name"`."""
    verdicts = recorded()
    left = [one.name for one in ALL if one.name not in verdicts or verdicts[one.name].result != "killed"]
    assert 100 * len(left) / len(ALL) <= GOAL_PERCENT, left
    assert PAGE.exists()
