"""Objects of custom kinds that hold whole objects, and numbers that a scale reads, as a 1.36.2 API server judges."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes import schema
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError

EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
KIND = Resource(
    "check.example.com", "v1", "Holder", "holders", namespaced=True, crd="holders.check.example.com",
    schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "inner": EMBEDDED, "size": {"type": "integer"}}}}},
    scale={"specReplicasPath": ".spec.size"},
)  # fmt: skip


def judged(*, strict: bool = False, **spec: Any) -> Any:
    obj = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": {"name": "a"}, "spec": spec}
    return schema.check(KIND, obj, strict=strict, name="a")[0]["spec"]


def inner(**meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def test_metadata_inside_loses_what_metadata_has_not() -> None:
    assert judged(inner=inner(name="b", odd=1))["inner"]["metadata"] == {"name": "b"}
    assert judged(inner=inner(name="b", creationTimestamp=None), strict=True)["inner"]["metadata"] == {"name": "b"}


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({"inner": inner(odd=1)}, 400, "spec.inner.metadata.odd"),
        ({"inner": inner(labels={"a": 1})}, 400, "cannot unmarshal number"),
        ({"inner": {**inner(), "metadata": []}}, 400, "cannot unmarshal array"),
        ({"inner": inner(labels={"a b": "1"})}, 422, "spec.inner.metadata.labels"),
        ({"inner": {"apiVersion": "a/b/c", "kind": "Pod"}}, 422, "unexpected GroupVersion string: a/b/c"),
        ({"inner": {"apiVersion": "v1"}}, 422, "spec.inner.kind: Required value"),
        ({"size": 2.0}, 422, ".spec.size accessor error: 2 is of the type float64, expected int64"),
    ],
)
def test_what_is_refused(spec: dict[str, Any], code: int, words: str) -> None:
    with pytest.raises(ApiError) as refusal:
        judged(strict=True, **spec)
    assert refusal.value.code == code
    assert words in refusal.value.message
