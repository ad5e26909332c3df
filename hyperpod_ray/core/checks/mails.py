"""Rules about mails: an alarm or a budget that reaches nobody."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.plan import Plan
from hyperpod_ray_rules.arns import arn_of


@rule("hyperpod", "budget")
def somebody_gets_the_budgets_mails(plan: CommonPlan) -> Iterator[Finding]:
    """A budget publishes to the topic of all alarms, and `hyperpod.alarm_emails` are its subscribers.

    https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-sns-policy.html
    """
    if plan.settings.budget is not None and not _subscribed(plan):
        yield warning(
            "budget",
            what="its mails go to nobody: hyperpod.alarm_emails is empty",
            expected="an address",
            fix="set hyperpod.alarm_emails: [name@example.com], or subscribe to the topic yourself",
        )


@rule("hyperpod", "observability")
def somebody_gets_the_alerts(plan: Plan) -> Iterator[Finding]:
    """The alert manager publishes to the same topic."""
    hyperpod = plan.settings.hyperpod
    others = hyperpod.alarm_topic_arn or hyperpod.alarm_slack or hyperpod.alarm_teams
    if plan.settings.observability is not None and not (_subscribed(plan) or others):
        yield warning(
            "observability",
            what="its alerts go to nobody: hyperpod.alarm_emails is empty",
            expected="an address",
            fix="set hyperpod.alarm_emails: [name@example.com], or subscribe to the topic yourself",
        )


def _subscribed(plan: CommonPlan) -> bool:
    hyperpod = plan.settings.hyperpod
    return bool(hyperpod.alarm_emails or hyperpod.alarm_https)


@rule("hyperpod")
def an_endpoint_is_named_once(plan: CommonPlan) -> Iterator[Finding]:
    """SNS makes one subscription per endpoint."""
    endpoints = plan.settings.hyperpod.alarm_https
    for index, endpoint in enumerate(endpoints):
        if endpoint in endpoints[:index]:
            yield error(
                "hyperpod",
                "alarm_https",
                index,
                what=f"'{endpoint}' is named twice",
                expected="each endpoint once",
                fix="keep one",
            )


_NOBODYS = (".internal", ".local", ".localhost", ".lan", ".home.arpa", ".corp", ".svc")
"""Ends of names that no public name server knows."""


@rule("hyperpod")
def sns_reaches_the_endpoint(plan: CommonPlan) -> Iterator[Finding]:
    """SNS posts through the public internet, and supports no private endpoint.

    https://repost.aws/knowledge-center/sns-topic-https-endpoints-notification
    """
    for index, endpoint in enumerate(plan.settings.hyperpod.alarm_https):
        host = (urlsplit(endpoint).hostname or "").rstrip(".")
        if not _is_public(host):
            yield error(
                *("hyperpod", "alarm_https", index),
                what=f"'{host}' is no host that the public internet reaches, so that SNS never posts there",
                expected="a public host",
                fix="name a public address, such as that of a relay in front of it",
            )


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(_NOBODYS)


@rule("hyperpod")
def a_channel_is_named_once(plan: CommonPlan) -> Iterator[Finding]:
    """A channel has one configuration in an account, and its name is made of the channel's ID.

    https://docs.aws.amazon.com/chatbot/latest/APIReference/API_CreateSlackChannelConfiguration.html
    """
    hyperpod = plan.settings.hyperpod
    for setting, ids in (
        ("alarm_slack", [channel.channel_id for channel in hyperpod.alarm_slack]),
        ("alarm_teams", [channel.channel_id for channel in hyperpod.alarm_teams]),
    ):
        for index, channel_id in enumerate(ids):
            if channel_id in ids[:index]:
                yield error(
                    *("hyperpod", setting, index),
                    what=f"'{channel_id}' is named twice",
                    expected="each channel once",
                    fix="keep one",
                )


@rule("hyperpod", "region")
def the_other_topic_is_near(plan: CommonPlan) -> Iterator[Finding]:
    """An alarm and a rule of EventBridge notify topics of their own Region alone.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html
    """
    arn = plan.settings.hyperpod.alarm_topic_arn
    if arn is None:
        return
    region = arn_of(arn).region
    if region != plan.settings.region:
        yield error(
            "hyperpod",
            "alarm_topic_arn",
            what=f"a topic of {region}",
            expected=f"a topic of {plan.settings.region}: alarms notify none of another Region",
            fix=f"name a topic of {plan.settings.region}",
        )
