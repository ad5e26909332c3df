"""A topic of somebody else: who may publish to it, by its policy and its key's."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.findings import Finding
from tests.core.account.good import ACCOUNT, EXISTING, KEY, NEW, REGION, account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan
from tests.core.three_parts import assert_form

Json = dict[str, Any]
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:on-call"
FILE: Json = {"hyperpod/alarm_topic_arn": TOPIC}
ALARMS, EVENTS, METRICS_SERVICE = "cloudwatch.amazonaws.com", "events.amazonaws.com", "aps.amazonaws.com"
KEY_ACTIONS = ["kms:Decrypt", "kms:GenerateDataKey*"]


def allow(*services: str, action: Any = "sns:Publish", **more: Any) -> Json:
    return {"Effect": "Allow", "Principal": {"Service": list(services)}, "Action": action, "Resource": "*", **more}


OWN: Json = {  # of a topic that nobody gave a policy
    "Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["SNS:Publish", "SNS:Subscribe"], "Resource": TOPIC,
    "Condition": {"StringEquals": {"AWS:SourceOwner": ACCOUNT}},
}  # fmt: skip
SOURCE: Json = {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
OF_ALARMS: Json = {"ArnLike": {"aws:SourceArn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:*"}}
OTHERS: Json = {"ArnLike": {"aws:SourceArn": f"arn:aws:cloudwatch:{REGION}:999999999999:alarm:*"}}
DENY: Json = {**allow(EVENTS), "Effect": "Deny"}


METRICS: Json = {"observability": {}}
(RULE,) = [rule for rule in account_rules() if rule.title == "topic of alarms"]


def of_account(file: Json, edits: Json) -> list[Finding]:
    return list(RULE(plan(file), Evidence(account=RecordedAccount(account(edits)))))


def said(statements: list[Json], *, file: Json | None = None, **more: Any) -> list[Finding]:
    """What the rule says of a topic with these statements."""
    attributes = {"Policy": {"Statement": statements}, "SubscriptionsConfirmed": "1", **more.pop("attributes", {})}
    findings = of_account({**EXISTING, **FILE, **(file or {})}, {"topics": {TOPIC: attributes}, **more})
    for finding in findings:
        if finding.severity not in ("fine", "skipped"):
            assert_form(finding)
    return findings


@pytest.mark.parametrize(
    ("statements", "severity", "words"),
    [
        ([allow(ALARMS, EVENTS)], "fine", f"{ALARMS} and {EVENTS}"),
        ([allow(ALARMS, EVENTS, Condition=SOURCE)], "fine", "takes"),
        ([allow(ALARMS, Condition=OF_ALARMS), allow(EVENTS)], "fine", "takes"),
        ([{**OWN, "Condition": {}}], "fine", "takes"),
        ([OWN, allow(EVENTS)], "fine", "takes"),
        ([OWN], "error", f"not let {EVENTS} publish"),
        ([allow(EVENTS)], "error", f"not let {ALARMS} publish"),
        ([], "error", f"not let {ALARMS} and {EVENTS} publish"),
        ([allow(ALARMS, EVENTS, action="sns:Subscribe")], "error", f"{ALARMS} and {EVENTS}"),
        ([allow(ALARMS, Condition=OTHERS), allow(EVENTS)], "error", f"not let {ALARMS} publish"),
        (
            [allow(ALARMS, EVENTS, Condition={"StringEquals": {"aws:SourceAccount": ["999999999999"]}})],
            "error",
            f"{ALARMS} and {EVENTS}",
        ),
        ([allow(ALARMS, EVENTS), DENY], "error", f"not let {EVENTS} publish"),
    ],
)
def test_who_may_publish(statements: list[Json], severity: str, words: str) -> None:
    (finding,) = said(statements)
    assert (finding.severity, words in finding.what) == (severity, True), finding


def test_the_alert_manager_publishes_where_there_is_one() -> None:
    both = [allow(ALARMS, EVENTS)]
    (finding,) = said(both, file={**METRICS, "hyperpod/alarm_emails": ["a@example.com"]})
    assert (finding.severity, f"not let {METRICS_SERVICE} publish" in finding.what) == ("error", True)
    (finding,) = said([*both, allow(METRICS_SERVICE)], file=METRICS)
    assert finding.severity == "fine"


@pytest.mark.parametrize(
    ("statements", "severity", "words"),
    [
        ([allow(ALARMS, EVENTS, action=KEY_ACTIONS)], "fine", "takes"),
        ([allow(ALARMS, EVENTS, action="kms:*")], "fine", "takes"),
        ([allow(ALARMS, Condition=SOURCE, action=KEY_ACTIONS), allow(EVENTS, action=KEY_ACTIONS)], "fine", "takes"),
        ([allow(ALARMS, EVENTS, Condition=SOURCE, action=KEY_ACTIONS)], "error", f", which {EVENTS} may not use"),
        ([allow(ALARMS, action=KEY_ACTIONS)], "error", f", which {EVENTS} may not use"),
        ([allow(ALARMS, EVENTS, action="kms:Decrypt")], "error", f"{ALARMS} and {EVENTS} may not use"),
        ([{**allow(action="kms:*"), "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}], "error", "may not use"),
    ],
)
def test_who_may_use_its_key(statements: list[Json], severity: str, words: str) -> None:
    (finding,) = said(
        [allow(ALARMS, EVENTS)],
        attributes={"KmsMasterKeyId": KEY},
        keys={KEY: {"KeyState": "Enabled", "Arn": KEY}},
        key_policies={KEY: {"Statement": statements}},
    )
    assert (finding.severity, words in finding.what) == (severity, True), finding


def test_the_key_of_aws_lets_no_service_in() -> None:
    (finding,) = said([allow(ALARMS, EVENTS)], attributes={"KmsMasterKeyId": "alias/aws/sns"})
    assert (finding.severity, "AWS's own key" in finding.what) == ("error", True)


def test_a_topic_that_is_not_there_not_readable_or_unread() -> None:
    (gone,) = of_account({**EXISTING, **FILE}, {})
    assert (gone.severity, "on-call: no such topic" in gone.what) == ("error", True)
    (closed,) = said([], errors={"sns.get_topic_attributes": "AuthorizationError"})
    assert (closed.severity, closed.expected) == ("unknown", "sns:GetTopicAttributes on it")
    (unread,) = said([allow(ALARMS, EVENTS)], attributes={"SubscriptionsConfirmed": "0"})
    assert (unread.severity, "reaches nobody" in unread.what, TOPIC in unread.fix) == ("warning", True, True)
    (none,) = of_account(NEW, {})
    assert none.severity == "skipped"


def test_a_key_that_may_not_be_seen_leaves_it_open() -> None:
    (finding,) = said(
        [allow(ALARMS, EVENTS)],
        attributes={"KmsMasterKeyId": KEY},
        keys={KEY: {"KeyState": "Enabled"}},
        errors={"kms.get_key_policy": "AccessDeniedException"},
    )
    assert (finding.severity, "may not read" in finding.what) == ("unknown", True)
