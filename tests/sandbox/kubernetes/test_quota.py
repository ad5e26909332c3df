from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.kubernetes.budgets_helpers import Json, phase, pod

pytestmark = pytest.mark.emulator


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
