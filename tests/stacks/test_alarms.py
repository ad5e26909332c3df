"""An alarm that nobody receives is none: from what AWS says, over filter, alarm and topic, to the topic's key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray.constructs.alarms import KUBERNETES_SIGNALS
from hyperpod_ray.core import load
from tests.stacks.alarms_helpers import documents, key_statements, references, split
from tests.stacks.assembled import Assembly
from tests.support.iam import Request, decide
from tests.support.log_filter import matches

CLUSTER = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc"


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
        for transformation in properties["MetricTransformations"]:
            assert (transformation["MetricNamespace"], transformation["MetricName"]) in watched, key


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


@pytest.mark.parametrize("spaces", [1, 5, 20, 60])
def test_a_pattern_is_no_longer_than_the_service_takes(spaces: int) -> None:
    """It names each namespace while there is room for all, and then none: a crash loop is missed in none of them.

    https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutMetricFilter.html (filterPattern)
    """
    namespaces = [f"hyperpod-ns-team-{number:02}" for number in range(spaces)]
    (crashes,) = (signal for signal in KUBERNETES_SIGNALS if signal.name == "CrashLoop")
    pattern = crashes.pattern(namespaces)
    assert len(pattern) <= 1024
    named = [name for name in namespaces if f'$.objectRef.namespace = "{name}"' in pattern]
    assert named in ([], namespaces)
    room = 1024 - len(crashes.pattern([])) >= sum(len(f' || $.objectRef.namespace = "{name}"') for name in namespaces)
    assert bool(named) is room
