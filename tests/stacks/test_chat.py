"""Alarms in a chat: what reaches the topic of channels, in which form, and what a channel may do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hyperpod_ray.core import metric_alerts, notifications
from hyperpod_ray.core.loader import FOLDER
from tests.stacks.assembled import Assembly
from tests.stacks.test_alarms import rules
from tests.support import assemblies as assemblies_of
from tests.support.eventbridge import matches, transformed
from tests.support.faults import FAULTS, Fault

Json = dict[str, Any]
SLACK, TEAMS = "AWS::Chatbot::SlackChannelConfiguration", "AWS::Chatbot::MicrosoftTeamsChannelConfiguration"
CHANNELS = """\
  alarm_slack: [{workspace_id: T0123ABCDEF, channel_id: C0123ABCDEF}]
  alarm_teams:
    - tenant_id: 0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f
      team_id: 1a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f
      channel_id: 19%3Aabc123%40thread.tacv2
  runbook_url: https://docs.example.com/alarms/
"""
MEMBERS = {"textType", "title", "description", "nextSteps"}


def prod_with_channels(*, validation: bool = False) -> Assembly:
    """The environment prod with a channel of each app."""
    path = FOLDER / "prod.yaml"
    text = (
        path.read_text(encoding="utf-8").replace("\nhyperpod:\n", f"\nhyperpod:\n{CHANNELS}", 1) + "observability: {}\n"
    )
    return Assembly(name="prod", folder=assemblies_of.synthesized("prod", text, path=path, validation=validation))


@pytest.fixture(scope="module")
def chat() -> Assembly:
    return prod_with_channels()


@pytest.mark.slow
def test_the_cdks_own_validation_finds_nothing() -> None:
    assert prod_with_channels(validation=True).template_files()


def by_id(assembly: Assembly, resource_type: str) -> dict[str, Json]:
    """Resources of the one stack that has some, by logical ID."""
    return {name.partition("/")[2]: resource for name, resource in assembly.of_type(resource_type).items()}


def topic(assembly: Assembly) -> str:
    """Logical ID of the topic that channels read."""
    (name,) = [name for name in by_id(assembly, "AWS::SNS::Topic") if "ChatTopic" in name]
    return name


def custom(text: str) -> Json:
    """The content of a custom notification: https://docs.aws.amazon.com/chatbot/latest/adminguide/custom-notifs.html."""
    message = json.loads(text)
    assert (message["version"], message["source"]) == ("1.0", "custom")
    assert set(message["content"]) <= MEMBERS and message["content"]["description"]
    return dict(message["content"])


def test_no_channel_makes_no_topic(assemblies: dict[str, Assembly]) -> None:
    for assembly in assemblies.values():
        assert len(assembly.of_type("AWS::SNS::Topic")) == 1
        assert not assembly.of_type(SLACK) and not assembly.of_type(TEAMS)


def test_a_channel_may_read_metrics_and_nothing_else(chat: Assembly) -> None:
    channels = [*chat.of_type(SLACK).values(), *chat.of_type(TEAMS).values()]
    assert len(channels) == 2
    for channel in (resource["Properties"] for resource in channels):
        (guardrail,) = channel["GuardrailPolicies"]
        policy = by_id(chat, "AWS::IAM::ManagedPolicy")[guardrail["Ref"]]["Properties"]["PolicyDocument"]
        role = by_id(chat, "AWS::IAM::Role")[channel["IamRoleArn"]["Fn::GetAtt"][0]]["Properties"]
        assert role["ManagedPolicyArns"] == [guardrail] and "Policies" not in role
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "chatbot.amazonaws.com"}
        (statement,) = policy["Statement"]
        assert all(re.match(r"cloudwatch:(Describe|Get)", action) for action in statement["Action"])
        assert channel["SnsTopicArns"] == [{"Ref": topic(chat)}]
        assert channel["ConfigurationName"].startswith(f"{chat.name}-")


def test_what_is_published_is_encrypted_and_comes_by_tls(chat: Assembly) -> None:
    topics = by_id(chat, "AWS::SNS::Topic")
    keys = {json.dumps(resource["Properties"]["KmsMasterKeyId"]) for resource in topics.values()}
    assert len(topics) == 2 and len(keys) == 1
    denied = [
        policy["Properties"]["Topics"][0]["Ref"]
        for policy in chat.of_type("AWS::SNS::TopicPolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny" and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    ]
    assert sorted(denied) == sorted(topics)


def test_every_alarm_reaches_the_channels(chat: Assembly) -> None:
    alarms = chat.of_type("AWS::CloudWatch::Alarm")
    assert alarms
    for alarm in alarms.values():
        assert {"Ref": topic(chat)} in alarm["Properties"]["AlarmActions"]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.mail], ids=lambda fault: fault.name)
def test_an_event_is_a_message_that_chat_shows(chat: Assembly, fault: Fault) -> None:
    archive = next(
        rule["EventPattern"] for _, rule in rules(chat).values() if len(rule["EventPattern"]["detail-type"]) == 3
    )
    event = {**fault.event, "resources": archive["resources"]}
    (rule,) = [
        rule for _, rule in rules(chat).values()
        if len(rule["EventPattern"]["detail-type"]) == 1 and matches(rule["EventPattern"], event)
    ]  # fmt: skip
    (target,) = [target for target in rule["Targets"] if "ChatTopic" in target["Arn"]]
    content = custom(transformed(target["InputTransformer"], event))
    mail = next(mail for mail in notifications.CLUSTER_RULES if mail.name == fault.mail)
    if "InstanceId" in event["detail"] and "node" in mail.variables:
        assert event["detail"]["InstanceId"] in content["title"]
    assert event["time"] in content["description"] and mail.means in content["description"]
    run, read = content["nextSteps"]
    assert run.startswith("Run `hyperpod-ray ") and f" {chat.name}" in run and "<" not in run
    assert read == f"Read https://docs.example.com/alarms/#{fault.mail.lower()}"


def test_an_alert_on_metrics_is_a_message_too(chat: Assembly) -> None:
    (workspace,) = chat.of_type("AWS::APS::Workspace").values()
    definition = json.dumps(workspace["Properties"]["AlertManagerDefinition"])
    assert topic(chat) in definition
    content = custom(metric_alerts.CHAT_MESSAGE)
    assert "CommonLabels.alertname" in content["title"]
    assert ["CommonAnnotations.run" in content["nextSteps"][0], "CommonAnnotations.runbook" in content["nextSteps"][1]]
    # what the alert manager inserts must not end the JSON text
    for mail in notifications.METRIC_MAILS:
        assert not set(f"{mail.means}{mail.run}") & {'"', "\\"}


def test_the_services_may_publish_to_both_topics(chat: Assembly) -> None:
    policies = [policy["Properties"] for policy in chat.of_type("AWS::SNS::TopicPolicy").values()]
    allowed = {
        policy["Topics"][0]["Ref"]: {
            statement["Principal"]["Service"]
            for statement in policy["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Allow"
        }
        for policy in policies
    }
    services = {"cloudwatch.amazonaws.com", "events.amazonaws.com", "aps.amazonaws.com"}
    assert allowed[topic(chat)] == services
    (other,) = [services_of for name, services_of in allowed.items() if name != topic(chat)]
    assert other - {"budgets.amazonaws.com"} == services
