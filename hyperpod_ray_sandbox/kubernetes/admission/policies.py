"""ValidatingAdmissionPolicies on create, update and delete, by the language's own evaluator.

Evaluated: rules, selectors, exclusions, match conditions, variables, validations with their messages, and bindings that
deny or warn. Parameters and authorizers are refused with 501 when a policy names them. Nothing is audited.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes.admission import matching
from hyperpod_ray_sandbox.kubernetes.expressions import language
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.status import ApiError

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


def review(api: Objects, attributes: matching.Attributes, options: Options) -> None:
    """Refuse what a bound policy refuses; raises 422, or the code of the reason that the policy gives."""
    for binding in api.store.objects(f"{GROUP}/validatingadmissionpolicybindings"):
        spec = binding["spec"]
        policy = api.store.get((f"{GROUP}/validatingadmissionpolicies", "", spec.get("policyName", "")))
        if policy is None or not matching.concerns(api, policy["spec"].get("matchConstraints") or {}, attributes):
            continue
        narrower = spec.get("matchResources")
        if narrower and not matching.concerns(api, {"resourceRules": _ANYTHING, **narrower}, attributes):
            continue
        why, reason = _refusal(policy["spec"], attributes, _namespace(api, attributes))
        if not why:
            continue
        message = (
            f"ValidatingAdmissionPolicy '{policy['metadata']['name']}' with binding '{binding['metadata']['name']}' "
            f"denied request: {why}"
        )
        if "Deny" in spec.get("validationActions", []):
            resource, name = attributes.resource, attributes.name
            qualified_name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            details = {"name": name, "kind": resource.plural, "causes": [{"message": message}]}  # kubectl prints causes
            raise ApiError(_CODES[reason], reason, f'{qualified_name} "{name}" is forbidden: {message}', details)
        if "Warn" in spec.get("validationActions", []):
            options.warnings.append(f"Validation failed for {message}")


_ANYTHING = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*", "*/*"]}]


def _namespace(api: Objects, attributes: matching.Attributes) -> Json | None:
    """What expressions may read of a request's namespace."""
    namespace = api.find("v1", "Namespace", "", attributes.namespace) if attributes.namespace else None
    return namespace and {part: namespace.get(part) or {} for part in ("metadata", "spec", "status")}


def _refusal(policy: Json, attributes: matching.Attributes, namespace: Json | None) -> tuple[str, str]:
    """Why a policy refuses a request, and its reason; empty where it does not, or where it does not concern it."""
    fails = policy.get("failurePolicy", "Fail") == "Fail"
    data = {**attributes.data(), "namespaceObject": namespace}
    try:
        if not matching.met(policy.get("matchConditions"), data):
            return "", ""
        data["variables"] = _variables(policy, data)
        for validation in policy.get("validations") or []:
            if language.evaluate(validation["expression"], data) is not True:
                return _message(validation, data), str(validation.get("reason") or "Invalid")
    except language.FAULTS as error:
        return (f"expression resulted in error: {error}", "Invalid") if fails else ("", "")
    return "", ""


def _variables(policy: Json, data: Json) -> Json:
    """The values of a policy's variables, in their order; one that fails is missing, and fails who reads it."""
    values: Json = {}
    for variable in policy.get("variables") or []:
        try:
            values[variable["name"]] = language.evaluate(variable["expression"], {**data, "variables": values})
        except language.FAULTS:
            continue
    return values


def _message(validation: Json, data: Json) -> str:
    if validation.get("messageExpression"):
        try:
            message = language.evaluate(validation["messageExpression"], data)
        except language.FAULTS:
            message = ""
        if isinstance(message, str) and message.strip() and "\n" not in message:
            return message
    return str(validation.get("message") or f"failed expression: {validation['expression']}")
