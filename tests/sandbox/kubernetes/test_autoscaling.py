"""HorizontalPodAutoscalers, by the cases of pkg/apis/autoscaling/validation/validation_test.go."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation.autoscaling import autoscaler

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
GOOD: dict[str, Any] = {
    "minReplicas": 1,
    "maxReplicas": 5,
    "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
    "metrics": [CPU],
}


def said(**changes: Any) -> list[str]:
    return [cause.line() for cause in autoscaler({"spec": {**GOOD, **changes}})]


def test_a_good_one_is_taken() -> None:
    assert said() == []
    window = {"stabilizationWindowSeconds": 3600, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1800}]}
    assert said(behavior={"scaleDown": window}) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"minReplicas": 0}, "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"),
        ({"maxReplicas": 0}, "spec.maxReplicas: Required value"),
        ({"minReplicas": 7}, "must be greater than or equal to `minReplicas`"),
        ({"scaleTargetRef": {"kind": "Deployment"}}, "spec.scaleTargetRef.name: Required value"),
        ({"scaleTargetRef": {"kind": "Deployment", "name": "../x"}}, "spec.scaleTargetRef.name: Invalid value"),
        ({"scaleTargetRef": {"kind": "D", "name": "x", "apiVersion": "a/b/c"}}, "unexpected GroupVersion string"),
        ({"metrics": [{"type": "Resource"}]}, "must populate information for the given metric source"),
        ({"metrics": [{"type": "Heard"}]}, "Unsupported value"),
        ({"metrics": [{**CPU, "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]},
         "spec.metrics[0].pods: Forbidden: must populate the given metric source only"),
        ({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]},
         "must set a target"),
        ({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}}}]},
         "must be greater than 0"),
        ({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601}}}, "must be less than or equal to 3600"),
        ({"behavior": {"scaleUp": {"policies": []}}}, "must specify at least one Policy"),
        ({"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}}},
         "must be less than or equal to 1800"),
        ({"behavior": {"scaleUp": {"selectPolicy": "Mid"}}}, "spec.behavior.scaleUp.selectPolicy: Unsupported value"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_field(changes: dict[str, Any], words: str) -> None:
    assert any(words in line for line in said(**changes)), said(**changes)
