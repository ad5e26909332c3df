"""Bodies of typed Go clients, encoded by hand as https://protobuf.dev/programming-guides/encoding/ says."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

import base64
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.protobuf import decode
from hyperpod_ray_sandbox.kubernetes.status import ApiError


def varint(number: int) -> bytes:
    number %= 1 << 64
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(kind: str, message: bytes, *, version: str = "v1") -> bytes:
    return b"k8s\0" + field(1, field(1, version) + field(2, kind)) + field(2, message)


META = (
    field(1, "run")
    + field(3, "ray")
    + field(7, 3)
    + field(8, field(1, 1_700_000_000))
    + field(11, field(1, "a") + field(2, "b"))
)


def test_a_secret_of_helm() -> None:
    """Field numbers: https://github.com/kubernetes/api/blob/master/core/v1/generated.proto."""
    message = field(1, META) + field(2, field(1, "release") + field(2, b"\0\xff")) + field(3, "helm.sh/release.v1")
    assert decode(body("Secret", message)) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "run", "namespace": "ray", "generation": 3, "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {"a": "b"},
        },
        "data": {"release": base64.b64encode(b"\0\xff").decode()},
        "type": "helm.sh/release.v1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "version", "message", "content"),
    [
        ("ConfigMap", "v1", field(2, field(1, "k") + field(2, "v")) + field(4, 1), {"data": {"k": "v"}, "immutable": True}),
        ("ConfigMap", "v1", field(2, field(1, "k")), {"data": {"k": ""}}),
        ("Namespace", "v1", field(2, field(1, "kubernetes") + field(1, "b")), {"spec": {"finalizers": ["kubernetes", "b"]}}),
        ("Namespace", "v1", field(1, field(2, "")), {"metadata": {}}),  # Go writes fields that are not set
        ("DeleteOptions", "v1", field(1, 0) + field(4, "Foreground"), {"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"}),
        ("DeleteOptions", "policy/v1", field(1, -1), {"gracePeriodSeconds": -1}),
        (
            "SelfSubjectAccessReview", "authorization.k8s.io/v1", field(2, field(1, field(2, "get") + field(5, "pods"))),
            {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
        ),
        ("ConfigMap", "v1", field(99, "later") + field(98, 7), {}),  # a newer client's
    ],
)  # fmt: skip
def test_a_kind_that_is_read(kind: str, version: str, message: bytes, content: dict[str, Any]) -> None:
    assert decode(body(kind, message, version=version)) == {"apiVersion": version, "kind": kind, **content}


WHOLE = body("ConfigMap", field(1, META))


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"{}", 400, "expected prefix"),
        (b"", 400, "expected prefix"),
        (WHOLE[:-1], 400, "cut or broken"),
        (b"k8s\0\x80", 400, "cut or broken"),
        (body("ConfigMap", field(1, field(1, b"\xff"))), 400, "cut or broken"),
        (b"k8s\0" + varint(1 << 3 | 5), 400, "wire type 5"),
        (body("Pod", b""), 415, "no protobuf of v1 Pod: send JSON"),
        (b"k8s\0", 415, "send JSON"),
    ],
)
def test_what_is_not_read_is_refused(data: bytes, code: int, words: str) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        decode(data)
    assert refused.value.code == code
