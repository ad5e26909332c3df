"""Rules of `hyperpod_ray/core/checks/account/topics.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import ACCOUNT, NEW, REGION
from tests.core.account.sabotage import Sabotage, assert_named_rules, assert_sabotage, case_id

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("topic that may not be read", {"errors": {"sns.get_topic_attributes": "AuthorizationError"}}, (("topic of alarms", "unknown", "these credentials may not read its policy"),), file={**NEW, "hyperpod/alarm_topic_arn": f"arn:aws:sns:{REGION}:{ACCOUNT}:on-call"}),
    Sabotage("no topic of alarms", {}, (("topic of alarms", "error", "on-call: no such topic"),), file={**NEW, "hyperpod/alarm_topic_arn": f"arn:aws:sns:{REGION}:{ACCOUNT}:on-call"}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
