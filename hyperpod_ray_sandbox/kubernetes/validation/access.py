"""Roles and bindings.

Source: pkg/apis/rbac/validation.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"


def role(obj: Json) -> Causes:
    """Judge a Role or ClusterRole."""
    causes, namespaced = Causes(), obj["kind"] == "Role"
    for index, rule in enumerate(obj.get("rules") or []):
        field_path, urls = f"rules[{index}]", rule.get("nonResourceURLs") or []
        if not rule.get("verbs"):
            causes.required(f"{field_path}.verbs", "verbs must contain at least one value")
        if urls:
            if namespaced:
                causes.invalid(
                    f"{field_path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"
                )
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                causes.invalid(
                    f"{field_path}.nonResourceURLs",
                    urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                )
            continue
        if not rule.get("apiGroups"):
            causes.required(f"{field_path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            causes.required(f"{field_path}.resources", "resource rules must supply at least one resource")
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        if not aggregation.get("clusterRoleSelectors"):
            causes.required(
                "aggregationRule.clusterRoleSelectors",
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            )
        for index, selector in enumerate(aggregation.get("clusterRoleSelectors") or []):
            names.selector(causes, f"aggregationRule.clusterRoleSelectors[{index}]", selector)
    return causes


def binding(obj: Json) -> Causes:
    """Judge a RoleBinding or ClusterRoleBinding."""
    causes, reference = Causes(), obj.get("roleRef") or {}
    causes.one_of("roleRef.apiGroup", reference.get("apiGroup") or GROUP, (GROUP,))
    kinds = ("Role", "ClusterRole") if obj["kind"] == "RoleBinding" else ("ClusterRole",)
    causes.one_of("roleRef.kind", reference.get("kind") or " ", kinds)
    if not reference.get("name"):
        causes.required("roleRef.name")
    for index, subject in enumerate(obj.get("subjects") or []):
        field_path, subject_kind = f"subjects[{index}]", subject.get("kind") or ""
        if not subject.get("name"):
            causes.required(f"{field_path}.name")
        if subject_kind == "ServiceAccount":
            if subject.get("name"):
                names.subdomain(causes, f"{field_path}.name", subject["name"])
            if subject.get("apiGroup"):
                causes.one_of(f"{field_path}.apiGroup", subject["apiGroup"], ("",))
            if not subject.get("namespace") and obj["kind"] == "ClusterRoleBinding":
                causes.required(f"{field_path}.namespace")
        elif subject_kind in ("User", "Group"):
            causes.one_of(f"{field_path}.apiGroup", subject.get("apiGroup") or GROUP, (GROUP,))
        else:
            causes.one_of(f"{field_path}.kind", subject_kind or " ", ("ServiceAccount", "User", "Group"))
    return causes
