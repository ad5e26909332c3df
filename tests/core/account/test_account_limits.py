"""Rules of `hyperpod_ray/core/checks/account/limits.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.sabotage import METRICS, Sabotage, assert_named_rules, assert_sabotage, case_id

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("no workspaces left", {"quotas > aps": {"Workspaces per region per account": 2}, "workspaces": [{}, {"team": "other"}]}, (("metrics quota", "error", "Workspaces per region per account: 1 asked and 2 used by others, 2 allowed"),), file=METRICS),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
