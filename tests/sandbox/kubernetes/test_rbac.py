"""Who may do what: names in roles, the scope of EKS access policies, and speaking as somebody else."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.authorization.rbac import Action, Rbac
from hyperpod_ray_sandbox.kubernetes.authorization.users import Identity

Json = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"


class Store:
    """Roles and bindings by their place."""

    def __init__(self, *objects: Json) -> None:
        self._objects = objects

    def objects(self, kind: str, namespace: str = "") -> list[Json]:
        plural = kind.rpartition("/")[2]
        return [
            o for o in self._objects
            if o["kind"].lower() + "s" == plural and namespace in ("", o["metadata"].get("namespace", ""))
        ]  # fmt: skip

    def get(self, key: tuple[str, str, str]) -> Json | None:
        kind, namespace, name = key
        return next((o for o in self.objects(kind, namespace) if o["metadata"]["name"] == name), None)


def rbac(*objects: Json) -> Rbac:
    store: Any = Store(*objects)
    return Rbac(store)


def role(*rules: Json, kind: str = "Role", name: str = "some", namespace: str = "ray") -> Json:
    place = {"namespace": namespace} if kind == "Role" else {}
    return {"kind": kind, "metadata": {"name": name, **place}, "rules": list(rules)}


def binding(user: str, *, kind: str = "RoleBinding", of: str = "Role", name: str = "some") -> Json:
    place = {"namespace": "ray"} if kind == "RoleBinding" else {}
    subjects = [{"kind": "User", "name": user}]
    return {
        "kind": kind,
        "metadata": {"name": name, **place},
        "roleRef": {"kind": of, "name": name},
        "subjects": subjects,
    }


def test_a_rule_with_names_is_for_these_objects_only() -> None:
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"], "resourceNames": ["token"]}
    rights, ana = rbac(role(rule), binding("ana")), Identity("ana")
    assert rights.allowed(ana, Action("get", "", "secrets", "ray", "token"))
    assert not rights.allowed(ana, Action("get", "", "secrets", "ray", "other"))
    assert not rights.allowed(ana, Action("list", "", "secrets", "ray")), "a list has no name"
    assert not rights.allowed(ana, Action("get", "", "secrets", "prod", "token"))


def test_names_may_not_be_widened_by_a_grant() -> None:
    narrow = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["token"]}
    wide = {key: value for key, value in narrow.items() if key != "resourceNames"}
    rights, ana = rbac(role(narrow), binding("ana")), Identity("ana")
    rights.check_grant(ana, "roles", role(narrow, name="new"), "ray")
    with pytest.raises(Exception, match="not currently held"):
        rights.check_grant(ana, "roles", role(wide, name="new"), "ray")


@pytest.mark.parametrize(
    ("scope", "here", "there", "nodes"),
    [
        ({"type": "cluster"}, True, True, True),
        ({"type": "namespace", "namespaces": ["ray"]}, True, False, False),
    ],
)
def test_the_scope_of_an_access_policy(scope: Json, *, here: bool, there: bool, nodes: bool) -> None:
    rule = {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get"]}
    policy = {"policy": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy", "scope": scope}
    rights = rbac(role(rule, kind="ClusterRole", name="view"))
    user = Identity("ana", (), (policy,))
    assert rights.allowed(user, Action("get", "", "pods", "ray", "a")) is here
    assert rights.allowed(user, Action("get", "", "pods", "prod", "a")) is there
    assert rights.allowed(user, Action("get", "", "nodes", name="n")) is nodes


@pytest.mark.emulator
def test_speaking_as_somebody_else_needs_the_right(cluster: Any) -> None:
    rules = [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["bea"]}]
    version = f"{GROUP}/v1"
    cluster.apply(
        {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "as-bea"}, "rules": rules},
        {"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "as-bea"},
         "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "as-bea"},
         "subjects": [{"kind": "ServiceAccount", "name": "speaker", "namespace": "default"}]},
    )  # fmt: skip
    speaker = "system:serviceaccount:default:speaker"
    mine = ("auth", "can-i", "impersonate", "users/bea", "--as", speaker)
    assert cluster.kubectl(*mine).stdout.strip() == "yes"
    for other in ("users/carl", "groups/system:masters", "serviceaccounts/default"):
        denied = cluster.kubectl("auth", "can-i", "impersonate", other, "--as", speaker, ok=False)
        assert denied.stdout.strip() == "no", other
