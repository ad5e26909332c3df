"""An alarm that nobody receives is none: from what AWS says, over filter, alarm and topic, to the topic's key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray.core import load
from tests.stacks.conftest import Assembly
from tests.support.iam import Request, decide, statements_of
from tests.support.log_filter import matches
from tests.support.references import References

CLUSTER = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc"


def references(assembly: Assembly) -> References:
    settings = load(assembly.name).settings
    return References(assembly.templates, account=settings.account, region=settings.region)


def split(key: str) -> tuple[str, str]:
    stack, _, logical_id = key.partition("/")
    return stack, logical_id


def documents(assembly: Assembly, kind: str, member: str, target: str) -> list[Any]:
    """Statements of the resource policies that are about `target`."""
    refs, found = references(assembly), []
    for key, policy in assembly.of_type(kind).items():
        stack, _ = split(key)
        if target in refs.resolve(stack, policy["Properties"][member]):
            found += statements_of(refs.resolve(stack, policy["Properties"]["PolicyDocument"]))
    return found


def key_statements(assembly: Assembly, topic: str) -> list[Any]:
    """The policy of the key that encrypts a topic."""
    refs = references(assembly)
    for name, found in assembly.of_type("AWS::SNS::Topic").items():
        stack, logical_id = split(name)
        if refs.arn(stack, logical_id) != topic:
            continue
        used = refs.resolve(stack, found["Properties"]["KmsMasterKeyId"])
        for other, key in assembly.of_type("AWS::KMS::Key").items():
            if refs.arn(*split(other)) == used or refs.name(*split(other)) == used:
                return statements_of(refs.resolve(split(other)[0], key["Properties"]["KeyPolicy"]))
    raise AssertionError(f"no topic {topic} with a key of its own")


def alarms(assembly: Assembly) -> dict[str, dict[str, Any]]:
    refs = references(assembly)
    return {
        refs.arn(*split(key)): refs.resolve(split(key)[0], alarm["Properties"])
        for key, alarm in assembly.of_type("AWS::CloudWatch::Alarm").items()
    }


@pytest.mark.slow
def test_every_alarm_reaches_its_topic(assembly: Assembly) -> None:
    account = load(assembly.name).settings.account
    found = alarms(assembly)
    assert found
    for arn, alarm in found.items():
        assert alarm["AlarmActions"], arn
        for topic in alarm["AlarmActions"]:
            topic_policy = documents(assembly, "AWS::SNS::TopicPolicy", "Topics", topic)
            source = {"aws:SourceArn": arn, "aws:SourceAccount": account}
            ask: dict[str, Any] = {"service": "cloudwatch.amazonaws.com", "resource": topic}
            tls = {**source, "aws:SecureTransport": "true"}
            assert decide(topic_policy, Request(action="SNS:Publish", context=tls, **ask)) == "allowed", arn
            for action in ("kms:Decrypt", "kms:GenerateDataKey"):
                asked = Request(action=action, service="cloudwatch.amazonaws.com", context=source)
                assert decide(key_statements(assembly, topic), asked) == "allowed", (arn, action)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"aws:SecureTransport": "false"}, "denied"),
        ({"aws:SourceAccount": "999999999999"}, "not allowed"),
        ({"aws:SourceArn": "arn:aws:cloudwatch:us-west-2:999999999999:alarm:x"}, "not allowed"),
    ],
)
def test_nobody_elses_alarm_does(assembly: Assembly, change: dict[str, str], expected: str) -> None:
    account = load(assembly.name).settings.account
    arn, alarm = next(iter(alarms(assembly).items()))
    topic = alarm["AlarmActions"][0]
    context = {"aws:SourceArn": arn, "aws:SourceAccount": account, "aws:SecureTransport": "true", **change}
    asked = Request(action="sns:Publish", service="cloudwatch.amazonaws.com", resource=topic, context=context)
    assert decide(documents(assembly, "AWS::SNS::TopicPolicy", "Topics", topic), asked) == expected


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


# --- what AWS says, and which alarm hears it -------------------------------------------------------------------------


def health(reason: str, status: str = "Unhealthy") -> dict[str, Any]:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html"""
    return {
        "detail-type": "SageMaker HyperPod Cluster Node Health Event",
        "source": "aws.sagemaker",
        "resources": [CLUSTER],
        "detail": {
            "ClusterArn": CLUSTER,
            "InstanceId": "i-12345678abcdefghi",
            "HealthSummary": {"HealthStatus": status, "HealthStatusReason": reason, "RepairAction": "Replace"},
        },
    }


def audit(user: str, verb: str, resource: str, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    """https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/#audit-k8s-io-v1-Event"""
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, "namespace": namespace, "subresource": "status"},
        "requestObject": body,
    }


def waiting(reason: str, kind: str = "containerStatuses") -> dict[str, Any]:
    return {"status": {kind: [{"name": "ray-head", "state": {"waiting": {"reason": reason}}}]}}


KUBELET = "system:node:hyperpod-i-0123"
NODE_CONTROLLER = "system:serviceaccount:kube-system:node-controller"
LINES: list[tuple[dict[str, Any], set[str]]] = [
    (
        health("HyperPod Health Monitoring Agent (HMA) has detected fault type NvidiaErrorTerminate"),
        {"RepeatedGpuFaults", "ManyUnhealthy"},
    ),
    (health("NVRM: Xid 79: GPU has fallen off the bus"), {"RepeatedGpuFaults", "ManyUnhealthy"}),
    (health("GPU_DCGM_HEALTH_CHECK_FAILED"), {"RepeatedGpuFaults", "ManyUnhealthy"}),
    (health("HMA has detected fault type EC2InstanceStatusCheckFailed"), {"ManyUnhealthy"}),
    (health("NvidiaErrorTerminate repaired", status="Healthy"), set()),
    (audit(NODE_CONTROLLER, "update", "nodes", "", {}), {"NodesSilent"}),
    (audit(NODE_CONTROLLER, "patch", "nodes", "", {}), set()),
    (audit(KUBELET, "patch", "nodes", "", {}), set()),
    (audit(KUBELET, "patch", "pods", "ray", waiting("CrashLoopBackOff")), {"CrashLoop"}),
    (
        audit(KUBELET, "patch", "pods", "kube-system", waiting("CrashLoopBackOff", "initContainerStatuses")),
        {"CrashLoop"},
    ),
    (audit(KUBELET, "patch", "pods", "ray", waiting("ContainerCreating")), set()),
    (audit(KUBELET, "patch", "pods", "somebody-elses", waiting("CrashLoopBackOff")), set()),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_each_signal_is_heard_by_its_alarm_alone(
    assemblies: dict[str, Assembly], line: dict[str, Any], expected: set[str]
) -> None:
    prod = assemblies["prod"]
    heard = set()
    for metric in prod.of_type("AWS::Logs::MetricFilter").values():
        if matches(metric["Properties"]["FilterPattern"], json.dumps(line)):
            heard.add(metric["Properties"]["MetricTransformations"][0]["MetricName"])
    assert heard == expected


def test_every_filter_feeds_an_alarm_and_reads_a_group_of_the_environment(assembly: Assembly) -> None:
    refs = references(assembly)
    groups = {refs.name(*split(key)) for key in assembly.of_type("AWS::Logs::LogGroup")}
    watched = {(a.get("Namespace"), a.get("MetricName")) for a in alarms(assembly).values()}
    filters = assembly.of_type("AWS::Logs::MetricFilter")
    assert len(filters) == 7
    for key, found in filters.items():
        properties = refs.resolve(split(key)[0], found["Properties"])
        assert properties["LogGroupName"] in groups, key
        for made in properties["MetricTransformations"]:
            assert (made["MetricNamespace"], made["MetricName"]) in watched, key


def test_the_alarms_that_an_operator_needs_are_there(assemblies: dict[str, Assembly]) -> None:
    found = {alarm["MetricName"]: alarm for alarm in alarms(assemblies["prod"]).values()}
    overdue = found["scheduler_pending_pods_UNSCHEDULABLE"]
    assert overdue["Namespace"] == "AWS/EKS"
    assert overdue["Dimensions"] == [{"Name": "ClusterName", "Value": "ray-prod-eks"}]
    assert overdue["Period"] * overdue["EvaluationPeriods"] == 90 * 60
    assert found["NodesSilent"]["Threshold"] == 3, "a fifth of twelve nodes"
    assert found["RepeatedGpuFaults"]["Period"] == 24 * 3600
    # a day of evaluation is the most that the service takes with periods below an hour, a week above
    assert all(a["Period"] * a["EvaluationPeriods"] <= 24 * 3600 for a in found.values())
    for alarm in found.values():
        assert alarm["TreatMissingData"] == "notBreaching"
