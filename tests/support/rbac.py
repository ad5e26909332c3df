"""Kubernetes' decision on one request of a group's member, by the rules of rendered Roles and ClusterRoles.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request: `resource` with its subresource (`pods/log`); namespace empty for the cluster's scope."""

    verb: str
    resource: str
    namespace: str = ""
    api_group: str = ""
    name: str = ""


def allows(objects: Iterable[Object], group: str, ask: Ask) -> bool:
    """Whether a binding for `group` gives a rule that allows it."""
    listed = list(objects)
    for binding in listed:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        if not any(s["kind"] == "Group" and s["name"] == group for s in binding["subjects"]):
            continue
        inside = binding["metadata"].get("namespace", "")
        if inside and inside != ask.namespace:
            continue
        if any(_allows(rule, ask) for rule in _rules(listed, binding, inside)):
            return True
    return False


def asked(method: str, path: str) -> Ask:
    """The request that an HTTP method and a path of the API make."""
    found = re.fullmatch(
        r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<space>[^/]+))?/(?P<kind>[^/]+)"
        r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?",
        path,
    )
    assert found, path
    verbs = {"GET": "get" if found["name"] else "list", "POST": "create", "DELETE": "delete", "PATCH": "patch"}
    resource = f"{found['kind']}/{found['sub']}" if found["sub"] else found["kind"]
    return Ask(
        verb=verbs[method],
        resource=resource,
        namespace=found["space"] or "",
        api_group=found["group"] or "",
        name=found["name"] or "",
    )


def _rules(objects: list[Object], binding: Object, namespace: str) -> list[Object]:
    reference = binding["roleRef"]
    for item in objects:
        same = item["kind"] == reference["kind"] and item["metadata"]["name"] == reference["name"]
        if same and (item["kind"] == "ClusterRole" or item["metadata"]["namespace"] == namespace):
            return list(item["rules"])
    raise AssertionError(f"binding to {reference}, which is not there")


def _allows(rule: Object, ask: Ask) -> bool:
    return (
        any(group in ("*", ask.api_group) for group in rule["apiGroups"])
        and any(resource in ("*", ask.resource) for resource in rule["resources"])
        and any(verb in ("*", ask.verb) for verb in rule["verbs"])
        # a rule with names never allows list, watch or create, which name nothing
        and (not rule.get("resourceNames") or ask.name in rule["resourceNames"])
    )
