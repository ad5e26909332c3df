"""Evaluates roles and bindings: who may do what, and who may give away what.

Source: plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac of Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes.authorization.users import Identity
from hyperpod_ray_sandbox.kubernetes.selectors import matches
from hyperpod_ray_sandbox.kubernetes.status import ApiError, not_found

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]

_GROUP = "rbac.authorization.k8s.io"
# EKS' access policies and the roles whose rights they give
EKS_POLICIES = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
}


@dataclass(frozen=True)
class Action:
    """What a request does: a verb on a resource, or on a path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def sentence(self, user: Identity) -> str:
        """The refusal, as the API server words it."""
        if self.path:
            return f'User "{user.username}" cannot {self.verb} path "{self.path}"'
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return (
            f'User "{user.username}" cannot {self.verb} resource "{self.resource}" in API group "{self.group}" {scope}'
        )

    def refusal(self, user: Identity) -> ApiError:
        """403."""
        if self.path:
            return ApiError(403, "Forbidden", f"forbidden: {self.sentence(user)}")
        plain = self.resource.partition("/")[0]
        target = f"{plain}.{self.group}" if self.group else plain
        named = f' "{self.name}"' if self.name else ""
        details = {"name": self.name, "group": self.group, "kind": plain}
        return ApiError(403, "Forbidden", f"{target}{named} is forbidden: {self.sentence(user)}", details)


def _one(requested: str, allowed: list[str]) -> bool:
    return "*" in allowed or requested in allowed


def _resource(requested: str, allowed: list[str]) -> bool:
    sub = requested.partition("/")[2]
    return _one(requested, allowed) or bool(sub and f"*/{sub}" in allowed)


def _path(requested: str, allowed: list[str]) -> bool:
    return any(g in ("*", requested) or (g.endswith("*") and requested.startswith(g[:-1])) for g in allowed)


def covers(rule: Json, action: Action) -> bool:
    """Whether a rule allows an action."""
    if not _one(action.verb, rule.get("verbs") or []):
        return False
    if action.path:
        return _path(action.path, rule.get("nonResourceURLs") or [])
    restricted = rule.get("resourceNames") or []
    return (
        _one(action.group, rule.get("apiGroups") or [])
        and _resource(action.resource, rule.get("resources") or [])
        and (not restricted or action.name in restricted)
    )


def _single(rule: Json) -> Iterator[Action]:
    """The actions that a rule allows, one by one."""
    for verb in rule.get("verbs") or []:
        for path in rule.get("nonResourceURLs") or []:
            yield Action(verb, path=path)
        for group in rule.get("apiGroups") or []:
            for resource in rule.get("resources") or []:
                for name in rule.get("resourceNames") or [""]:
                    yield Action(verb, group, resource, name=name)


class Rbac:
    """Reads roles and bindings from the store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def _objects(self, plural: str, namespace: str = "") -> list[Json]:
        return self.store.objects(f"{_GROUP}/{plural}", namespace)

    def _has_role(self, reference: Json, namespace: str) -> bool:
        """Whether the role that a binding refers to is there."""
        named = str(reference.get("name"))
        if reference.get("kind") == "Role":
            return self.store.get((f"{_GROUP}/roles", namespace, named)) is not None
        return self.store.get((f"{_GROUP}/clusterroles", "", named)) is not None

    def role_rules(self, reference: Json, namespace: str) -> list[Json]:
        """The rules of the role that a binding refers to, aggregated ones included."""
        if reference.get("kind") == "Role":
            role = self.store.get((f"{_GROUP}/roles", namespace, str(reference.get("name"))))
        else:
            role = self.store.get((f"{_GROUP}/clusterroles", "", str(reference.get("name"))))
        if role is None:
            return []
        rules = list(role.get("rules") or [])
        for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []:
            for candidate in self._objects("clusterroles"):
                if candidate is not role and matches(selector, candidate["metadata"].get("labels") or {}):
                    rules += candidate.get("rules") or []
        return rules

    def rules(self, user: Identity, namespace: str) -> list[Json]:
        """What a user may do, in a namespace (or, without one, at the cluster scope)."""
        return [rule for rules, _ in self._grants(user, namespace) for rule in rules]

    def _grants(self, user: Identity, namespace: str) -> Iterator[tuple[list[Json], str]]:
        """The rules that a user has, with what gives them."""
        for binding in self._objects("clusterrolebindings"):
            if subject := _bound(binding, user, ""):
                yield self.role_rules(binding.get("roleRef") or {}, ""), _described(binding, subject)
        for policy in user.policies:
            scope = policy.get("scope") or {}
            if scope.get("type") != "namespace" or namespace in (scope.get("namespaces") or []):
                role = EKS_POLICIES.get(str(policy.get("policy")).rpartition("/")[2], "")
                rules = self.role_rules({"kind": "ClusterRole", "name": role}, "")
                yield rules, f"EKS Access Policy: allowed by {policy.get('policy')}"
        for binding in self._objects("rolebindings", namespace) if namespace else ():
            if subject := _bound(binding, user, namespace):
                yield self.role_rules(binding.get("roleRef") or {}, namespace), _described(binding, subject)

    def allowed(self, user: Identity, action: Action) -> bool:
        """Whether a user may do something."""
        return self.decision(user, action)[0]

    def decision(self, user: Identity, action: Action) -> tuple[bool, str]:
        """Whether a user may do something, and by what."""
        if user.all_powerful:
            return True, ""
        grants = self._grants(user, action.namespace)
        reason = next((why for rules, why in grants if any(covers(rule, action) for rule in rules)), None)
        return reason is not None, reason or ""

    def answer(self, check: Json) -> tuple[bool, str]:
        """Whether a user may do what an expression asks, and by what; selectors decide nothing."""
        user = Identity(check["user"], tuple(check["groups"]))
        sub = f"/{check['subresource']}" if check.get("subresource") else ""
        action = Action(
            check["verb"],
            check.get("group", ""),
            check.get("resource", "") + sub,
            check.get("namespace", ""),
            check.get("name", ""),
            check.get("path", ""),
        )
        return self.decision(user, action)

    def require(self, user: Identity, action: Action) -> None:
        """Raise 403 where a user may not do something."""
        if not self.allowed(user, action):
            raise action.refusal(user)

    def check_grant(self, user: Identity, plural: str, obj: Json, namespace: str) -> None:
        """Refuse a role or binding that would give more than its author has; raises 403."""
        if user.all_powerful:
            return
        name = obj["metadata"].get("name", "")
        verb, requested = "escalate", list(obj.get("rules") or [])
        about = Action(verb, _GROUP, plural, namespace, name)
        if plural.endswith("bindings"):
            reference = obj.get("roleRef") or {}
            requested = self.role_rules(reference, namespace)
            role_plural = "roles" if reference.get("kind") == "Role" else "clusterroles"
            about = Action("bind", _GROUP, role_plural, namespace, str(reference.get("name")))
        if self.allowed(user, about):
            return
        if about.verb == "bind" and not self._has_role(reference, namespace):
            raise not_found(about.resource, _GROUP, str(reference.get("name")))
        owned = self.rules(user, namespace)
        lacking = [rule for rule in requested if any(not any(covers(o, a) for o in owned) for a in _single(rule))]
        if lacking:
            groups = json.dumps(list(user.groups))
            raise ApiError(
                403,
                "Forbidden",
                f'{plural}.{_GROUP} "{name}" is forbidden: user "{user.username}" (groups={groups}) is '
                f"attempting to grant RBAC permissions not currently held:\n{_shown(lacking)}",
                {"name": name, "group": _GROUP, "kind": plural},
            )


def _shown(rules: list[Json]) -> str:
    keys = {"apiGroups": "APIGroups", "resources": "Resources", "resourceNames": "ResourceNames"}
    keys |= {"nonResourceURLs": "NonResourceURLs", "verbs": "Verbs"}
    lines = []
    for rule in rules:
        parts = [f"{label}:{rule[key]}" for key, label in keys.items() if rule.get(key)]
        lines.append("{" + ", ".join(parts).replace("'", '"') + "}")
    return "\n".join(lines)


def _described(binding: Json, subject: Json) -> str:
    """What gives a right, as the server says it."""
    meta, reference = binding["metadata"], binding.get("roleRef") or {}
    subject_kind, name = subject.get("kind"), str(subject.get("name"))
    if subject_kind == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or meta.get('namespace', '')}"
    space = f"/{meta['namespace']}" if meta.get("namespace") else ""
    binding_kind = "RoleBinding" if space else "ClusterRoleBinding"
    role = f'{reference.get("kind")} "{reference.get("name")}"'
    return f'RBAC: allowed by {binding_kind} "{meta["name"]}{space}" of {role} to {subject_kind} "{name}"'


def _bound(binding: Json, user: Identity, namespace: str) -> Json | None:
    """The subject of a binding that a user is."""
    for subject in binding.get("subjects") or []:
        subject_kind, name = subject.get("kind"), subject.get("name")
        if subject_kind == "User" and name == user.username:
            return dict(subject)
        if subject_kind == "Group" and name in user.groups:
            return dict(subject)
        if subject_kind == "ServiceAccount":
            home = subject.get("namespace") or namespace
            if user.username == f"system:serviceaccount:{home}:{name}":
                return dict(subject)
    return None
