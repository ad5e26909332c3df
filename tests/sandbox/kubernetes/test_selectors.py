"""Selectors of objects, as documented at https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.selectors import matches, node_term


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        (None, False), ({}, True), ({"matchLabels": {"a": "1"}}, True), ({"matchLabels": {"a": "2"}}, False),
        ({"matchLabels": {"b": "1"}}, False), ({"matchExpressions": [expression("a", "In", "1", "2")]}, True),
        ({"matchExpressions": [expression("a", "NotIn", "1")]}, False),
        ({"matchExpressions": [expression("b", "NotIn", "1")]}, True),
        ({"matchExpressions": [expression("a", "Exists")]}, True),
        ({"matchExpressions": [expression("a", "DoesNotExist")]}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [expression("b", "Exists")]}, False),
        ({"matchExpressions": [expression("a", "Unheard")]}, False),
    ],
)  # fmt: skip
def test_a_label_selector(selector: dict[str, Any] | None, taken: bool) -> None:
    assert matches(selector, {"a": "1"}) is taken


def node(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "i-1", "labels": labels}}


@pytest.mark.parametrize(
    ("term", "taken"),
    [
        ({}, False), ({"matchExpressions": [expression("gpus", "Gt", "4")]}, True),
        ({"matchExpressions": [expression("gpus", "Lt", "8")]}, False),
        ({"matchExpressions": [expression("gpus", "Gt", "4"), expression("type", "Exists")]}, False),
        ({"matchFields": [expression("metadata.name", "In", "i-1")]}, True),
        ({"matchFields": [expression("metadata.name", "In", "i-2")]}, False),
        ({"matchExpressions": [expression("name", "Gt", "4")]}, False),
    ],
)  # fmt: skip
def test_a_term_of_a_node_selector(term: dict[str, Any], taken: bool) -> None:
    assert node_term(term, node(gpus="8", name="x")) is taken
