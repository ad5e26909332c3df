"""Field selectors, as https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/ has them."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.resources import builtin_resources
from hyperpod_ray_sandbox.kubernetes.serving.fields import field_selector, single_name
from hyperpod_ray_sandbox.kubernetes.status import ApiError

POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "ray"},
    "spec": {"nodeName": "i-1"},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
}


def resource(kind: str) -> Any:
    return next(row for row in builtin_resources() if row.kind == kind)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", True), ("status.phase=Running", True), ("status.phase!=Running", False), ("status.phase==Running", True),
        ("metadata.name=a,spec.nodeName=i-1", True), ("metadata.name=a,spec.nodeName=i-2", False),
        ("spec.hostNetwork=false", True), ("status.podIPs=10.0.0.1\\,fd00::1", True), ("spec.nodeName=", False),
    ],
)  # fmt: skip
def test_pods_are_selected_by(text: str, taken: bool) -> None:
    assert field_selector(resource("Pod"), text)(POD) is taken


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("Pod", "spec.image=a", "field label not supported: spec.image"), ("ConfigMap", "data=a", "is not a known field selector"),
        ("Pod", "status.phase", "can't understand 'status.phase'"), ("Pod", "metadata.name=a\\b", "invalid value"),
    ],
)  # fmt: skip
def test_other_fields_are_a_bad_request(kind: str, text: str, words: str) -> None:
    with pytest.raises(ApiError) as refusal:
        field_selector(resource(kind), text)
    assert (refusal.value.code, words in refusal.value.message) == (400, True), refusal.value.message


def test_the_one_name_that_a_selector_allows() -> None:
    assert single_name("metadata.name=a") == "a"
    assert single_name("metadata.name!=a") == single_name("status.phase=Running") == ""
    assert single_name("metadata.name=a,metadata.name=b") == ""
