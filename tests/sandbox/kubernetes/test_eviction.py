from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.kubernetes.budgets_helpers import Json, phase, pod

pytestmark = pytest.mark.emulator


def disruption_budget(**spec: int) -> Json:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "bud"},
            "spec": {**spec, "selector": {"matchLabels": {"a": "b"}}}}  # fmt: skip


def evict(cluster: Any, name: str) -> str:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "bud"}}
    path = f"/api/v1/namespaces/bud/pods/{name}/eviction"
    done = cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body), ok=False)
    return "" if done.returncode == 0 else str(done.stderr)


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
