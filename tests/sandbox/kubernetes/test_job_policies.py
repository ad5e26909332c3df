"""What failure and success of pods mean for a Job, by the cases of pkg/apis/batch/validation/validation_test.go."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import job_policies
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

CODES = {"operator": "In", "values": [1, 5]}
POD = {"template": {"spec": {"containers": [{"name": "main"}]}}}


def failure(rule: dict[str, Any], **spec: Any) -> list[str]:
    causes = Causes()
    job_policies.failure(causes, "spec.podFailurePolicy", {**POD, "podFailurePolicy": {"rules": [rule]}, **spec})
    return [cause.line() for cause in causes]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"action": "FailJob", "onExitCodes": CODES}, ""),
        ({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}, ""),
        ({"onExitCodes": CODES}, "rules[0].action: Required value"), ({"action": "Cry", "onExitCodes": CODES}, "Unsupported value"),
        ({"action": "FailIndex", "onExitCodes": CODES}, "requires the backoffLimitPerIndex to be set"),
        ({"action": "Count"}, "specifying one of OnExitCodes and OnPodConditions is required"),
        ({"action": "Count", "onExitCodes": CODES, "onPodConditions": [{"type": "a", "status": "True"}]}, "both OnExitCodes and"),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": [0]}}, "must not be 0 for the In operator"),
        ({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0]}}, ""),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": [5, 1]}}, "must be ordered"),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": [1, 1]}}, "Duplicate value: 1"),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": []}}, "at least one value is required"),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": list(range(1, 257))}}, "Too many: 256"),
        ({"action": "Count", "onExitCodes": {**CODES, "containerName": "other"}}, "must be one of the container"),
        ({"action": "Count", "onPodConditions": [{"type": "a"}]}, "onPodConditions[0].status: Required value"),
    ],
)  # fmt: skip
def test_a_rule_of_failures(rule: dict[str, Any], words: str) -> None:
    said = failure(rule)
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("text", "total", "words"),
    [
        ("", 0, ""), ("0", 1, ""), ("1,3-5", 4, ""), ("0-9", 10, ""), ("10", 0, "too large index: '10'"), ("3-3", 0, "non-increasing"),
        ("3,1", 1, "non-increasing order: '1'"),
        ("1,1", 1, "non-increasing order: '1'"), ("a", 0, "cannot convert string"), ("1-2-3", 0, "cannot convert"), ("5-10", 0, "too large"),
    ],
)  # fmt: skip
def test_indexes_as_a_job_writes_them(text: str, total: int, words: str) -> None:
    count, fault = job_policies.indexed(text, 10)
    assert (count, words in fault, bool(fault)) == (total, True, bool(words))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"succeededIndexes": "0-2"}, ""), ({"succeededCount": 10}, ""), ({}, "at least one of succeededCount or"),
        ({"succeededCount": 11}, "less than or equal to 10 (the number of specified completions)"),
        ({"succeededCount": 3, "succeededIndexes": "0,1"}, "less than or equal to 2 (the indexes)"),
        ({"succeededIndexes": "9-11"}, "error parsing succeededIndexes"),
    ],
)  # fmt: skip
def test_a_rule_of_successes(rule: dict[str, Any], words: str) -> None:
    causes = Causes()
    job_policies.success(causes, "spec.successPolicy", {"completions": 10, "successPolicy": {"rules": [rule]}})
    said = [cause.line() for cause in causes]
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"maxFailedIndexes": 1}, "spec.backoffLimitPerIndex: Required value"),
        ({"completionMode": "Indexed", "parallelism": 100_001}, "less than or equal to 100000"), ({"parallelism": 100_001}, ""),
        ({"completionMode": "Indexed", "completions": 5, "backoffLimitPerIndex": 1, "maxFailedIndexes": 6}, "to completions"),
        ({"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1}, "spec.maxFailedIndexes: Required"),
        ({"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1, "maxFailedIndexes": 10_001}, "10000"),
    ],
)  # fmt: skip
def test_how_big_a_job_by_index_may_be(spec: dict[str, Any], words: str) -> None:
    causes = Causes()
    job_policies.limits(causes, "spec", spec)
    said = [cause.line() for cause in causes]
    assert (not said) if not words else any(words in line for line in said), said
