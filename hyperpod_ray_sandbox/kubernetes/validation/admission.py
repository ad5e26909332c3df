"""Validating admission policies and their bindings.

Source: pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.expressions import language
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.validation import custom, names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.webhooks import conditions, rules

Json = dict[str, Any]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ROOTS = ("object", "oldObject", "request", "namespaceObject")
_TEXTS = ("name", "namespace", "operation", "subResource", "requestSubResource")
VARIABLES = (*_ROOTS, "variables")
TYPE = "x-type"


def _fields(*names_of_fields: str, **inner: Json) -> Json:
    """The schema of an object with these fields."""
    return {"type": "object", "properties": {**{name: {} for name in names_of_fields}, **inner}}


_KIND = _fields("group", "version", "kind")
_RESOURCE = _fields("group", "version", "resource")
_REQUEST = _fields(
    *("subResource", "requestSubResource", "name", "namespace", "operation", "dryRun", "options"),
    kind=_KIND,
    requestKind=_KIND,
    resource=_RESOURCE,
    requestResource=_RESOURCE,
    userInfo=_fields("username", "uid", "groups", "extra"),
)
_NAMESPACE = _fields(
    metadata=_fields(
        *("name", "generateName", "namespace", "labels", "annotations", "UID", "creationTimestamp"),
        *("deletionGracePeriodSeconds", "deletionTimestamp", "generation", "resourceVersion", "finalizers"),
    ),
    spec=_fields("finalizers"),
    status=_fields("phase", "conditions"),
)


def policy(obj: Json) -> Causes:
    """Judge a ValidatingAdmissionPolicy; raises 501 for what the sandbox does not evaluate."""
    causes, spec = Causes(), obj["spec"]
    if spec.get("paramKind"):
        raise unserved("spec.paramKind")
    causes.one_of("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
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
        causes.required("spec.validations", "validations or auditAnnotations must contain at least one item")
    for index, validation in enumerate(validations):
        path = f"spec.validations[{index}]"
        _expression(causes, f"{path}.expression", validation.get("expression"), "BOOL", fields)
        message = validation.get("message")
        if message and "\n" in message:
            causes.invalid(f"{path}.message", message, "message must not contain line breaks")
        elif message and not message.strip():
            causes.invalid(f"{path}.message", message, "message must be non-empty if specified")
        if validation.get("messageExpression"):
            _expression(causes, f"{path}.messageExpression", validation["messageExpression"], "STRING", fields)
        causes.one_of(f"{path}.reason", validation.get("reason"), _REASONS)
    for index, annotation in enumerate(spec.get("auditAnnotations") or []):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        if not key:
            causes.required(f"{path}.key")
        else:
            names.key(causes, f"{path}.key", f"{obj['metadata'].get('name') or 'x'}/{key}")
        _expression(causes, f"{path}.valueExpression", annotation.get("valueExpression"), "STRING", fields)
    conditions(causes, "spec.matchConditions", spec.get("matchConditions"), _ROOTS)
    return causes


def _variables(causes: Causes, spec: Json) -> Json:
    """Judge the variables, each by those before it; returns them as fields of `variables`."""
    taken: Json = {}
    for index, variable in enumerate(spec.get("variables") or []):
        path, name = f"spec.variables[{index}]", variable.get("name") or ""
        if not name:
            causes.required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in custom.WORDS:
            causes.invalid(f"{path}.name", name, "name is not a valid CEL identifier")
        _expression(causes, f"{path}.expression", variable.get("expression"), "DYN", taken)
        taken[name] = {TYPE: _answer(str(variable.get("expression") or ""), taken)}
    return taken


def _typed(fields: Json) -> Json:
    """The variables, and those of a policy with the types that they have."""
    types = {f"variables.{name}": field[TYPE] for name, field in fields.items() if field.get(TYPE) is not None}
    texts = {f"request.{name}": language.cel().Type.STRING for name in _TEXTS}
    return {**language.dynamic(VARIABLES), **texts, **types}


def _answer(expression: str, fields: Json) -> Any:
    """The type of a variable; None where it is anything."""
    return language.answer_type(expression, _typed(fields)) if language.installed() else None


def _expression(causes: Causes, path: str, expression: str | None, answer: str, fields: Json) -> None:
    """Judge an expression: it compiles, reads what is there, and gives what it must."""
    if not (expression or "").strip():
        causes.required(path, "expression is not specified")
        return
    if not language.installed():
        return
    schemas: dict[str, Json | None] = {**dict.fromkeys(VARIABLES), "request": _REQUEST, "namespaceObject": _NAMESPACE}
    schemas["variables"] = {"type": "object", "properties": fields}
    text = str(expression)
    if why := language.fault(text, _typed(fields), answer, exactly=True) or language.check_fields(text, schemas, str):
        causes.invalid(path, expression, why)


def _match(causes: Causes, path: str, match: Json) -> None:
    names.selector(causes, f"{path}.namespaceSelector", match.get("namespaceSelector"))
    names.selector(causes, f"{path}.objectSelector", match.get("objectSelector"))
    causes.one_of(f"{path}.matchPolicy", match.get("matchPolicy"), ("Equivalent", "Exact"))
    rules(causes, f"{path}.resourceRules", match.get("resourceRules"))
    rules(causes, f"{path}.excludeResourceRules", match.get("excludeResourceRules"))


def binding(obj: Json) -> Causes:
    """Judge a ValidatingAdmissionPolicyBinding; raises 501 for what the sandbox does not evaluate."""
    causes, spec = Causes(), obj["spec"]
    if spec.get("paramRef"):
        raise unserved("spec.paramRef")
    if not spec.get("policyName"):
        causes.required("spec.policyName")
    else:
        names.subdomain(causes, "spec.policyName", spec["policyName"])
    actions = spec.get("validationActions") or []
    if not actions:
        causes.required("spec.validationActions", "at least one validation action is required")
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            causes.unsupported("spec.validationActions", action, _ACTIONS)
        if action in actions[:index]:
            causes.duplicate("spec.validationActions", action)
    if "Deny" in actions and "Warn" in actions:
        causes.invalid(
            "spec.validationActions", actions, "must not contain both Deny and Warn (repeating the same message)"
        )
    if spec.get("matchResources"):
        _match(causes, "spec.matchResources", spec["matchResources"])
    return causes


def unserved(field: str) -> ApiError:
    """501 for a part of a policy that nobody here obeys."""
    return ApiError(501, "NotImplemented", f"the sandbox does not evaluate {field} of admission policies")
