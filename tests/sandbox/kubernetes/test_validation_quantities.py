"""Requests and limits of containers, by TestValidateResourceRequirements of pkg/apis/core/validation."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import quantities
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (None, ""), ({"limits": {"cpu": "1", "memory": "10Gi"}}, ""), ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "less than or equal to cpu limit of 1"),
        ({"requests": {"cpu": "1000m"}, "limits": {"cpu": "1"}}, ""), ({"requests": {"nvidia.com/gpu": "1"}}, "Limit must be set for non overcommitable"),
        ({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}, "must be equal to nvidia.com/gpu limit of 2"),
        ({"limits": {"nvidia.com/gpu": "0.5"}}, "must be an integer"), ({"limits": {"cpu": "-1"}}, "greater than or equal to 0"),
        ({"limits": {"storage": "1"}}, "standard resource for containers"), ({"limits": {"gpus": "1"}}, "fully qualified"),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, "HugePages require cpu or memory"), ({"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}, ""),
        ({"limits": {"requests.nvidia.com/gpu": "1"}}, "doesn't follow extended resource name standard"), ({"limits": {"-cpu": "1"}}, "Invalid value"),
    ],
)  # fmt: skip
def test_requests_and_limits(resources: dict[str, Any] | None, words: str) -> None:
    causes = Causes()
    quantities.requirements(causes, "resources", resources)
    said = [cause.line() for cause in causes]
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("name", "extended"),
    [("nvidia.com/gpu", True), ("vpc.amazonaws.com/efa", True), ("cpu", False), ("kubernetes.io/batch", False), ("requests.nvidia.com/gpu", False)],
)  # fmt: skip
def test_which_resources_are_a_device_plugins(name: str, extended: bool) -> None:
    assert quantities.is_extended(name) is extended
