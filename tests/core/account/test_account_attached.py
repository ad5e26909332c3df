"""Rules of `hyperpod_ray/core/checks/account/attached.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import EXISTING
from tests.core.account.sabotage import TEAMS, Sabotage, assert_named_rules, assert_sabotage, case_id

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("task governance on an existing cluster", {"addons > amazon-sagemaker-hyperpod-taskgovernance": "v1.6.0-eksbuild.1"}, (("add-ons that are created", "error", "kubectl get workloads -A); then aws eks delete-addon --cluster-name shared --addon-name amazon-sagemaker-hyperpod-taskgovernance, which ends its Kueue"),), file={**EXISTING, **TEAMS}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
