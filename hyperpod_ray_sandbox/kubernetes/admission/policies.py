"""ValidatingAdmissionPolicies on create, update and delete, by the language's own evaluator.

Evaluated: rules, selectors, exclusions, match conditions, parameters, variables, validations with their messages, and
bindings that deny or warn. Nothing is audited.
Source: k8s.io/apiserver, pkg/admission/plugin/policy;
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes import selectors
from hyperpod_ray_sandbox.kubernetes.admission import matching
from hyperpod_ray_sandbox.kubernetes.expressions import authorizer, language
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class _ConfigurationError(Exception):
    """What keeps a policy or a binding from being evaluated, in the API server's words."""


def review(api: Objects, attributes: matching.Attributes, options: Options) -> None:
    """Refuse what a bound policy refuses; raises 422, or the code of the reason that the policy gives."""
    for binding in api.store.objects(f"{GROUP}/validatingadmissionpolicybindings"):
        spec = binding["spec"]
        policy = api.store.get((f"{GROUP}/validatingadmissionpolicies", "", spec.get("policyName", "")))
        if policy is None or not matching.concerns(api, policy["spec"].get("matchConstraints") or {}, attributes):
            continue
        which = f"ValidatingAdmissionPolicy '{policy['metadata']['name']}'"
        with_binding = f"{which} with binding '{binding['metadata']['name']}'"
        fails = policy["spec"].get("failurePolicy", "Fail") == "Fail"
        try:
            kind = _param_kind(api, policy["spec"])
        except _ConfigurationError as error:
            if fails:
                raise _denial(attributes, f"{which} denied request: failed to configure policy: {error}") from None
            continue
        narrower = spec.get("matchResources")
        if narrower and not matching.concerns(api, {"resourceRules": _ANYTHING, **narrower}, attributes):
            continue
        try:
            chosen = _params(api, kind, spec.get("paramRef"), attributes.namespace)
        except _ConfigurationError as error:
            if fails:
                why = f"{with_binding} denied request: failed to configure binding: {error}"
                raise _denial(attributes, why) from None
            continue
        for params in chosen:
            why, reason = _refusal(api, policy["spec"], attributes, params)
            if why and "Deny" in spec.get("validationActions", []):
                raise _denial(attributes, f"{with_binding} denied request: {why}", reason)
            if why and "Warn" in spec.get("validationActions", []):
                options.warnings.append(f"Validation failed for {with_binding}: {why}")


def _denial(attributes: matching.Attributes, message: str, reason: str = "Invalid") -> ApiError:
    resource, name = attributes.resource, attributes.name
    qualified_name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    details = {"name": name, "kind": resource.plural, "causes": [{"message": message}]}  # kubectl prints causes
    return ApiError(_CODES[reason], reason, f'{qualified_name} "{name}" is forbidden: {message}', details)


def _param_kind(api: Objects, policy: Json) -> Resource | None:
    """The resource whose objects are a policy's parameters; None where it takes none."""
    declared = policy.get("paramKind")
    if not declared:
        return None
    resource = api.registry.by_kind(declared["apiVersion"], declared["kind"])
    if resource is None:
        group, _, version = declared["apiVersion"].rpartition("/")
        words = f"{group}/{version}, Kind={declared['kind']}"
        raise _ConfigurationError(f"failed to find resource referenced by paramKind: '{words}'")
    return resource


def _params(api: Objects, resource: Resource | None, reference: Json | None, namespace: str) -> list[Json | None]:
    """The parameters with which a binding evaluates its policy, one after the other."""
    if resource is None or reference is None:
        return [None]
    if resource.namespaced:
        namespace = reference.get("namespace") or namespace
        if not namespace:
            why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise _ConfigurationError(why)
    elif reference.get("namespace"):
        raise _ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if reference.get("name"):
        named = api.store.get(api.key(resource, namespace, reference["name"]))
        chosen = [] if named is None else [api.present(resource, named)]
    else:
        selector = reference.get("selector")
        chosen = api.select(
            resource, namespace, lambda obj: selectors.matches(selector, obj["metadata"].get("labels") or {})
        )
    if not chosen and reference.get("parameterNotFoundAction") == "Deny":
        raise _ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [*chosen]


_ANYTHING = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*", "*/*"]}]


def _namespace(api: Objects, attributes: matching.Attributes) -> Json | None:
    """What expressions may read of a request's namespace."""
    namespace = api.find("v1", "Namespace", "", attributes.namespace) if attributes.namespace else None
    return namespace and {part: namespace.get(part) or {} for part in ("metadata", "spec", "status")}


def _refusal(api: Objects, policy: Json, attributes: matching.Attributes, params: Json | None) -> tuple[str, str]:
    """Why a policy refuses a request, and its reason; empty where it does not, or where it does not concern it."""
    fails = policy.get("failurePolicy", "Fail") == "Fail"
    data = {**attributes.data(), "namespaceObject": _namespace(api, attributes)}
    if policy.get("paramKind"):
        data["params"] = params
    with authorizer.answered_by(api.rbac.answer):
        return _decided(policy, data, fails=fails)


def _decided(policy: Json, data: Json, *, fails: bool) -> tuple[str, str]:
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
