"""Rules of `hyperpod_ray/core/checks/mails.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import MAILS, SLACK, TEAMS, assert_named_rule, assert_rule, case_id

CASES = [
    Case("somebody_gets_the_budgets_mails", {"budget": {"usd_per_month": 900000}}, "budget", "its mails go to nobody", {"budget": {"usd_per_month": 900000}, **MAILS}, "warning"),
    Case("somebody_gets_the_alerts", {"observability": {}}, "observability", "its alerts go to nobody", {"observability": {}, **MAILS}, "warning"),
    Case("a_channel_is_named_once", {"hyperpod/alarm_slack": [SLACK, {**SLACK, "workspace_id": "T9"}]}, "hyperpod.alarm_slack[1]", "'C0123ABCDEF' is named twice", {"hyperpod/alarm_slack": [SLACK]}),
    Case("a_channel_is_named_once", {"hyperpod/alarm_teams": [TEAMS, dict(TEAMS)]}, "hyperpod.alarm_teams[1]", "is named twice", {"hyperpod/alarm_teams": [TEAMS]}),
    Case("somebody_gets_the_alerts", {"observability": {}}, "observability", "its alerts go to nobody", {"observability": {}, "hyperpod/alarm_slack": [SLACK]}, "warning"),
    # https://repost.aws/knowledge-center/sns-topic-https-endpoints-notification
    *(
        Case("sns_reaches_the_endpoint", {"hyperpod/alarm_https": [f"https://{host}/sns"]}, "hyperpod.alarm_https[0]", "SNS never posts there", {"hyperpod/alarm_https": [f"https://{near}/sns"]})
        for host, near in (("10.0.0.1", "8.8.8.8"), ("localhost", "localhost.example.com"), ("pager.corp", "pager.corp.example.com"), ("169.254.169.254", "alerts.example.com"))
    ),
    Case("an_endpoint_is_named_once", {"hyperpod/alarm_https": ["https://a.example.com/x", "https://a.example.com/x"]}, "hyperpod.alarm_https[1]", "named twice", {"hyperpod/alarm_https": ["https://a.example.com/x", "https://a.example.com/y"]}),
    Case("the_other_topic_is_near", {"hyperpod/alarm_topic_arn": "arn:aws:sns:eu-west-1:111122223333:on-call"}, "hyperpod.alarm_topic_arn", "a topic of eu-west-1", {"hyperpod/alarm_topic_arn": "arn:aws:sns:us-west-2:111122223333:on-call"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
