"""Answers "may I?": the review kinds of authorization.k8s.io and authentication.k8s.io."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hyperpod_ray_sandbox.kubernetes.authorization.rbac import Action, Rbac
from hyperpod_ray_sandbox.kubernetes.authorization.users import Identity
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import Cause, bad_request, invalid

Json = dict[str, Any]


def _action(spec: Json) -> Action:
    plain = spec.get("nonResourceAttributes")
    if plain:
        return Action(str(plain.get("verb", "")), path=str(plain.get("path", "")))
    attributes = spec.get("resourceAttributes") or {}
    sub = f"/{attributes['subresource']}" if attributes.get("subresource") else ""
    return Action(
        str(attributes.get("verb", "")),
        str(attributes.get("group", "")),
        str(attributes.get("resource", "")) + sub,
        str(attributes.get("namespace", "")),
        str(attributes.get("name", "")),
    )


def _causes(review_kind: str, review: Json, spec: Json) -> list[Cause]:
    """What is wrong with a question about access."""
    if review_kind == "SelfSubjectRulesReview" and not spec.get("namespace"):
        raise bad_request("no namespace on request")
    if not review_kind.endswith("AccessReview"):
        return []
    causes = []
    if spec.get("resourceAttributes") is not None and spec.get("nonResourceAttributes") is not None:
        message = "Invalid value: cannot be specified in combination with resourceAttributes"
        causes.append(Cause("FieldValueInvalid", message, "spec.nonResourceAttributes"))
    elif spec.get("resourceAttributes") is None and spec.get("nonResourceAttributes") is None:
        message = "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(Cause("FieldValueInvalid", message, "spec.resourceAttributes"))
    if (
        review_kind in ("SubjectAccessReview", "LocalSubjectAccessReview")
        and not spec.get("user")
        and not spec.get("groups")
    ):
        message = 'Invalid value: "": at least one of user or group must be specified'
        causes.append(Cause("FieldValueInvalid", message, "spec.user"))
    for field in ("fieldSelector", "labelSelector"):
        selector = (spec.get("resourceAttributes") or {}).get(field)
        if selector is None:
            continue
        path, raw, requirements = f"spec.resourceAttributes.{field}", selector.get("rawSelector"), "requirements"
        if raw and selector.get(requirements):
            message = f'Invalid value: "{raw}": may not specified at the same time as requirements'
            causes.append(Cause("FieldValueInvalid", message, f"{path}.rawSelector"))
        elif not raw and not selector.get(requirements):
            message = f"Required value: when {path} is specified, requirements or rawSelector is required"
            causes.append(Cause("FieldValueRequired", message, f"{path}.requirements"))
    return causes


def answer(rbac: Rbac, resource: Resource, body: Any, user: Identity) -> Json:
    """The review with its status filled in."""
    review: Json = {
        **(body if isinstance(body, dict) else {}),
        "apiVersion": resource.api_version,
        "kind": resource.kind,
    }
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    review["metadata"] = {**(review.get("metadata") or {}), "creationTimestamp": stamp}
    spec: Json = review.setdefault("spec", {}) or {}
    if causes := _causes(resource.kind, review, spec):
        raise invalid(resource.kind, resource.group, "", causes)
    if resource.kind == "SelfSubjectReview":
        review["status"] = {"userInfo": {"username": user.username, "groups": list(user.groups)}}
    elif resource.kind == "SelfSubjectRulesReview":
        rules = rbac.rules(user, str(spec.get("namespace", "")))
        if user.all_powerful:
            rules = rbac.role_rules({"kind": "ClusterRole", "name": "cluster-admin"}, "")
        review["status"] = {
            "resourceRules": [r for r in rules if r.get("resources")],
            "nonResourceRules": [r for r in rules if r.get("nonResourceURLs")],
            "incomplete": False,
        }
    else:
        about = user
        if resource.kind == "SubjectAccessReview":
            about = Identity(str(spec.get("user", "")), tuple(spec.get("groups") or ()))
        allowed, reason = rbac.decision(about, _action(spec))
        review["status"] = {"allowed": allowed, **({"reason": reason} if reason else {})}
    return review
