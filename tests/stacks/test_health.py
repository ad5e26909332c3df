from __future__ import annotations

import json
from typing import Any

from hyperpod_ray.core import load
from tests.stacks.alarms_helpers import documents, key_statements, references, split
from tests.stacks.assembled import Assembly
from tests.support.iam import Request, decide, statements_of


def rules(assembly: Assembly) -> dict[str, tuple[str, dict[str, Any]]]:
    refs = references(assembly)
    return {
        split(key)[1]: (refs.arn(*split(key)), refs.resolve(split(key)[0], rule["Properties"]))
        for key, rule in assembly.of_type("AWS::Events::Rule").items()
    }


def test_every_rule_may_deliver_to_its_targets(assembly: Assembly) -> None:
    account = load(assembly.name).settings.account
    groups = {
        references(assembly).arn(*split(key)).removesuffix(":*") for key in assembly.of_type("AWS::Logs::LogGroup")
    }
    kinds = set()
    for arn, rule in rules(assembly).values():
        assert rule["Targets"]
        source = {"aws:SourceArn": arn, "aws:SourceAccount": account, "aws:SecureTransport": "true"}
        for target in rule["Targets"]:
            kind = target["Arn"].split(":")[2]
            kinds.add(kind)
            ask: dict[str, Any] = {"service": "events.amazonaws.com", "context": source}
            if kind == "sns":
                policy = documents(assembly, "AWS::SNS::TopicPolicy", "Topics", target["Arn"])
                assert decide(policy, Request(action="sns:Publish", resource=target["Arn"], **ask)) == "allowed"
                # EventBridge gives no source when it uses the key
                plain = Request(action="kms:GenerateDataKey", service="events.amazonaws.com")
                assert decide(key_statements(assembly, target["Arn"]), plain) == "allowed"
                strange = {**source, "aws:SourceArn": arn.replace(account, "999999999999")}
                other = Request(
                    action="sns:Publish", resource=target["Arn"], service="events.amazonaws.com", context=strange
                )
                assert decide(policy, other) == "not allowed"
            else:
                assert target["Arn"] in groups
                policy = archive_policy(assembly)
                stream = f"{target['Arn']}:log-stream:x"
                unsourced = Request(action="logs:CreateLogStream", resource=stream, service="events.amazonaws.com")
                assert decide(policy, unsourced) == "allowed"
                assert decide(policy, Request(action="logs:PutLogEvents", resource=stream, **ask)) == "allowed"
                assert decide(policy, Request(action="logs:CreateLogGroup", resource="*", **ask)) == "not allowed"
    assert kinds == {"sns", "logs"}


def archive_policy(assembly: Assembly) -> list[Any]:
    refs, found = references(assembly), []
    for key, policy in assembly.of_type("AWS::Logs::ResourcePolicy").items():
        found += statements_of(json.loads(refs.resolve(split(key)[0], policy["Properties"]["PolicyDocument"])))
    return found


def test_the_archive_takes_every_kind_of_event_of_this_cluster_and_keeps_it(assembly: Assembly) -> None:
    """The service itself keeps the newest 500."""
    pattern = next(
        rule["EventPattern"] for _, rule in rules(assembly).values() if ":logs:" in rule["Targets"][0]["Arn"]
    )
    assert set(pattern["detail-type"]) == {
        "SageMaker HyperPod Cluster Node Health Event",
        "SageMaker HyperPod Cluster State Change",
        "SageMaker HyperPod Cluster Event",
    }
    assert len(pattern["resources"]) == 1
    of_clusters = [rule for _, rule in rules(assembly).values() if rule["EventPattern"]["source"] == ["aws.sagemaker"]]
    assert len(of_clusters) == 5
    for rule in of_clusters:
        assert rule["EventPattern"]["resources"] == pattern["resources"], "events of every cluster of the account"
    archive = next(r for r in rules(assembly).values() if ":logs:" in r[1]["Targets"][0]["Arn"])[1]["Targets"][0]["Arn"]
    for key, group in assembly.of_type("AWS::Logs::LogGroup").items():
        if references(assembly).arn(*split(key)) == f"{archive}:*":
            assert group["Properties"]["RetentionInDays"] >= 365
            assert ("Retain" in group["DeletionPolicy"]) == load(assembly.name).settings.protected
