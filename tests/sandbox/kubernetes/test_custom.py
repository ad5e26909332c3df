"""What a schema says beyond JSON Schema: the names that rules write, where a rule points, and lists that are sets."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.expressions.declared import escaped
from hyperpod_ray_sandbox.kubernetes.validation import custom
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("name", "written"),
    [("namespace", "__namespace__"), ("x-prop", "x__dash__prop"), ("redact__d", "redact__underscores__d"),
     ("a.b/c", "a__dot__b__slash__c"), ("foo", "foo"), ("_a", "_a")],
)  # fmt: skip
def test_names_are_escaped_as_the_documentation_has_it(name: str, written: str) -> None:
    """Its table: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"""
    assert escaped(name) == written


SCHEMA: Json = {
    "properties": {
        "spec": {"properties": {"replicas": {"type": "integer"}, "a.b": {"type": "string"}}},
        "labels": {"additionalProperties": {"type": "string"}},
        "items": {"items": {"properties": {"name": {}}}},
    }
}


@pytest.mark.parametrize(
    ("path", "there"),
    [(".spec.replicas", True), (".spec['a.b']", True), (".labels['team']", True), (".spec.nobody", False),
     ("spec.replicas", False), (".items[0].name", False), (".spec.replicas.more", False)],
)  # fmt: skip
def test_a_field_path_leads_to_a_field(path: str, there: bool) -> None:
    """`fieldPath` of a rule is a JSON path of fields, and leads through no list."""
    assert custom.field_there(SCHEMA, path) == there


def judged(schema: Json, value: Any, old: Any = None) -> list[str]:
    causes = Causes()
    custom.check(causes, schema, value, old, "spec")
    return [cause.line() for cause in causes]


def test_a_set_has_each_element_once_and_a_map_each_key() -> None:
    """https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy"""
    plain: Json = {"type": "array", "items": {"type": "string"}}
    assert judged(plain, ["a", "a"]) == [], "a list without a type is atomic"
    assert judged({**plain, "x-kubernetes-list-type": "set"}, ["a", "b"]) == []
    (line,) = judged({**plain, "x-kubernetes-list-type": "set"}, ["a", "b", "a"])
    assert line == 'spec[2]: Duplicate value: "a"'
    ports: Json = {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "properties": {"port": {}, "protocol": {"default": "TCP"}, "name": {}}},
    }  # fmt: skip
    assert judged(ports, [{"port": 80}, {"port": 80, "protocol": "UDP"}]) == []
    (line,) = judged(ports, [{"port": 80, "name": "a"}, {"port": 80, "protocol": "TCP", "name": "b"}])
    assert line.startswith("spec[1]: Duplicate value: "), "a key that is not given has its default"


def test_lists_below_other_fields_are_judged_too() -> None:
    inner: Json = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    schema: Json = {"properties": {"a": {"additionalProperties": {"properties": {"b": inner}}}}}
    assert custom.has_rules(schema)
    assert not custom.has_rules({"properties": {"a": {"type": "string"}}})
    (line,) = judged(schema, {"a": {"one": {"b": ["x", "x"]}}})
    assert line == 'spec.a.one.b[1]: Duplicate value: "x"'
