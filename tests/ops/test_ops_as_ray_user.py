"""What a researcher may do and sees: the rendered rules, and `ops` answered by exactly those."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.change import wait
from hyperpod_ray.ops.errors import ApiError
from hyperpod_ray.ops.observe.snapshot import Cluster, Node
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.reach import connect
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.verdict import judge
from tests.ops.world import environment_text
from tests.support.rbac import Ask, allows, asked

USERS = """
eks:
  ray_users:
    - {role_arn: "arn:aws:iam::000000000001:role/Researcher", namespaces: [ray]}
    - {role_arn: "arn:aws:iam::000000000001:role/Other", namespaces: [theirs]}
"""
GROUP = "ray-users:ray"


def made() -> Target:
    return Target(parse(environment_text() + USERS, name="demo", path=Path("demo.yaml")))


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    plan = made().plan
    manifests = {m.name: m for m in k8s.namespace_manifests(plan)}
    return manifests["Access"].objects


ALLOWED = [
    *(Ask(verb=v, resource=r, namespace="ray", api_group="ray.io", name="x")
      for v in ("get", "list", "watch", "create", "update", "patch", "delete")
      for r in ("rayclusters", "rayjobs", "raycronjobs")),
    Ask(verb="get", resource="rayclusters/status", namespace="ray", api_group="ray.io", name="x"),
    Ask(verb="list", resource="pods", namespace="ray"),
    Ask(verb="get", resource="pods/log", namespace="ray", name="x"),
    Ask(verb="create", resource="pods/portforward", namespace="ray", name="x"),
    Ask(verb="get", resource="pods/portforward", namespace="ray", name="x"),
    Ask(verb="create", resource="configmaps", namespace="ray"),
    Ask(verb="list", resource="events", namespace="ray"),
    Ask(verb="list", resource="persistentvolumeclaims", namespace="ray"),
    Ask(verb="list", resource="jobs", namespace="ray", api_group="batch"),
    Ask(verb="list", resource="localqueues", namespace="ray", api_group="kueue.x-k8s.io"),
    Ask(verb="get", resource="secrets", namespace="ray", name="ray"),
    *(Ask(verb=v, resource="nodes", name="n") for v in ("get", "list", "watch")),
]  # fmt: skip
REFUSED = [
    Ask(verb="list", resource="secrets", namespace="ray"),
    Ask(verb="watch", resource="secrets", namespace="ray"),
    Ask(verb="get", resource="secrets", namespace="ray", name="other"),
    Ask(verb="create", resource="secrets", namespace="ray"),
    Ask(verb="update", resource="secrets", namespace="ray", name="ray"),
    Ask(verb="create", resource="pods", namespace="ray"),
    Ask(verb="delete", resource="pods", namespace="ray", name="x"),
    Ask(verb="create", resource="pods/exec", namespace="ray", name="x"),
    Ask(verb="get", resource="pods/exec", namespace="ray", name="x"),
    Ask(verb="create", resource="pods/attach", namespace="ray", name="x"),
    Ask(verb="update", resource="pods/ephemeralcontainers", namespace="ray", name="x"),
    *(Ask(verb=v, resource="networkpolicies", namespace="ray", api_group="networking.k8s.io", name="x")
      for v in ("create", "update", "patch", "delete")),
    *(Ask(verb=v, resource="persistentvolumeclaims", namespace="ray", name="fsx")
      for v in ("create", "update", "patch", "delete")),
    Ask(verb="impersonate", resource="serviceaccounts", namespace="ray", name="ray"),
    Ask(verb="create", resource="serviceaccounts/token", namespace="ray", name="ray"),
    Ask(verb="create", resource="roles", namespace="ray", api_group="rbac.authorization.k8s.io"),
    Ask(verb="create", resource="rolebindings", namespace="ray", api_group="rbac.authorization.k8s.io"),
    Ask(verb="create", resource="jobs", namespace="ray", api_group="batch"),
    Ask(verb="create", resource="deployments", namespace="ray", api_group="apps"),
    Ask(verb="create", resource="localqueues", namespace="ray", api_group="kueue.x-k8s.io"),
    Ask(verb="list", resource="pods", namespace="theirs"),
    Ask(verb="list", resource="pods", namespace="kube-system"),
    Ask(verb="list", resource="namespaces"),
    *(Ask(verb=v, resource="nodes", name="n") for v in ("update", "patch", "delete", "create")),
    Ask(verb="get", resource="nodes/proxy", name="n"),
]  # fmt: skip


@pytest.mark.parametrize("ask", ALLOWED, ids=str)
def test_a_researcher_may(rules: list[dict[str, Any]], ask: Ask) -> None:
    assert allows(rules, GROUP, ask)


@pytest.mark.parametrize("ask", REFUSED, ids=str)
def test_a_researcher_may_not(rules: list[dict[str, Any]], ask: Ask) -> None:
    assert not allows(rules, GROUP, ask)


def test_a_stranger_may_nothing(rules: list[dict[str, Any]]) -> None:
    assert not any(allows(rules, "ray-users:elsewhere", ask) for ask in ALLOWED)


def forbidden() -> ApiError:
    return ApiError(status=403, reason="Forbidden", body='{"message": "it is forbidden"}')


RAY = {
    "metadata": {"name": "ray", "namespace": "ray"},
    "spec": {"workerGroupSpecs": [{"replicas": 2}]},
    "status": {"state": "ready", "readyWorkerReplicas": 2, "desiredWorkerReplicas": 2},
}


def pod(name: str, role: str) -> dict[str, Any]:
    labels = {"ray.io/cluster": "ray", "ray.io/node-type": role}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": name, "namespace": "ray", "labels": labels}
    return {"metadata": meta, "spec": {"nodeName": f"hyperpod-i-{name}"}, "status": status}


PODS = [pod("head", "head"), pod("one", "worker"), pod("two", "worker")]


class Api:
    """A Kubernetes API that decides by rendered rules and holds one ready RayCluster."""

    def __init__(self, rules: list[dict[str, Any]]) -> None:
        self._rules = rules

    def items(self, path: str, **_: str) -> list[dict[str, Any]]:
        if not allows(self._rules, GROUP, asked("GET", path)):
            raise forbidden()
        return {"rayclusters": [RAY], "pods": PODS}.get(path.rpartition("/")[2], []) if "/ray/" in path else []

    def request(self, method: str, path: str, **_: Any) -> dict[str, Any]:
        if not allows(self._rules, GROUP, asked(method, path)):
            raise forbidden()
        return {"data": {"auth_token": "dG9rZW4="}}


class Aws:
    def require_account(self) -> str:
        return ""


@pytest.fixture
def target(rules: list[dict[str, Any]]) -> Target:
    found = made()
    found.aws = Aws()  # type: ignore[assignment]
    found.__dict__["kubernetes"] = Api(rules)
    return found


def test_ops_sees_everything_of_ones_own_and_says_what_is_not(target: Target) -> None:
    seen = gather.snapshot(target, only=("Kubernetes",))
    assert [ray.name for ray in seen.ray_clusters] == ["ray"]
    assert seen.saw_nodes
    assert [(item.source, item.refused) for item in seen.unseen] == [("namespace theirs", True)]


def test_a_ready_raycluster_shows_where_nodes_may_not_be_seen(rules: list[dict[str, Any]], target: Target) -> None:
    target.__dict__["kubernetes"] = Api([rule for rule in rules if not rule["kind"].startswith("Cluster")])
    seen = gather.snapshot(target, only=("Kubernetes",))
    assert [ray.state for ray in seen.ray_clusters] == ["ready"]
    assert not seen.saw_nodes
    verdict = judge(seen)
    assert verdict.state == "Healthy", verdict.findings
    assert "Kubernetes nodes: not yours to see" in [finding.what for finding in verdict.findings]
    assert "Kubernetes nodes" in verdict.without
    assert wait._ray(seen).done


@pytest.mark.parametrize(
    ("kind", "hidden"),
    [
        ("events", "warnings of namespace ray"),
        ("persistentvolumeclaims", "volume claims of namespace ray"),
        ("rayjobs", "RayJobs of namespace ray"),
        ("rayclusters", "RayClusters of namespace ray"),
        ("pods", "pods of namespace ray"),
    ],
)
def test_one_list_that_is_forbidden_hides_no_other(
    rules: list[dict[str, Any]], target: Target, kind: str, hidden: str
) -> None:
    class Without(Api):
        def items(self, path: str, **more: str) -> list[dict[str, Any]]:
            if path.endswith(f"/ray/{kind}"):
                raise forbidden()
            return super().items(path, **more)

    target.__dict__["kubernetes"] = Without(rules)
    seen = gather.snapshot(target, only=("Kubernetes",))
    assert [item.source for item in seen.unseen] == [hidden, "namespace theirs"]
    assert (bool(seen.ray_clusters), bool(seen.pods)) == (kind != "rayclusters", kind != "pods")
    verdict = judge(replace(seen, nodes=tuple(Node(name=pod.node, ready=True) for pod in seen.pods)))
    assert verdict.state == "Healthy", verdict.findings
    assert verdict.without == (hidden, "namespace theirs")


def test_controllers_that_may_not_be_seen_are_said(target: Target) -> None:
    seen = gather.snapshot(target, only=("Kubernetes", "controllers"))
    assert not seen.controllers
    assert {item.source for item in seen.unseen if item.source.startswith("controllers")} == {
        f"controllers of {namespace}" for namespace in ("kuberay-operator", "kube-system", "aws-hyperpod", "node-guard")
    }
    assert all(item.refused for item in seen.unseen)


def test_a_namespace_of_ones_own_that_is_refused_is_no_small_thing(target: Target) -> None:
    target.__dict__["kubernetes"] = Api([])
    seen = gather.snapshot(target, only=("Kubernetes",))
    assert not seen.saw("Kubernetes")
    assert judge(seen).state == "Action required"
    cluster = Cluster(name="c", arn="a", status="InService", failure="", node_recovery="Automatic", created=None)
    assert wait._ray(replace(seen, cluster=cluster)).phase.startswith("not known")


def test_submit_and_connect_get_the_token_and_no_other_secret(target: Target) -> None:
    assert connect.token(target) == "token"
    target.plan.settings.ray.__dict__["cluster_name"] = "another"
    with pytest.raises(ApiError):
        connect.token(target)
