"""Admission policies without their expressions, by pkg/apis/admissionregistration/validation/validation_test.go."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.validation import admission

RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
GOOD: dict[str, Any] = {
    "matchConstraints": {"resourceRules": RULES},
    "validations": [{"expression": "object.metadata.name != 'x'", "message": "no"}],
}


def said(**changes: Any) -> list[str]:
    body = {"metadata": {"name": "p"}, "spec": {**GOOD, **changes}}
    return [cause.line() for cause in admission.policy(body)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""), ({"failurePolicy": "Shrug"}, "spec.failurePolicy: Unsupported value"), ({"matchConstraints": None}, "spec.matchConstraints: Required"),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules: Required value"), ({"validations": []}, "must contain at least one item"),
        ({"validations": [{"expression": " "}]}, "expression is not specified"),
        ({"validations": [{"expression": "true", "message": "a\nb"}]}, "must not contain line breaks"),
        ({"validations": [{"expression": "true", "reason": "Mood"}]}, "spec.validations[0].reason: Unsupported value"),
        ({"variables": [{"name": "1a", "expression": "1"}]}, "must be a valid CEL identifier"), ({"variables": [{"expression": "1"}]}, "name is not specified"),
        ({"auditAnnotations": [{"valueExpression": "'a'"}]}, "name part must "),
    ],
)  # fmt: skip
def test_a_policy(changes: dict[str, Any], words: str) -> None:
    lines = said(**changes)
    assert (not lines) if not words else any(words in line for line in lines), lines


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"policyName": "p", "validationActions": ["Deny"]}, ""), ({"validationActions": ["Deny"]}, "spec.policyName: Required value"),
        ({"policyName": "p"}, "at least one validation action is required"), ({"policyName": "p", "validationActions": ["Deny", "Warn"]}, "must not contain both Deny and Warn"),
        ({"policyName": "p", "validationActions": ["Audit", "Audit"]}, "Duplicate value"), ({"policyName": "p", "validationActions": ["Nod"]}, "Unsupported value"),
        ({"policyName": "P_", "validationActions": ["Deny"]}, "spec.policyName: Invalid value"),
    ],
)  # fmt: skip
def test_a_binding(spec: dict[str, Any], words: str) -> None:
    lines = [cause.line() for cause in admission.binding({"metadata": {"name": "b"}, "spec": spec})]
    assert (not lines) if not words else any(words in line for line in lines), lines


def test_what_the_sandbox_does_not_evaluate_is_refused_by_name() -> None:
    with pytest.raises(ApiError, match=r"does not evaluate spec\.paramKind") as refusal:
        said(paramKind={"kind": "ConfigMap"})
    assert refusal.value.code == 501
    with pytest.raises(ApiError, match=r"spec\.paramRef"):
        admission.binding({"metadata": {}, "spec": {"paramRef": {"name": "x"}}})
