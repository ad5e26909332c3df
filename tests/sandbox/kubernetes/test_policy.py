"""Budgets of disruptions, priorities, quotas and ranges of limits, by kube-apiserver's own validation tests."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import policy


def lines(causes: Any) -> list[str]:
    return [cause.line() for cause in causes]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minAvailable": 1}, ""), ({"maxUnavailable": "50%"}, ""), ({"minAvailable": 1, "maxUnavailable": 1}, "cannot be both set"),
        ({"minAvailable": -1}, "spec.minAvailable"), ({"maxUnavailable": "110%"}, "spec.maxUnavailable"),
        ({"minAvailable": 1, "unhealthyPodEvictionPolicy": "Never"}, "Unsupported value"),
    ],
)  # fmt: skip
def test_a_disruption_budget(spec: dict[str, Any], words: str) -> None:
    said = lines(policy.disruption_budget({"spec": spec}))
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("gpu", 1_000_000_000, ""), ("gpu", 1_000_000_001, "maximum allowed value"), ("gpu", -5, ""),
        ("system-mine", 5, "reserved for system use only"), ("system-node-critical", 2_000_001_000, ""),
        ("system-node-critical", 2_000_000_999, "reserved"),
    ],
)  # fmt: skip
def test_a_priority_class(name: str, value: int, words: str) -> None:
    said = lines(policy.priority_class({"metadata": {"name": name}, "value": value}))
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"}, "default": {"cpu": "1"}}, ""),
        ({"min": {"cpu": "1"}}, "spec.limits[0].type: Required value"), ({"type": "Crate"}, "Unsupported value"),
        ({"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "2"}}, "min value 3 is greater than max value 2"),
        ({"type": "Pod", "default": {"cpu": "1"}}, "may not be specified when `type` is 'Pod'"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}}, "ratio 0.5 is less than 1"),
        ({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}, "greater than max/min"),
        ({"type": "PersistentVolumeClaim"}, "either minimum or maximum storage value is required"),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, ""), ({"type": "Container", "max": {"storage": "1"}}, "standard resource for containers"),
        ({"type": "Container", "default": {"nvidia.com/gpu": "2"}, "defaultRequest": {"nvidia.com/gpu": "1"}}, "must equal to defaultRequest"),
    ],
)  # fmt: skip
def test_a_limit_range(limit: dict[str, Any], words: str) -> None:
    said = lines(policy.limit_range({"spec": {"limits": [limit]}}))
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"hard": {"pods": "10", "requests.cpu": "4", "count/jobs.batch": "3"}}, ""), ({"hard": {"pods": "1.5"}}, "must be an integer"),
        ({"hard": {"cpu": "-1"}}, "must be greater than or equal to 0"), ({"hard": {"gpus": "1"}}, "must be a standard resource for quota"),
        ({"hard": {"requests.nvidia.com/gpu": "8"}}, ""), ({"hard": {"pods": "1"}, "scopes": ["Sunny"]}, "spec.scopes"),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}, "conflicting scopes"),
        ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, "unsupported scope applied to resource"),
    ],
)  # fmt: skip
def test_a_resource_quota(spec: dict[str, Any], words: str) -> None:
    said = lines(policy.resource_quota({"spec": spec}))
    assert (not said) if not words else any(words in line for line in said), said
