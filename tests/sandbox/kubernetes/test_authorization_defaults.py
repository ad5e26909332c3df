"""The roles that every cluster has: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.authorization import defaults


def allowed(role: str, verb: str, group: str, resource: str) -> bool:
    rules = next(
        row["rules"] for row in defaults.objects() if row["kind"] == "ClusterRole" and row["metadata"]["name"] == role
    )
    return any(
        {verb, "*"} & set(rule["verbs"])
        and {group, "*"} & set(rule["apiGroups"])
        and {resource, "*"} & set(rule["resources"])
        for rule in rules
        if rule.get("resources")
    )


@pytest.mark.parametrize(
    ("verb", "group", "resource", "roles"),
    [
        ("get", "", "pods", {"view", "edit", "admin", "cluster-admin"}), ("get", "", "secrets", {"edit", "admin", "cluster-admin"}),
        ("create", "", "pods", {"edit", "admin", "cluster-admin"}), ("create", "", "pods/exec", {"edit", "admin", "cluster-admin"}),
        ("create", "rbac.authorization.k8s.io", "roles", {"admin", "cluster-admin"}), ("delete", "", "nodes", {"cluster-admin"}),
        ("update", "", "resourcequotas", {"cluster-admin"}), ("create", "", "namespaces", {"cluster-admin"}),
        ("get", "rbac.authorization.k8s.io", "roles", {"admin", "cluster-admin"}), ("delete", "batch", "jobs", {"edit", "admin", "cluster-admin"}),
    ],
)  # fmt: skip
def test_who_may(verb: str, group: str, resource: str, roles: set[str]) -> None:
    every = ("view", "edit", "admin", "cluster-admin")
    assert {role for role in every if allowed(role, verb, group, resource)} == roles


def test_masters_alone_are_bound_to_everything() -> None:
    bindings: dict[str, Any] = {
        row["metadata"]["name"]: row for row in defaults.objects() if row["kind"] == "ClusterRoleBinding"
    }
    assert [subject["name"] for subject in bindings["cluster-admin"]["subjects"]] == ["system:masters"]
    assert {row["roleRef"]["name"] for row in bindings.values()} == set(bindings)
    assert all(
        row["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults" for row in defaults.objects()
    )


def test_view_is_part_of_edit_and_edit_of_admin() -> None:
    roles = {
        row["metadata"]["name"]: row["metadata"]["labels"] for row in defaults.objects() if row["kind"] == "ClusterRole"
    }
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert (roles["view"].get(f"{prefix}edit"), roles["edit"].get(f"{prefix}admin")) == ("true", "true")
