"""What a client may write into a status, by TestValidateJobUpdateStatus, TestValidateDeploymentStatus and their like."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import statuses

Json = dict[str, Any]
START, END = "2026-11-22T10:00:00Z", "2026-11-22T11:00:00Z"


def said(kind: str, reported: Json, before: Json | None = None, spec: Json | None = None) -> list[str]:
    common: Json = {"kind": kind, "metadata": {"name": "a"}, "spec": spec or {}}
    causes = statuses.status({**common, "status": reported}, {**common, "status": before or {}})
    return [cause.line() for cause in causes]


def holds(*names: str) -> list[Json]:
    return [{"type": name, "status": "True", "reason": "Said"} for name in names]


@pytest.mark.parametrize(
    ("kind", "reported", "words"),
    [
        ("Deployment", {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 2, "readyReplicas": 3}, ""),
        ("Deployment", {"replicas": -1}, "status.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("Deployment", {"replicas": 1, "readyReplicas": 2}, "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"),
        ("Deployment", {"replicas": 3, "readyReplicas": 1, "availableReplicas": 2}, "cannot be greater than readyReplicas"),
        ("StatefulSet", {"replicas": 1, "currentReplicas": 2}, "status.currentReplicas: Invalid value"), ("DaemonSet", {"numberReady": -1}, "status.numberReady"),
        ("HorizontalPodAutoscaler", {"currentReplicas": -1}, "status.currentReplicas"),
        ("PodDisruptionBudget", {"conditions": [{"type": "DisruptionAllowed", "status": "Maybe", "reason": "Said"}]}, "conditions[0].status: Unsupported value"),
        ("PodDisruptionBudget", {"conditions": [{"type": "DisruptionAllowed", "status": "True"}]}, "conditions[0].reason: Required value"),
        ("PodDisruptionBudget", {"conditions": [*holds("A"), *holds("A")]}, "conditions[1].type: Duplicate value"),
        ("PodDisruptionBudget", {"conditions": [{"type": "A", "status": "True", "reason": "two words"}]}, "must start with alphabetic character"),
        ("Ingress", {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}, ""), ("Ingress", {"loadBalancer": {"ingress": [{"ip": "ten"}]}}, "ingress[0].ip: Invalid value"),
        ("Ingress", {"loadBalancer": {"ingress": [{"hostname": "10.0.0.1"}]}}, "must be a DNS name, not an IP address"),
        ("ResourceQuota", {"used": {"pods": "2"}}, ""), ("ResourceQuota", {"used": {"pods": "-2"}}, "status.used[pods]"),
        ("PersistentVolumeClaim", {"capacity": {"storage": "-1Gi"}}, "status.capacity[storage]"),
        ("Namespace", {"phase": "Active"}, ""), ("Namespace", {"phase": "Terminating"}, "may only be 'Active' if `deletionTimestamp` is empty"),
    ],
)  # fmt: skip
def test_counts_and_conditions(kind: str, reported: Json, words: str) -> None:
    lines = said(kind, reported)
    assert (not lines) if not words else any(words in line for line in lines), lines


def test_collisions_are_counted_upwards() -> None:
    assert said("Deployment", {"collisionCount": 2}, {"collisionCount": 1}) == []
    (line,) = said("Deployment", {"collisionCount": 1}, {"collisionCount": 2})
    assert "cannot be decremented" in line


COMPLETE: Json = {
    "conditions": holds("SuccessCriteriaMet", "Complete"), "startTime": START, "completionTime": END, "succeeded": 1,
}  # fmt: skip
FAILED: Json = {"conditions": holds("FailureTarget", "Failed"), "startTime": START, "failed": 1}


@pytest.mark.parametrize(
    ("reported", "before", "words"),
    [
        (COMPLETE, {}, ""), (FAILED, {}, ""), ({**COMPLETE, "conditions": holds("Complete")}, {}, "without the SuccessCriteriaMet=true condition"),
        ({**FAILED, "conditions": holds("Failed")}, {}, "without the FailureTarget=true condition"),
        ({**COMPLETE, "completionTime": None}, {}, "completionTime is required for Complete jobs"), ({**FAILED, "startTime": None}, {}, "startTime is required for finished job"),
        ({**FAILED, "completionTime": END}, {}, "cannot set completionTime when there is no Complete=True condition"),
        ({**COMPLETE, "active": 1}, {}, "active>0 is invalid for finished job"), ({**FAILED, "terminating": 1}, {}, "terminating>0 is invalid for finished job"),
        ({**COMPLETE, "conditions": holds("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed")}, {}, "cannot set Complete=True and Failed=true conditions"),
        ({"startTime": START}, COMPLETE, "cannot disable the Complete=True condition"), ({"failed": 1, "startTime": START}, {"failed": 2, "startTime": START}, "cannot decrease the failed counter"),
        ({"succeeded": 1}, {"succeeded": 2}, "cannot decrease the succeeded counter"), ({"startTime": END}, {"startTime": START}, "field is immutable for unsuspended job once set"),
        ({"active": 1, "ready": 2}, {}, "cannot set more ready pods than active"), ({**COMPLETE, "completionTime": START}, COMPLETE, "status.completionTime: Invalid value"),
        ({**COMPLETE, "uncountedTerminatedPods": {"succeeded": ["a"]}}, {}, "must be empty for finished job"),
        ({"completedIndexes": "0-1"}, {}, "when non-indexed completion mode"), ({"failedIndexes": "0"}, {}, "when backoffLimitPerIndex is null"), ({"active": -1}, {}, "status.active"),
    ],
)  # fmt: skip
def test_the_end_of_a_job_has_its_reason_and_stays(reported: Json, before: Json, words: str) -> None:
    lines = said("Job", reported, before, {"template": {}})
    assert (not lines) if not words else any(words in line for line in lines), lines


def ended(code: int) -> Json:
    return {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]}


RUNS: Json = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}


@pytest.mark.parametrize(
    ("policy", "code", "good"),
    [("Always", 0, True), ("OnFailure", 1, True), ("OnFailure", 0, False), ("Never", 0, False), ("Never", 1, False)],
)
def test_a_container_that_nothing_restarts_stays_ended(policy: str, code: int, good: bool) -> None:
    """https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy"""
    lines = said("Pod", RUNS, ended(code), {"restartPolicy": policy})
    assert (not lines) == good, lines


@pytest.mark.parametrize(
    ("reported", "before", "words"),
    [
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, {}, ""), ({"podIPs": [{"ip": "ten"}]}, {}, "status.podIPs[0]: Invalid value"),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}, {}, "status.podIPs[1]: Duplicate value"), ({"hostIPs": [{"ip": f"10.0.0.{n}"} for n in range(3)]}, {}, "no more than one IP for each IP family"),
        ({"qosClass": "Burstable"}, {"qosClass": "Guaranteed"}, "status.qosClass: Invalid value: \"Burstable\": field is immutable"), ({"qosClass": "Guaranteed"}, {"qosClass": "Guaranteed"}, ""),
        ({"nominatedNodeName": "i-1"}, {}, "may not be set on pods that are already bound to a node"), ({"conditions": [{"type": "a/b/c"}]}, {}, "status.conditions[0]"),
        ({"conditions": [{"type": "PodScheduled"}]}, {}, ""), ({"observedGeneration": -1}, {}, "status.observedGeneration"),
    ],
)  # fmt: skip
def test_what_a_kubelet_reports(reported: Json, before: Json, words: str) -> None:
    lines = said("Pod", reported, before, {"restartPolicy": "Always", "nodeName": "i-1"})
    assert (not lines) if not words else any(words in line for line in lines), lines
