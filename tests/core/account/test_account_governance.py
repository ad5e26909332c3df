"""Rules of `hyperpod_ray/core/checks/account/governance.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import NEW
from tests.core.account.sabotage import (
    POLICY,
    QUOTA,
    TEAMS,
    THERE,
    Sabotage,
    assert_named_rules,
    assert_sabotage,
    case_id,
)

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("a policy made by hand", {"policies": {POLICY: "by-hand"}, **THERE}, (("task governance", "warning", "describe-cluster-scheduler-config --cluster-scheduler-config-id abcdefabcdef"),), file={**NEW, **TEAMS}),
    Sabotage("a team's quota of another stack", {"team_quotas": {QUOTA: "vision"}, **THERE, "stacks > theirs": {"status": "CREATE_COMPLETE", "resources": [QUOTA]}}, (("task governance", "error", "team 'vision' has the quota some-vision already"),), file={**NEW, **TEAMS}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
