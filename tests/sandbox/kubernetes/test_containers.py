"""Containers, by TestValidateContainers, TestValidateEnv, TestValidatePorts and their neighbours of core/validation."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import containers
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

GOOD: dict[str, Any] = {"name": "c", "image": "i:1"}


def judged(*, init: bool = False, **fields: Any) -> list[str]:
    """What is wrong with a container of a pod with the volume `data`, whose grace period is 30 s."""
    causes = Causes()
    containers.container(causes, "spec.containers[0]", {**GOOD, **fields}, {"data"}, init=init, grace_seconds=30)
    return [cause.line() for cause in causes]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""), ({"name": ""}, "spec.containers[0].name: Required value"), ({"name": "Not_a_label"}, "spec.containers[0].name: Invalid value"),
        ({"image": ""}, "spec.containers[0].image: Required value"), ({"image": " i:1"}, "must not have leading or trailing whitespace"),
        ({"imagePullPolicy": "Sometimes"}, 'supported values: "Always", "IfNotPresent", "Never"'),
        ({"terminationMessagePolicy": "Shout"}, "terminationMessagePolicy: Unsupported value"),
        ({"ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}, {"containerPort": 81, "name": "http"}]}, "ports[1].name: Duplicate value"),
        ({"ports": [{"name": "http"}]}, "ports[0].containerPort: Required value"), ({"ports": [{"containerPort": 65536}]}, "must be between 1 and 65535, inclusive"),
        ({"ports": [{"containerPort": 80, "protocol": "ICMP"}]}, 'supported values: "SCTP", "TCP", "UDP"'),
        ({"ports": [{"containerPort": 80, "name": "UPPER"}]}, "ports[0].name: Invalid value"),
        ({"env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, ""),
        ({"env": [{"value": "1"}]}, "env[0].name: Required value"), ({"env": [{"name": "a=b"}]}, "env[0].name: Invalid value"),
        ({"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, "may not be specified when `value` is not empty"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "must specify one of"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}}]}, "may not have more than one field specified at a time"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.whatever"}}}]}, "valueFrom.fieldRef.fieldPath: Unsupported value"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}}]}, ""),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}, "valueFrom.secretKeyRef.key: Required value"),
        ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"key": "k"}}}]}, "valueFrom.configMapKeyRef.name: Required value"),
        ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpus"}}}]}, "resourceFieldRef.resource: Unsupported value"),
        ({"envFrom": [{}]}, "must specify one of: `configMapRef` or `secretRef`"), ({"envFrom": [{"prefix": "A_", "secretRef": {"name": "s"}}]}, ""),
        ({"envFrom": [{"secretRef": {}}]}, "envFrom.secretRef.name: Required value"),
        ({"volumeMounts": [{"name": "data", "mountPath": "/data"}]}, ""), ({"volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}, 'volumeMounts[0].name: Not found: "nowhere"'),
        ({"volumeMounts": [{"name": "data"}]}, "volumeMounts[0].mountPath: Required value"),
        ({"volumeMounts": [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}]}, "volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique"),
        ({"volumeMounts": [{"name": "data", "mountPath": "/a", "subPath": "../b"}]}, "must not contain '..'"),
        ({"volumeMounts": [{"name": "data", "mountPath": "/a", "subPath": "a", "subPathExpr": "$(A)"}]}, "subPathExpr and subPath are mutually exclusive"),
        ({"volumeMounts": [{"name": "data", "mountPath": "/a", "mountPropagation": "Bidirectional"}]}, "available only to privileged containers"),
        ({"volumeMounts": [{"name": "data", "mountPath": "/a", "mountPropagation": "Bidirectional"}], "securityContext": {"privileged": True}}, ""),
        ({"volumeMounts": [{"name": "data", "mountPath": "/a", "recursiveReadOnly": "Enabled"}]}, "may only be specified when readOnly is true"),
        ({"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}}, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"),
        ({"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}}, "`capabilities.Add` CAP_SYS_ADMIN"),
        ({"securityContext": {"runAsUser": -1}}, "must be between 0 and 2147483647, inclusive"), ({"securityContext": {"procMount": "Some"}}, "procMount: Unsupported value"),
        ({"securityContext": {"seccompProfile": {"type": "Localhost"}}}, "must be set when seccomp type is Localhost"),
        ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a.json"}}}, "can only be set when seccomp type is Localhost"),
    ],
)  # fmt: skip
def test_a_container(fields: dict[str, Any], words: str) -> None:
    said = judged(**fields)
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("probe", "fields", "words"),
    [
        ("livenessProbe", {"exec": {"command": ["true"]}}, ""), ("livenessProbe", {}, "must specify a handler type"),
        ("livenessProbe", {"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}, "may not specify more than 1 handler type"),
        ("livenessProbe", {"exec": {}}, "exec.command: Required value"), ("readinessProbe", {"httpGet": {"port": 0}}, "must be between 1 and 65535"),
        ("readinessProbe", {"httpGet": {"port": 80, "scheme": "FTP"}}, 'supported values: "HTTP", "HTTPS"'),
        ("readinessProbe", {"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": "1"}]}}, "a valid HTTP header must consist of"),
        ("livenessProbe", {"tcpSocket": {"port": 80}, "successThreshold": 2}, "successThreshold: Invalid value: 2: must be 1"), ("readinessProbe", {"tcpSocket": {"port": 80}, "successThreshold": 2}, ""),
        ("livenessProbe", {"tcpSocket": {"port": 80}, "periodSeconds": -1}, "must be greater than or equal to 0"),
        ("readinessProbe", {"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 5}, "must not be set for readinessProbes"),
        ("startupProbe", {"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 0}, "must be greater than 0"),
    ],
)  # fmt: skip
def test_a_probe(probe: str, fields: dict[str, Any], words: str) -> None:
    probes: dict[str, Any] = {probe: fields}
    said = judged(**probes)
    assert (not said) if not words else any(words in line for line in said), said


def test_only_a_sidecar_among_init_containers_is_probed() -> None:
    """https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/"""
    probe: Any = {"tcpSocket": {"port": 80}}
    (said,) = judged(init=True, livenessProbe=probe)
    assert "may not be set for init containers without restartPolicy=Always" in said
    assert judged(init=True, restartPolicy="Always", livenessProbe=probe) == []


def test_a_hook_sleeps_no_longer_than_the_pod_may_take_to_end() -> None:
    assert judged(lifecycle={"preStop": {"sleep": {"seconds": 30}}}) == []
    (said,) = judged(lifecycle={"preStop": {"sleep": {"seconds": 31}}})
    assert "must be non-negative and less than terminationGracePeriodSeconds (30)" in said
