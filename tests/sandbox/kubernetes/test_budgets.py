"""Quotas and disruption budgets: what they count, what they let through, and the status that they show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.kubernetes.budgets_helpers import phase, pod

pytestmark = pytest.mark.emulator


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
