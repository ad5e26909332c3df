"""Rules of `hyperpod_ray/core/checks/account/caller.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import NEW
from tests.core.account.sabotage import Sabotage, assert_named_rules, assert_sabotage, case_id

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("not bootstrapped", {"parameters": {"/cdk-bootstrap/hnb659fds/version": None}}, (("bootstrap", "error", "is not bootstrapped"),), file=NEW),
    Sabotage("may not deploy", {"denied": ["sts:AssumeRole"]}, (("permissions", "error", "may not assume the deployment's role"),), file=NEW),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
