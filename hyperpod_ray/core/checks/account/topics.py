"""Rules about the topic that the file names for alarms: it is there, and those who publish are let in."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core.checks.account import policies
from hyperpod_ray.core.common_plan import ALARMS, EVENTS, CommonPlan
from hyperpod_ray.core.evidence import Account, code, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, unknown, warning
from hyperpod_ray_rules.arns import arn_of

Json = dict[str, Any]
PATH = ("hyperpod", "alarm_topic_arn")
OWN_ACCOUNT = {"aws:sourceaccount", "aws:sourceowner"}
KEY_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey")
REFUSED = {"AuthorizationError", "AuthorizationErrorException", "AccessDenied", "AccessDeniedException"}


@rule("hyperpod", "region", "account", eks=("observability",), needs="account", title="topic of alarms")
def the_other_topic_lets_them_publish(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """A topic of `hyperpod.alarm_topic_arn` takes what CloudWatch, EventBridge and the alert manager publish.

    Nothing fails in a deployment where it does not: the first alarm reaches nobody.
    https://repost.aws/knowledge-center/cloudwatch-receive-sns-for-alarm-trigger
    https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
    """
    arn = plan.settings.hyperpod.alarm_topic_arn
    if arn is None:
        yield skipped("the file names none")
        return
    name = arn_of(arn).resource
    try:
        answer = found(account, "sns", "get_topic_attributes", TopicArn=arn)
    except Exception as failure:
        if code(failure) not in REFUSED:
            raise
        yield unknown(
            *PATH,
            what=f"{name}: these credentials may not read its policy",
            expected="sns:GetTopicAttributes on it",
            fix=f"ask its owner, {arn_of(arn).account}, whether {' and '.join(plan.alarm_publishers)} may publish",
        )
        return
    if answer is None:
        yield error(
            *PATH,
            what=f"{name}: no such topic in {arn_of(arn).account}, {arn_of(arn).region}",
            expected="a topic that exists",
            fix=f"correct the ARN, or aws sns create-topic --name {name}",
        )
        return
    attributes = answer.get("Attributes", {})
    problems = [*_closed(plan, name, attributes.get("Policy", "")), *_undecryptable(plan, account, name, attributes)]
    if str(attributes.get("SubscriptionsConfirmed", "1")) == "0":
        problems.append(
            warning(
                *PATH,
                what=f"{name} has no confirmed subscription: it reaches nobody",
                expected="a subscription",
                fix=f"aws sns subscribe --topic-arn {arn} --protocol email --notification-endpoint name@example.com",
            )
        )
    yield from problems or [fine(*PATH, what=f"{name} takes what {' and '.join(plan.alarm_publishers)} publish")]


def _closed(plan: CommonPlan, name: str, policy: str) -> Iterator[Finding]:
    """Services that the topic's policy does not let in."""
    shut = [service for service in plan.alarm_publishers if not lets_in(policy, service, "sns:Publish", plan)]
    if shut:
        yield error(
            *PATH,
            what=f"the policy of {name} does not let {' and '.join(shut)} publish",
            expected=f"a statement that allows sns:Publish to Service: {', '.join(shut)}",
            fix="add it with aws sns set-topic-attributes --attribute-name Policy, or remove alarm_topic_arn",
        )


def _undecryptable(plan: CommonPlan, account: Account, name: str, attributes: Json) -> Iterator[Finding]:
    """The key of an encrypted topic: its policy names the services that publish, which AWS's own key cannot."""
    key = str(attributes.get("KmsMasterKeyId") or "")
    if not key:
        return
    if key.endswith("alias/aws/sns"):
        yield error(
            *PATH,
            what=f"{name} is encrypted with AWS's own key, which CloudWatch and EventBridge may not use",
            expected="a key of yours",
            fix="aws sns set-topic-attributes --attribute-name KmsMasterKeyId, with a key whose policy names them",
        )
        return
    short = key.rpartition("/")[2]
    try:
        description = found(account, "kms", "describe_key", KeyId=key)
        policy = "" if description is None else account.call(
            "kms", "get_key_policy", KeyId=description["KeyMetadata"].get("Arn", key), PolicyName="default"
        ).get("Policy", "")  # fmt: skip
    except Exception as failure:
        if code(failure) not in REFUSED:
            raise
        yield unknown(
            *PATH,
            what=f"{name} is encrypted with {short}, whose policy these credentials may not read",
            expected="kms:DescribeKey and kms:GetKeyPolicy on it",
            fix=f"ask its owner whether {' and '.join(plan.alarm_publishers)} may use it",
        )
        return
    shut = [
        service for service in plan.alarm_publishers
        if not all(lets_in(policy, service, action, plan) for action in KEY_ACTIONS)
    ]  # fmt: skip
    if shut:
        yield error(
            *PATH,
            what=f"{name} is encrypted with {short}, which {' and '.join(shut)} may not use",
            expected=f"a statement of the key's policy with {' and '.join(KEY_ACTIONS)} for Service: {', '.join(shut)}",
            fix="add it with aws kms put-key-policy, or encrypt the topic with another key",
        )


def lets_in(policy: object, service: str, action: str, plan: CommonPlan) -> bool:
    """Whether a policy lets a service of AWS do something for this environment.

    `*` with the topic's owner as its source, as in a new topic's own policy, lets in CloudWatch and nobody else.
    """
    if policies.denies(policy, action=action, whom=(service,)):
        return False
    return any(
        statement.get("Effect") == "Allow" and policies.covers(statement, action)
        and (service in policies.principals(statement)
             or ("*" in policies.principals(statement) and (service == ALARMS or not statement.get("Condition"))))
        and _for_us(statement.get("Condition") or {}, service, action, plan)
        for statement in policies.statements(policy)
    )  # fmt: skip


def _for_us(conditions: Json, service: str, action: str, plan: CommonPlan) -> bool:
    """Whether the conditions of a statement hold for alarms and rules of this account; one of another sort counts so.

    EventBridge does not say for whom it uses a key.
    """
    for by_key in conditions.values():
        for condition_key, pattern in by_key.items() if isinstance(by_key, dict) else ():
            source, patterns = (
                condition_key.lower(),
                [str(arn) for arn in (pattern if isinstance(pattern, list) else [pattern])],
            )
            if service == EVENTS and action.startswith("kms:") and source.startswith("aws:source"):
                return False
            if source in OWN_ACCOUNT and plan.settings.account not in patterns:
                return False
            if source == "aws:sourcearn" and not any(_may_be_ours(arn, service, plan) for arn in patterns):
                return False
    return True


def _may_be_ours(pattern: str, service: str, plan: CommonPlan) -> bool:
    """Whether a pattern of ARNs may be about an alarm, rule or workspace of this account and Region."""
    segments = pattern.split(":", 5)
    ours = ("arn", "aws*", service.partition(".")[0], plan.settings.region, plan.settings.account)
    return all(
        fnmatch.fnmatchcase(expected, segment) or fnmatch.fnmatchcase(segment, expected)
        for expected, segment in zip(ours, segments, strict=False)
    )
