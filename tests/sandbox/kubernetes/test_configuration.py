"""ConfigMaps, Secrets and Namespaces, by the cases of pkg/apis/core/validation/validation_test.go."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import base64
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import configuration

MEBIBYTE = 1024 * 1024


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(type_name: str, data: dict[str, str], **annotations: str) -> list[str]:
    body = {"metadata": {"annotations": annotations}, "type": type_name, "data": data}
    return [cause.line() for cause in configuration.secret(body)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"data": {"a.b-c_1": "x"}}, ""), ({"data": {"..": "x"}}, "data[..]: Invalid value"),
        ({"data": {"a/b": "x"}}, "data[a/b]: Invalid value"),
        ({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}, "duplicate of key present in binaryData"),
        ({"data": {"a": "x" * MEBIBYTE}}, ""), ({"data": {"a": "x" * MEBIBYTE, "b": "y"}}, "may not be more than 1048576 bytes"),
        ({"data": {"a": "é" * (MEBIBYTE // 2 + 1)}}, "Too long"),
    ],
)  # fmt: skip
def test_a_config_map(body: dict[str, Any], words: str) -> None:
    said = [cause.line() for cause in configuration.config_map(body)]
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("type_name", "data", "words"),
    [
        ("Opaque", {}, ""), ("kubernetes.io/tls", {"tls.crt": b64("x")}, "data[tls.key]: Required value"),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": b64("{}")}, ""),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": b64("{")}, "<secret contents redacted>"),
        ("kubernetes.io/basic-auth", {}, "data[username]: Required value"), ("kubernetes.io/basic-auth", {"password": b64("x")}, ""),
        ("kubernetes.io/ssh-auth", {}, "data[ssh-privatekey]: Required value"),
        ("Opaque", {"a": b64("x" * (MEBIBYTE + 1))}, "Too long"),
        ("kubernetes.io/service-account-token", {}, "metadata.annotations[kubernetes.io/service-account.name]: Required"),
    ],
)  # fmt: skip
def test_a_secret(type_name: str, data: dict[str, str], words: str) -> None:
    said = secret(type_name, data)
    assert (not said) if not words else any(words in line for line in said), said
    assert not any("{" in line for line in said), "no content of a secret is repeated"


@pytest.mark.parametrize(
    ("label", "value", "good"),
    [
        ("enforce", "restricted", True), ("enforce", "strict", False), ("enforce-version", "latest", True),
        ("warn-version", "v1.30", True), ("warn-version", "1.30", False), ("audit-version", "v1.03", False),
        ("forbid", "anything", True),
    ],
)  # fmt: skip
def test_pod_security_labels_of_a_namespace(label: str, value: str, good: bool) -> None:
    body = {"metadata": {"labels": {f"pod-security.kubernetes.io/{label}": value}}}
    assert (configuration.namespace(body) == []) is good


def test_finalizers_of_a_namespace_are_names() -> None:
    assert configuration.namespace({"metadata": {}, "spec": {"finalizers": ["kubernetes"]}}) == []
    (cause,) = configuration.namespace({"metadata": {}, "spec": {"finalizers": ["mine"]}})
    assert cause.field == "spec.finalizers[0]"
