"""The list of breaks fits the code: every text stands in its file once. The breaks themselves run by `make mutants`."""

from __future__ import annotations

import pytest

from tests.mutants.run import PROJECT, Mutant, broken, mutants

ALL = list(mutants())


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_the_break_can_be_made(mutant: Mutant) -> None:
    assert broken(mutant)
    for test in mutant.tests.split():
        assert test.startswith("-") or (PROJECT / test.partition("::")[0]).exists(), test


def test_names_differ() -> None:
    assert len({mutant.name for mutant in ALL}) == len(ALL)
