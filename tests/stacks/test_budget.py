"""A budget whose mails arrive, and which counts what the environment's tag is on."""

from __future__ import annotations

import re

import pytest

from hyperpod_ray.core import load, names, notifications
from tests.cli.test_one_command import problem
from tests.stacks.alarms_helpers import documents, key_statements, references, split
from tests.stacks.assembled import Assembly
from tests.support.iam import Request, decide


@pytest.fixture
def prod(assemblies: dict[str, Assembly]) -> Assembly:
    return assemblies["prod"]


def budget(assembly: Assembly) -> dict[str, object]:
    ((key, found),) = assembly.of_type("AWS::Budgets::Budget").items()
    resolved: dict[str, object] = references(assembly).resolve(split(key)[0], found["Properties"])
    return resolved


def test_it_counts_what_carries_the_tag_of_the_environment(prod: Assembly) -> None:
    data = budget(prod)["Budget"]
    assert isinstance(data, dict)
    settings = load("prod").settings
    assert settings.budget is not None
    assert data["BudgetLimit"] == {"Amount": settings.budget.usd_per_month, "Unit": "USD"}
    (cluster,) = prod.of_type("AWS::SageMaker::Cluster").values()
    tags = {tag["Key"]: tag["Value"] for tag in cluster["Properties"]["Tags"]}
    assert data["CostFilters"] == {"TagKeyValue": [f"user:{names.ENVIRONMENT_TAG}${tags[names.ENVIRONMENT_TAG]}"]}
    assert (data["BudgetType"], data["TimeUnit"]) == ("COST", "MONTHLY")


def test_each_threshold_mails_the_topic(prod: Assembly) -> None:
    sent = budget(prod)["NotificationsWithSubscribers"]
    assert isinstance(sent, list)
    kinds = [(one["Notification"]["NotificationType"], one["Notification"]["Threshold"]) for one in sent]
    assert kinds == [("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]
    account = load("prod").settings.account
    for one in sent:
        assert one["Notification"]["ThresholdType"] == "PERCENTAGE"
        ((subscriber),) = one["Subscribers"]
        assert subscriber["SubscriptionType"] == "SNS"
        topic = subscriber["Address"]
        source = {"aws:SourceArn": f"arn:aws:budgets::{account}:budget/x", "aws:SourceAccount": account}
        policy = documents(prod, "AWS::SNS::TopicPolicy", "Topics", topic)
        tls = {**source, "aws:SecureTransport": "true"}
        ask = Request(action="sns:Publish", service="budgets.amazonaws.com", resource=topic, context=tls)
        assert decide(policy, ask) == "allowed"
        other = Request(
            action="sns:Publish",
            service="budgets.amazonaws.com",
            resource=topic,
            context={
                **tls,
                "aws:SourceAccount": "999999999999",
                "aws:SourceArn": "arn:aws:budgets::999999999999:budget/x",
            },
        )
        assert decide(policy, other) == "not allowed"
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            key = Request(action=action, service="budgets.amazonaws.com", context=source)
            assert decide(key_statements(prod, topic), key) == "allowed"


def test_the_name_is_allowed_and_says_the_command(prod: Assembly) -> None:
    """https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Budget.html"""
    data = budget(prod)["Budget"]
    assert isinstance(data, dict)
    name = data["BudgetName"]
    assert name == notifications.budget_name("prod")
    longest = notifications.budget_name("e" * 21)
    assert len(longest) <= 100
    assert re.fullmatch(r"(?![^:\\]*/action/|(?i:.*<script>.*</script>.*))[^:\\]+", longest)
    command = name.partition("Run hyperpod-ray ")[2].partition(".")[0]
    assert problem(command) == ""


def test_without_the_section_nothing_is_created(assemblies: dict[str, Assembly]) -> None:
    assert assemblies["dev"].of_type("AWS::Budgets::Budget") == {}
    assert "budgets.amazonaws.com" not in str(assemblies["dev"].templates)
