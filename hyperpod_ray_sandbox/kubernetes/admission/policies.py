"""ValidatingAdmissionPolicies on create and update, by the language's own evaluator.

Evaluated: resource rules, namespace selectors, match conditions, validations with their messages, and bindings that
deny or warn. Not: parameters, variables, object selectors, exclusions, audit, types, and Kubernetes' own CEL functions.
A policy that uses one of them, or whose expression fails, does what its `failurePolicy` says.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes import selectors
from hyperpod_ray_sandbox.kubernetes.authorization.users import Identity
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_UNKNOWN = ("paramKind", "variables")
_UNKNOWN_MATCHES = ("objectSelector", "excludeResourceRules")


@lru_cache(maxsize=1)
def _environment() -> Any:
    # in the environment of the emulator only, so not imported by whoever imports this
    cel = importlib.import_module("cel_expr_python.cel")
    parts = ("ext_strings", "ExtStrings"), ("ext_optional", "ExtOptional")
    extensions = [getattr(importlib.import_module(f"cel_expr_python.ext.{m}"), name)() for m, name in parts]
    variables = ("object", "oldObject", "request")
    return cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN), extensions=extensions)


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    return _environment().compile(expression)


def review(api: Objects, resource: Resource, obj: Json, old: Json | None, options: Options) -> None:
    """Refuse what a bound policy refuses; raises 422."""
    bindings = api.store.objects(f"{_GROUP}/validatingadmissionpolicybindings")
    user = options.user or _controller(resource, obj, old)
    if not bindings or user is None or resource.group == _GROUP:
        return  # no policy is about policies, nor about what the control plane changes here
    for binding in bindings:
        spec = binding["spec"]
        policy = api.store.get((f"{_GROUP}/validatingadmissionpolicies", "", spec.get("policyName", "")))
        if policy is None or not _matches(policy["spec"], resource, "UPDATE" if old else "CREATE"):
            continue
        if not _selected(api, policy["spec"], resource, obj):
            continue
        why = _refusal(policy["spec"], spec, _data(resource, obj, old, options, user))
        if not why:
            continue
        message = (
            f"ValidatingAdmissionPolicy '{policy['metadata']['name']}' with binding '{binding['metadata']['name']}' "
            f"denied request: {why}"
        )
        if "Deny" in spec.get("validationActions", []):
            name = obj["metadata"]["name"]
            qualified_name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            details = {"name": name, "kind": resource.plural, "causes": [{"message": message}]}  # kubectl prints causes
            raise ApiError(422, "Invalid", f'{qualified_name} "{name}" is forbidden: {message}', details)
        if "Warn" in spec.get("validationActions", []):
            options.warnings.append(f"Validation failed for {message}")


def _matches(policy: Json, resource: Resource, operation: str) -> bool:
    constraints = (("apiGroups", resource.group), ("apiVersions", resource.version), ("resources", resource.plural))
    return any(
        all(
            value in rule.get(field, []) or "*" in rule.get(field, [])
            for field, value in (*constraints, ("operations", operation))
        )
        for rule in (policy.get("matchConstraints") or {}).get("resourceRules") or []
    )


def _selected(api: Objects, policy: Json, resource: Resource, obj: Json) -> bool:
    """Whether the object's namespace is one that the policy is about; objects without a namespace always are."""
    selector = (policy.get("matchConstraints") or {}).get("namespaceSelector")
    if resource.plural == "namespaces" and not resource.group:
        return selectors.matches(selector or {}, obj["metadata"].get("labels") or {})
    space = obj["metadata"].get("namespace", "")
    if not selector or not space:
        return True
    namespace = api.find("v1", "Namespace", "", space) or {}
    return selectors.matches(selector, (namespace.get("metadata") or {}).get("labels") or {})


def _controller(resource: Resource, obj: Json, old: Json | None) -> Identity | None:
    """The service account of the controller that creates a pod or a RayCluster, by the owner of what it creates."""
    owner = next(
        (reference for reference in obj["metadata"].get("ownerReferences") or [] if reference.get("controller")), None
    )
    if old is not None or owner is None or resource.kind not in ("Pod", "RayCluster"):
        return None
    if owner["apiVersion"].startswith(f"{names.RAY_API_GROUP}/"):
        namespace = account = names.OPERATOR_CHART  # where the chart's own guide installs it
    else:
        namespace, account = names.KUBE_SYSTEM, f"{owner['kind'].lower()}-controller"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Identity(f"system:serviceaccount:{namespace}:{account}", groups)


def _data(resource: Resource, obj: Json, old: Json | None, options: Options, user: Identity) -> Json:
    request = {
        "operation": "UPDATE" if old else "CREATE",
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"].get("namespace", ""),
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "userInfo": {"username": user.username, "groups": list(user.groups)},
        "dryRun": options.dry_run,
    }
    return {"object": obj, "oldObject": old, "request": request}


def _refusal(policy: Json, binding: Json, data: Json) -> str:
    """Why a policy refuses a request; empty where it does not, or where it does not concern it."""
    fails = policy.get("failurePolicy", "Fail") == "Fail"
    beyond = [key for key in _UNKNOWN if policy.get(key)]
    beyond += [key for key in _UNKNOWN_MATCHES if (policy.get("matchConstraints") or {}).get(key)]
    beyond += [key for key in ("paramRef", "matchResources") if binding.get(key)]
    if beyond:
        return f"{beyond[0]} is not evaluated here" if fails else ""
    try:
        for condition in policy.get("matchConditions") or []:
            if _eval(condition["expression"], data) is not True:
                return ""
        for validation in policy.get("validations") or []:
            if _eval(validation["expression"], data) is not True:
                return str(validation.get("message") or f"failed expression: {validation['expression']}")
    except Exception as error:  # whatever the evaluator raises is a failed expression
        return f"expression resulted in error: {error}" if fails else ""
    return ""


def _eval(expression: str, data: Json) -> Any:
    return _compiled(expression).eval(data=data).plain_value()
