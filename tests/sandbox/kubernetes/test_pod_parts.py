"""Rare parts of pods, by TestValidateDNSPolicy, TestValidatePodDNSConfig, TestHostnameOverride and their neighbours."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import pod_parts
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]


def agrees(causes: Causes, words: str) -> bool:
    said = [cause.line() for cause in causes]
    return (not said) if not words else any(words in line for line in said)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"dnsPolicy": "ClusterFirst"}, ""), ({"dnsPolicy": "None"}, "must provide `dnsConfig` when `dnsPolicy` is None"),
        ({"dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}}, "must provide at least one DNS nameserver when `dnsPolicy` is None"),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.1", "2001:4860:4860::8888"]}}, ""),
        ({"dnsConfig": {"nameservers": [f"10.0.0.{n}" for n in range(4)]}}, "must not have more than 3 nameservers"),
        ({"dnsConfig": {"nameservers": ["invalid"]}}, "spec.dnsConfig.nameservers[0]: Invalid value"),
        ({"dnsConfig": {"searches": ["a"] * 33}}, "must not have more than 32 search paths"), ({"dnsConfig": {"searches": ["_tcp.a", ".", "a."]}}, ""),
        ({"dnsConfig": {"searches": ["a" * 250] * 9}}, "must not have more than 2048 characters (including spaces)"),
        ({"dnsConfig": {"searches": ["A?"]}}, "spec.dnsConfig.searches[0]: Invalid value"),
        ({"dnsConfig": {"options": [{"value": "5"}]}}, "spec.dnsConfig.options[0]: Required value: must not be empty"),
    ],
)  # fmt: skip
def test_where_names_are_resolved(spec: Json, words: str) -> None:
    causes = Causes()
    pod_parts.resolver(causes, "spec", spec)
    assert agrees(causes, words), causes


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ""), ({"hostnameOverride": "a.example"}, ""), ({"hostnameOverride": "a" * 65}, "may not be more than 64"),
        ({"hostnameOverride": "A_b"}, "spec.hostnameOverride: Invalid value"),
        ({"hostnameOverride": "a", "setHostnameAsFQDN": True}, "cannot be set when `setHostnameAsFQDN` is true"),
        ({"hostnameOverride": "a", "hostNetwork": True}, "cannot be set when `hostNetwork` is true"),
    ],
)  # fmt: skip
def test_a_name_in_place_of_the_pods(spec: Json, words: str) -> None:
    causes = Causes()
    pod_parts.host_name(causes, "spec", spec)
    assert agrees(causes, words), causes


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ([{"name": "gpu", "resourceClaimName": "a"}], ""), ([{"resourceClaimName": "a"}], "resourceClaims[0].name: Required value"),
        ([{"name": "gpu"}], "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        ([{"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}], "at most one of"),
        ([{"name": "gpu", "resourceClaimName": "a"}, {"name": "gpu", "resourceClaimName": "b"}], 'resourceClaims[1].name: Duplicate value: "gpu"'),
        ([{"name": "gpu", "resourceClaimName": "A_"}], "resourceClaims[0].resourceClaimName: Invalid value"),
    ],
)  # fmt: skip
def test_claims_of_devices(declared: list[Json], words: str) -> None:
    causes = Causes()
    assert pod_parts.claims(causes, "spec", {"resourceClaims": declared}) == [
        claim.get("name", "") for claim in declared
    ]
    assert agrees(causes, words), causes


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ([{"name": "gpu"}], ""), ([{"name": "other"}], 'resources.claims[0].name: Not found: "other"'), ([{}], "claims[0].name: Required value"),
        ([{"name": "gpu"}, {"name": "gpu"}], "claims[1]: Duplicate value"), ([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}], ""),
        ([{"name": "gpu"}, {"name": "gpu", "request": "a"}], "claims[1]: Duplicate value"),
    ],
)  # fmt: skip
def test_a_container_uses_claims_of_its_pod(used: list[Json], words: str) -> None:
    causes = Causes()
    pod_parts.used_claims(causes, "resources", {"claims": used}, ["gpu"])
    assert agrees(causes, words), causes


@pytest.mark.parametrize(
    ("policies", "restart", "words"),
    [
        ([{"resourceName": "cpu", "restartPolicy": "NotRequired"}], "Always", ""), ([{"resourceName": "gpu", "restartPolicy": "NotRequired"}], "Always", 'supported values: "cpu", "memory"'),
        ([{"resourceName": "cpu"}], "Always", "Required value"), ([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}], "Never", "must be 'NotRequired' when pod `restartPolicy` is 'Never'"),
        ([{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2, "Always", "Duplicate value"),
    ],
)  # fmt: skip
def test_what_a_change_of_resources_does(policies: list[Json], restart: str, words: str) -> None:
    causes = Causes()
    pod_parts.resizing(causes, "resizePolicy", policies, restart)
    assert agrees(causes, words), causes


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({}, ""), ({"restartPolicy": "OnFailure"}, ""), ({"restartPolicy": "Sometimes"}, "restartPolicy: Unsupported value"),
        ({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}, "must specify restartPolicy when restart rules are used"),
        ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}, ""),
        ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]}, "exitCodes: Required value: must be specified"),
        ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "Like"}}]}, 'supported values: "In", "NotIn"'),
        ({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": list(range(256))}}]}, "Too many"),
    ],
)  # fmt: skip
def test_when_a_container_starts_again(container: Json, words: str) -> None:
    causes = Causes()
    pod_parts.restarts(causes, "c", container)
    assert agrees(causes, words), causes


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"os": {"name": "linux"}, "securityContext": {"runAsUser": 1}}, ""),
        ({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}}, "windows options cannot be set for a linux pod"),
        ({"os": {"name": "windows"}, "hostPID": True}, "spec.hostPID: Forbidden: cannot be set for a windows pod"),
        ({"os": {"name": "windows"}, "containers": [{"securityContext": {"privileged": True}}]}, "spec.containers[0].securityContext.privileged: Forbidden"),
        ({"securityContext": {"windowsOptions": {}, "runAsUser": 1}}, ""),
    ],
)  # fmt: skip
def test_an_operating_system_knows_its_own_fields_alone(spec: Json, words: str) -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodSpec, field `os`."""
    causes = Causes()
    pod_parts.operating_system(causes, "spec", spec)
    assert agrees(causes, words), causes


@pytest.mark.parametrize(
    ("user", "good"),
    [("ContainerAdministrator", True), ("domain\\user", True), ("", False), ("a\\b\\c", False),
     ("us:er", False), ("...", False), ("a" * 105, False), ("Container User", True), ("MY DOM\\user", True), ("c.example.com\\user", True),
     (".dom\\user", False), ("a long domain of words\\user", False), ("dom\\", False), ("us\x7fer", False), ("a" * 256 + "\\u", False)],
)  # fmt: skip
def test_users_of_windows(user: str, good: bool) -> None:
    """By TestValidateWindowsSecurityContextOptions, and a 1.36.2 API server's answers."""
    causes = Causes()
    pod_parts.windows(causes, "w", {"runAsUserName": user})
    assert (not causes) == good, causes


def test_containers_of_a_windows_host_are_all_or_none_and_on_its_network() -> None:
    def said(spec: Json) -> str:
        causes = Causes()
        pod_parts.host_process(causes, "spec", spec)
        return " ".join(cause.line() for cause in causes)

    host, plain = ({"securityContext": {"windowsOptions": {"hostProcess": value}}} for value in (True, False))
    assert said({"containers": [host], "hostNetwork": True}) == ""
    assert "all containers must be HostProcess containers" in said({"containers": [host, plain], "hostNetwork": True})
    assert "hostNetwork must be true" in said({"containers": [host]})
    assert "must be identical" in said({**host, "containers": [plain], "hostNetwork": True})


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([{"name": "block", "devicePath": "/dev/xvda"}], ""), ([{"name": "nowhere", "devicePath": "/dev/a"}], 'Not found: "nowhere"'),
        ([{"name": "empty", "devicePath": "/dev/a"}], "can only use volume source type of PersistentVolumeClaim or Ephemeral"),
        ([{"name": "block"}], "devicePath: Required value"), ([{"name": "block", "devicePath": "/dev/../a"}], "can not contain backsteps"),
        ([{"name": "mounted", "devicePath": "/dev/a"}], "must not already exist in volumeMounts"),
        ([{"name": "block", "devicePath": "/a"}, {"name": "block", "devicePath": "/b"}], "volumeDevices[1].name: Invalid value: \"block\": must be unique"),
    ],
)  # fmt: skip
def test_block_devices(devices: list[Json], words: str) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "a"}}
    volumes = [{"name": "block", **claim}, {"name": "mounted", **claim}, {"name": "empty", "emptyDir": {}}]
    causes = Causes()
    container = {"volumeDevices": devices, "volumeMounts": [{"name": "mounted", "mountPath": "/m"}]}
    pod_parts.devices(causes, "volumeDevices", container, volumes)
    assert agrees(causes, words), causes
