"""Quotas and disruption budgets: what they count, what they let through, and the status that they show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.emulator
Json = dict[str, Any]


@pytest.fixture
def namespace(cluster: Any) -> Iterator[str]:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bud"}})
    yield "bud"
    cluster.kubectl("delete", "namespace", "bud")


def pod(name: str, *, policy: str = "Always", selector: Json | None = None, cpu: str = "100m", **labels: str) -> Json:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"restartPolicy": policy, "containers": [container], "nodeSelector": selector or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "bud", "labels": labels},
            "spec": spec}  # fmt: skip


def disruption_budget(**spec: int) -> Json:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "bud"},
            "spec": {**spec, "selector": {"matchLabels": {"a": "b"}}}}  # fmt: skip


def phase(cluster: Any, name: str, wanted: str) -> None:
    cluster.until(lambda: cluster.get("pod", name, "-n", "bud")["status"].get("phase") == wanted, f"{name} {wanted}")


def evict(cluster: Any, name: str) -> str:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "bud"}}
    path = f"/api/v1/namespaces/bud/pods/{name}/eviction"
    done = cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body), ok=False)
    return "" if done.returncode == 0 else str(done.stderr)


def test_ended_pods_use_no_quota_and_the_status_says_what_is_used(cluster: Any, namespace: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": namespace},
             "spec": {"hard": {"pods": "1", "requests.cpu": "1"}}}  # fmt: skip
    cluster.apply(quota, pod("runs", cpu="250m"))

    def status() -> Json:
        return dict(cluster.get("quota", "q", "-n", namespace).get("status") or {})

    hard = {"pods": "1", "requests.cpu": "1"}
    phase(cluster, "runs", "Running")
    cluster.until(lambda: status() == {"hard": hard, "used": {"pods": "1", "requests.cpu": "250m"}}, "usage")
    cluster.kubectl("delete", "pod", "runs", "-n", namespace, "--now")
    cluster.apply(pod("ends", policy="Never", cpu="250m"))
    phase(cluster, "ends", "Succeeded")
    cluster.until(lambda: status()["used"] == {"pods": "0", "requests.cpu": "0"}, "an ended pod uses nothing")
    cluster.apply(pod("second"))
    refused = cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod("third")), ok=False)
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in refused.stderr


def test_pending_pods_may_go_whatever_a_budget_says(cluster: Any, namespace: str) -> None:
    budget = disruption_budget(minAvailable=2)
    cluster.apply(budget, pod("runs", a="b"), pod("waits", selector={"none": "such"}, a="b"))
    phase(cluster, "runs", "Running")
    assert "disruption budget" in evict(cluster, "runs")
    assert evict(cluster, "waits") == ""


def test_at_most_so_many_unavailable(cluster: Any, namespace: str) -> None:
    budget = disruption_budget(maxUnavailable=1)
    cluster.apply(budget, pod("one", a="b"), pod("two", a="b"), pod("three", selector={"none": "such"}, a="b"))
    for name in ("one", "two"):
        phase(cluster, name, "Running")

    def shown() -> tuple[Any, ...]:
        status = cluster.get("pdb", "b", "-n", namespace).get("status") or {}
        numbers = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        conditions = {c["type"]: c["status"] for c in status.get("conditions") or []}
        return (*(status.get(n) for n in numbers), conditions.get("DisruptionAllowed"))

    cluster.until(lambda: shown() == (3, 2, 2, 0, "False"), "one of three is unavailable already")
    assert "disruption budget" in evict(cluster, "one")
    cluster.kubectl("delete", "pod", "three", "-n", namespace)
    cluster.until(lambda: shown() == (2, 1, 2, 1, "True"), "one of two may go")
    assert evict(cluster, "one") == ""


def test_the_node_of_a_pod_does_not_change(cluster: Any, namespace: str) -> None:
    cluster.apply(pod("stays"))
    phase(cluster, "stays", "Running")
    node = cluster.get("pod", "stays", "-n", namespace)["spec"]["nodeName"]
    other = "cpu-2" if node == "cpu-1" else "cpu-1"
    patch = json.dumps({"spec": {"nodeName": other}})
    refused = cluster.kubectl("patch", "pod", "stays", "-n", namespace, "-p", patch, ok=False)
    assert "pod updates may not change fields other than" in refused.stderr
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "stays", "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": other}}  # fmt: skip
    path = f"/api/v1/namespaces/{namespace}/pods/stays/binding"
    bound = cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body), ok=False)
    assert bound.returncode != 0
    assert cluster.get("pod", "stays", "-n", namespace)["spec"]["nodeName"] == node


def test_pod_security_warns_where_it_does_not_enforce(cluster: Any, namespace: str) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted")
    said = cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod("loose"))).stderr
    assert 'Warning: would violate PodSecurity "restricted:latest"' in said
    assert "allowPrivilegeEscalation != false" in said
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": namespace},
                  "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}}  # fmt: skip
    assert "would violate" in cluster.kubectl("apply", "-f", "-", stdin=json.dumps(deployment)).stderr
    quiet = cluster.kubectl(
        "label", "namespace", namespace, "pod-security.kubernetes.io/warn=privileged", "--overwrite"
    )
    assert quiet.returncode == 0
    assert "would violate" not in cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod("free"))).stderr
