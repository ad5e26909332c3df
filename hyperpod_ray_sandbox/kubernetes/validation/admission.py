"""Validating admission policies and their bindings.

Source: pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.expressions.declared import ANYTHING, RESERVED, Declared, struct
from hyperpod_ray_sandbox.kubernetes.expressions.value_types import BOOL, DYN, NULL, STRING, ValueType
from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.webhooks import VARIABLES, conditions, expression, rules

Json = dict[str, Any]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_MOST_ANNOTATIONS, _MOST_ANNOTATION_BYTES = 20, 5 * 1024
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")


def policy(obj: Json) -> Causes:
    """Judge a ValidatingAdmissionPolicy."""
    causes, spec = Causes(), obj["spec"]
    if spec.get("paramKind") is not None:
        _param_kind(causes, "spec.paramKind", spec["paramKind"])
    causes.choice("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
    match = spec.get("matchConstraints")
    if match is None:
        causes.required("spec.matchConstraints")
    else:
        _match(causes, "spec.matchConstraints", match)
        if not match.get("resourceRules"):
            causes.required("spec.matchConstraints.resourceRules")
    fields = _variables(causes, spec)
    validations = spec.get("validations") or []
    if not validations and not spec.get("auditAnnotations"):
        for part in ("validations", "auditAnnotations"):
            causes.required(f"spec.{part}", "validations or auditAnnotations must contain at least one item")
    for index, validation in enumerate(validations):
        path = f"spec.validations[{index}]"
        _expression(causes, f"{path}.expression", validation.get("expression"), (BOOL,), fields)
        message, words = validation.get("message") or "", validation.get("messageExpression") or ""
        if message and not message.strip():
            causes.invalid(f"{path}.message", message, "must be non-empty if specified")
        elif "\n" in message.strip():
            causes.invalid(f"{path}.message", message, "must not contain line breaks")
        if words and not words.strip():
            causes.invalid(f"{path}.messageExpression", words, "must be non-empty if specified")
        elif words:
            spoken = {name: declared for name, declared in fields.items() if name != "authorizer"}
            expression(causes, f"{path}.messageExpression", words, spoken, (STRING,))
        causes.choice(f"{path}.reason", validation.get("reason"), _REASONS)
    _audit(causes, obj, fields)
    conditions(causes, "spec.matchConditions", spec.get("matchConditions"), _readable(spec))
    return causes


def _param_kind(causes: Causes, path: str, param_kind: Json) -> None:
    """Judge which objects hold the parameters of a policy."""
    api_version, kind = param_kind.get("apiVersion") or "", param_kind.get("kind") or ""
    group, _, version = api_version.rpartition("/")
    if not api_version:
        causes.required(f"{path}.apiVersion")
    elif api_version.count("/") > 1:
        causes.invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        if group:
            names.subdomain(causes, f"{path}.apiVersion", group)
        if not version:
            causes.invalid(f"{path}.apiVersion", api_version, "version must be specified")
        elif not _LABEL.fullmatch(version):
            causes.invalid(f"{path}.apiVersion", version, _LABEL_RULE)
    if not kind:
        causes.required(f"{path}.kind")
    elif not _LABEL.fullmatch(kind.lower()):
        causes.invalid(f"{path}.kind", kind, f"may have mixed case, but should otherwise match: {_LABEL_RULE}")


def _audit(causes: Causes, obj: Json, fields: dict[str, Declared]) -> None:
    """Judge what a policy writes into the audit log."""
    annotations, taken = obj["spec"].get("auditAnnotations") or [], set()
    if len(annotations) > _MOST_ANNOTATIONS:
        words = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        causes.invalid("spec.auditAnnotations", annotations, words)
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        names.key(causes, f"{path}.key", f"{obj['metadata'].get('name') or 'x'}/{key}")
        value = str(annotation.get("valueExpression") or "")
        if not value.strip():
            causes.required(f"{path}.valueExpression", "valueExpression is not specified")
        elif len(value.strip()) > _MOST_ANNOTATION_BYTES:
            words = f"must not exceed {_MOST_ANNOTATION_BYTES} bytes in length"
            causes.required(f"{path}.valueExpression", words)
        else:
            expression(causes, f"{path}.valueExpression", value, fields, (STRING, NULL))
        if key in taken:
            causes.duplicate(f"{path}.key", key)
        taken.add(key)


def _variables(causes: Causes, spec: Json) -> dict[str, Declared]:
    """Judge the variables, each by those before it; returns what expressions read."""
    variables: dict[str, Declared] = {}
    for index, variable in enumerate(spec.get("variables") or []):
        path, name = f"spec.variables[{index}]", variable.get("name") or ""
        if not name.strip():
            causes.required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in RESERVED:
            causes.invalid(f"{path}.name", name, "must be a valid CEL identifier")
        answer = _expression(causes, f"{path}.expression", variable.get("expression"), (), _readable(spec, variables))
        variables[name] = Declared(answer)
    return _readable(spec, variables)


def _readable(spec: Json, variables: dict[str, Declared] | None = None) -> dict[str, Declared]:
    """What an expression of a policy reads, beside variables that are known."""
    parameters = {"params": ANYTHING} if spec.get("paramKind") else {}
    known = {"variables": struct("kubernetes.variables", **variables)} if variables else {}
    return {**VARIABLES, **parameters, **known}


def _expression(
    causes: Causes, path: str, text: str | None, answers: tuple[ValueType, ...], variables: dict[str, Declared]
) -> ValueType:
    """Judge an expression that must be there; returns the type that it gives."""
    if not (text or "").strip():
        causes.required(path, "expression is not specified")
        return DYN
    return expression(causes, path, str(text), variables, answers)


def _match(causes: Causes, path: str, match: Json) -> None:
    names.selector(causes, f"{path}.namespaceSelector", match.get("namespaceSelector"))
    names.selector(causes, f"{path}.objectSelector", match.get("objectSelector"))
    causes.choice(f"{path}.matchPolicy", match.get("matchPolicy"), ("Equivalent", "Exact"))
    for part in ("resourceRules", "excludeResourceRules"):
        rules(causes, f"{path}.{part}", match.get(part))
        for index, rule in enumerate(match.get(part) or []):
            _resource_names(causes, f"{path}.{part}[{index}].resourceNames", rule.get("resourceNames") or [])


def _resource_names(causes: Causes, path: str, declared: list[str]) -> None:
    """Judge the names of objects that a rule is about."""
    for index, name in enumerate(declared):
        _path_segment(causes, f"{path}[{index}]", name)
        if name in declared[:index]:
            causes.duplicate(f"{path}[{index}]", name)


def _path_segment(causes: Causes, path: str, name: str) -> None:
    """Judge a name that stands in a path."""
    if name in (".", "..") or "/" in name or "%" in name:
        causes.invalid(path, name, "may not be '.', '..', or contain '/' or '%'")


def binding(obj: Json) -> Causes:
    """Judge a ValidatingAdmissionPolicyBinding."""
    causes, spec = Causes(), obj["spec"]
    if spec.get("paramRef") is not None:
        _param_ref(causes, "spec.paramRef", spec["paramRef"])
    if not spec.get("policyName"):
        causes.required("spec.policyName")
    else:
        names.subdomain(causes, "spec.policyName", spec["policyName"])
    actions = spec.get("validationActions") or []
    if not actions:
        causes.required("spec.validationActions", "at least one validation action is required")
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            causes.unsupported(f"spec.validationActions[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            causes.duplicate(f"spec.validationActions[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        causes.invalid(
            "spec.validationActions", actions, "must not contain both Deny and Warn (repeating the same message)"
        )
    if spec.get("matchResources"):
        _match(causes, "spec.matchResources", spec["matchResources"])
    return causes


def _param_ref(causes: Causes, path: str, reference: Json) -> None:
    """Judge which parameters a binding takes."""
    name, selector = reference.get("name") or "", reference.get("selector")
    both = "name and selector are mutually exclusive"
    if name:
        _path_segment(causes, f"{path}.name", name)
        if selector is not None:
            causes.forbidden(f"{path}.name", both)
            causes.forbidden(f"{path}.selector", both)
    elif selector is None:
        causes.required(path, "one of name or selector must be specified")
    names.selector(causes, f"{path}.selector", selector)
    action = reference.get("parameterNotFoundAction")
    if not action:
        causes.required(f"{path}.parameterNotFoundAction")
    elif action not in _NOT_FOUND_ACTIONS:
        causes.unsupported(f"{path}.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)
