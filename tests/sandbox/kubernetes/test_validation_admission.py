"""Admission policies without their expressions, by pkg/apis/admissionregistration/validation/validation_test.go."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap"}, ""), ({"apiVersion": "a.b/v1beta1", "kind": "Odd"}, ""),
        ({"kind": "ConfigMap"}, "spec.paramKind.apiVersion: Required value"), ({"apiVersion": "v1"}, "spec.paramKind.kind: Required value"),
        ({"apiVersion": "a/b/c", "kind": "A"}, "unexpected GroupVersion string: a/b/c"), ({"apiVersion": "a.b/", "kind": "A"}, "version must be specified"),
        ({"apiVersion": "v_1", "kind": "A"}, "a DNS-1035 label"), ({"apiVersion": "A_/v1", "kind": "A"}, "spec.paramKind.apiVersion: Invalid value"),
        ({"apiVersion": "v1", "kind": "1A"}, "may have mixed case, but should otherwise match"),
    ],
)  # fmt: skip
def test_the_kind_of_parameters(declared: dict[str, Any], words: str) -> None:
    lines = said(paramKind=declared)
    assert (not lines) if not words else any(words in line for line in lines), lines


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"name": "a", "parameterNotFoundAction": "Deny"}, ""), ({"selector": {}, "namespace": "b", "parameterNotFoundAction": "Allow"}, ""),
        ({"name": "a"}, "spec.paramRef.parameterNotFoundAction: Required value"), ({"name": "a", "parameterNotFoundAction": "Skip"}, 'Unsupported value: "Skip"'),
        ({"parameterNotFoundAction": "Deny"}, "spec.paramRef: Required value: one of name or selector must be specified"),
        ({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}, "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive"),
        ({"name": "a/b", "parameterNotFoundAction": "Deny"}, "spec.paramRef.name: Invalid value"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}, "parameterNotFoundAction": "Deny"}, "not a valid selector operator"),
    ],
)  # fmt: skip
def test_a_reference_to_parameters(reference: dict[str, Any], words: str) -> None:
    spec = {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}
    lines = [cause.line() for cause in admission.binding({"metadata": {"name": "b"}, "spec": spec})]
    assert (not lines) if not words else any(words in line for line in lines), lines
