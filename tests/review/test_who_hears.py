"""Who hears of an alarm after a change, and when, in templates written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.effects import alarms
from hyperpod_ray.review.review import EnvironmentReview, review
from tests.review.small import resources, write

TOPIC = "arn:aws:sns:us-west-2:111122223333:on-call"
OTHER = "arn:aws:sns:us-west-2:111122223333:other"


def alarm(**properties: Any) -> dict[str, Any]:
    usual = {
        "AlarmName": "full", "Namespace": "AWS/FSx", "MetricName": "FreeDataStorageCapacity", "Threshold": 10,
        "ComparisonOperator": "LessThanThreshold", "EvaluationPeriods": 15, "Period": 60,
        "TreatMissingData": "breaching", "AlarmActions": [TOPIC],
    }  # fmt: skip
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": usual | properties}


def subscriber(endpoint: str, protocol: str = "https") -> dict[str, Any]:
    properties = {"TopicArn": TOPIC, "Protocol": protocol, "Endpoint": endpoint}
    return {"Type": "AWS::SNS::Subscription", "Properties": properties}


def slack(channel: str) -> dict[str, Any]:
    properties = {
        "ConfigurationName": channel, "SlackWorkspaceId": "T0123ABCDEF", "SlackChannelId": channel,
        "IamRoleArn": "arn:aws:iam::111122223333:role/chat", "SnsTopicArns": [TOPIC],
    }  # fmt: skip
    return {"Type": "AWS::Chatbot::SlackChannelConfiguration", "Properties": properties}


def compared(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> EnvironmentReview:
    sides = [
        write(folder / name, {"Platform": resources(**side)}) for name, side in (("base", before), ("head", after))
    ]
    (environment,) = review(*sides).environments
    return environment


@pytest.mark.parametrize(
    ("properties", "effect"),
    [
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
        ({"TreatMissingData": "notBreaching"}, "weakens"),
        ({"TreatMissingData": "ignore"}, "weakens"),
        ({"AlarmActions": [OTHER]}, "weakens"),
        ({"AlarmActions": [TOPIC, OTHER]}, "safe"),
        ({"AlarmActions": []}, "weakens"),
        ({"EvaluationPeriods": 60}, "weakens"),
        ({"EvaluationPeriods": 5}, "safe"),
        ({"Threshold": 1}, "weakens"),
        ({"Threshold": 20}, "safe"),
        ({"Threshold": 10}, "no-change"),
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
        ({"ComparisonOperator": "GreaterThanThreshold", "Threshold": 20}, "weakens"),
        ({"ComparisonOperator": "LessThanOrEqualToThreshold"}, "safe"),
        ({"DatapointsToAlarm": 15}, "safe"),
        ({"Period": 120}, "weakens"),
        ({"ActionsEnabled": False}, "weakens"),
        ({"ActionsEnabled": True}, "safe"),
    ],
    ids=str,
)
def test_an_alarm(properties: dict[str, Any], effect: str, tmp_path: Path) -> None:
    environment = compared(tmp_path, {"Alarm": alarm()}, {"Alarm": alarm(**properties)})
    assert ("no-change" if environment.empty else environment.effect.code) == effect, environment.rows


@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        # M out of N: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
        ({"Period": 60, "EvaluationPeriods": 5}, 300),
        ({"Period": 60, "EvaluationPeriods": 5, "DatapointsToAlarm": 5}, 300),
        ({"Period": 60, "EvaluationPeriods": 5, "DatapointsToAlarm": 1}, 60),
        ({"Period": 300, "EvaluationPeriods": 3, "DatapointsToAlarm": 2}, 600),
    ],
    ids=str,
)
def test_how_long_an_alarm_waits(properties: dict[str, int], seconds: int) -> None:
    assert alarms._patience(properties.get) == seconds


def counts(**properties: Any) -> dict[str, Any]:
    transformation = {"MetricName": "Faults", "MetricNamespace": "Ray", "MetricValue": "1"}
    usual = {"LogGroupName": "/events", "FilterPattern": "Unhealthy", "MetricTransformations": [transformation]}
    return {"Type": "AWS::Logs::MetricFilter", "Properties": usual | properties}


@pytest.mark.parametrize(
    ("properties", "effect"),
    [
        ({"FilterPattern": "never"}, "weakens"),
        ({"LogGroupName": "/other"}, "weakens"),
        ({"FilterName": "faults"}, "safe"),
        ({}, "no-change"),
    ],
    ids=str,
)
def test_the_count_behind_an_alarm(properties: dict[str, Any], effect: str, tmp_path: Path) -> None:
    environment = compared(tmp_path, {"Filter": counts()}, {"Filter": counts(**properties)})
    assert ("no-change" if environment.empty else environment.effect.code) == effect, environment.rows


UNHEALTHY = '{ $.level = "Error" && ($.kind = "a||b" || $.kind = "node") }'


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
        ('{ $.a = "x" }', '{ $.a = "x" || $.a = "y" }', "safe"),
        ('{ $.a = "x" }', '{ ($.a = "y") || ($.a = "x") }', "safe"),
        ('{ $.a = "x" && $.b = "y" }', '{ $.a = "x" }', "safe"),
        ('{ $.a = "x" }', "", "safe"),
        (UNHEALTHY, '{ $.other = 1 || $.level = "Error" && ($.kind = "a||b" || $.kind = "node") }', "safe"),
        ('{ $.a = "x" || $.a = "y" }', '{ $.a = "x" }', "weakens"),
        ('{ $.a = "x" }', '{ $.a = "x" && $.b = "y" }', "weakens"),
        ('{ $.a = "x" }', '{ $.a = "y" }', "weakens"),
        ('{ $.a = "x || $.a = y" }', '{ $.a = "x || $.a = y2" }', "weakens"),
        ("", '{ $.a = "x" }', "weakens"),
        (UNHEALTHY, '{ $.level = "Error" && ($.kind = "node") }', "weakens"),
        ('{ $.a != "x" }', '{ $.a = "x" }', "weakens"),
        # of words in place of JSON nothing is known
        ("ERROR", "?ERROR ?WARN", "weakens"),
    ],
)
def test_a_filter_that_counts_more_takes_nothing_from_an_alarm(
    before: str, after: str, effect: str, tmp_path: Path
) -> None:
    reader = alarm(Namespace="Ray", MetricName="Faults", ComparisonOperator="GreaterThanOrEqualToThreshold")
    sides = [{"Filter": counts(FilterPattern=pattern), "Alarm": reader} for pattern in (before, after)]
    assert compared(tmp_path, *sides).effect.code == effect


@pytest.mark.parametrize(
    "reader",
    [
        alarm(Namespace="Ray", MetricName="Faults"),
        alarm(Namespace="Ray", MetricName="Faults", ComparisonOperator="LessThanOrEqualToThreshold"),
        # an expression may subtract it
        alarm(
            ComparisonOperator="GreaterThanThreshold",
            Metrics=[{"Id": "m", "MetricStat": {"Metric": {"Namespace": "Ray", "MetricName": "Faults"}}}],
        ),
    ],
)
def test_an_alarm_on_what_is_missing_hears_less_of_a_filter_that_counts_more(
    reader: dict[str, Any], tmp_path: Path
) -> None:
    sides = [
        {"Filter": counts(FilterPattern=pattern), "Alarm": reader}
        for pattern in ('{ $.a = "x" }', '{ $.a = * || $.a = "x" }')
    ]
    assert compared(tmp_path, *sides).effect.code == "weakens"


@pytest.mark.parametrize(
    ("transformation", "alarm_reads", "effect"),
    [
        ({"MetricName": "Other"}, "Faults", "weakens"),
        ({"MetricNamespace": "Other"}, "Faults", "weakens"),
        ({"MetricName": "Other"}, "Other", "safe"),
        ({"MetricValue": "0"}, "Faults", "weakens"),
        ({"DefaultValue": 0}, "Faults", "safe"),
    ],
)
def test_a_metric_that_nobody_writes_any_more_blinds_its_alarm(
    transformation: dict[str, Any], alarm_reads: str, effect: str, tmp_path: Path
) -> None:
    usual = {"MetricName": "Faults", "MetricNamespace": "Ray", "MetricValue": "1"}
    more = {"Namespace": "Ray", "ComparisonOperator": "GreaterThanThreshold"}
    sides = [
        {"Filter": counts(MetricTransformations=[part]), "Alarm": alarm(MetricName=name, **more)}
        for part, name in ((usual, "Faults"), (usual | transformation, alarm_reads))
    ]
    assert compared(tmp_path, *sides).effect.code == effect


def budget(*notices: tuple[str, int], subscribed: bool = True, **budget: Any) -> dict[str, Any]:
    listed = [
        {
            "Notification": {"NotificationType": basis, "Threshold": threshold},
            "Subscribers": [{"SubscriptionType": "EMAIL", "Address": "a@example.com"}] if subscribed else [],
        }
        for basis, threshold in notices
    ]
    usual = {"BudgetLimit": {"Amount": 1000, "Unit": "USD"}, "TimeUnit": "MONTHLY", "BudgetType": "COST"}
    properties = {"Budget": usual | budget, "NotificationsWithSubscribers": listed}
    return {"Type": "AWS::Budgets::Budget", "Properties": properties}


NOTICES = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
FILTER = {"TagKeyValue": ["user:environment$prod"]}


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (budget(*NOTICES, BudgetLimit={"Amount": 1001, "Unit": "USD"}), "1,000 → 1,001 $ per month"),
        (budget(*NOTICES, BudgetLimit={"Amount": 999, "Unit": "USD"}), ""),
        (budget(*NOTICES, TimeUnit="ANNUALLY"), "of MONTHLY → ANNUALLY costs"),
        (budget(*NOTICES, CostFilters=FILTER), "counts other costs (CostFilters)"),
        (budget(*NOTICES, BudgetName="other"), ""),
        (budget(*NOTICES[:2]), "no mail of the forecast"),
        (budget(NOTICES[2]), "no mail of what is spent"),
        (budget(NOTICES[1], NOTICES[2]), "mails of what is spent at 80 %, 100 % → 100 %"),
        (budget(NOTICES[0], NOTICES[2]), "mails of what is spent at 80 %, 100 % → 80 %"),
        (budget(("ACTUAL", 81), *NOTICES[1:]), "mails of what is spent at 80 %, 100 % → 81 %, 100 %"),
        (budget(("ACTUAL", 79), *NOTICES[1:]), ""),
        (budget(("ACTUAL", 50), *NOTICES), ""),
        (budget(*NOTICES, subscribed=False), "no mail of what is spent; no mail of the forecast"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_budget(after: dict[str, Any], says: str, tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Notification.html"""
    environment = compared(tmp_path, {"Budget": budget(*NOTICES)}, {"Budget": after})
    assert [row.change for row in environment.rows if row.code == "budget-off"] == ([says] if says else [])
    assert environment.effect.code == ("weakens" if says else "safe")


MAIL = subscriber("on-call@example.com", "email")


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        ({"A": subscriber("https://a.example.com")}, {"B": subscriber("https://b.example.com")}, "weakens"),
        # a mail to somebody else is no page
        (
            {"A": subscriber("https://a.example.com"), "Mail": MAIL},
            {"B": subscriber("https://b.example.com"), "Mail": MAIL},
            "weakens",
        ),
        (
            {"A": subscriber("https://a.example.com"), "Stays": subscriber("https://c.example.com")},
            {"B": subscriber("https://b.example.com"), "Stays": subscriber("https://c.example.com")},
            "safe",
        ),
        ({"Mail": MAIL}, {"Mail": MAIL, "A": subscriber("https://a.example.com")}, "safe"),
        ({"Mail": MAIL, "A": subscriber("https://a.example.com")}, {"Mail": MAIL}, "weakens"),
        ({"A": slack("C1")}, {"B": slack("C2")}, "weakens"),
        ({"A": slack("C1"), "Stays": slack("C3")}, {"B": slack("C2"), "Stays": slack("C3")}, "safe"),
    ],
    ids=["another page", "and the same mail", "one of two pages", "a page more", "a page less", "chat", "one of two"],
)
def test_a_subscriber(before: dict[str, Any], after: dict[str, Any], effect: str, tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/sns/latest/dg/SendMessageToHttp.confirm.html: a new one has to confirm first."""
    environment = compared(tmp_path, before, after)
    assert environment.effect.code == effect, (environment.rows, environment.remarks)
