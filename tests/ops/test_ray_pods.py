from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach import connect, ray_pods
from hyperpod_ray.ops.reach.ray_pods import Pod

NAMED: Any = SimpleNamespace(name="demo")


NOW = datetime(2026, 11, 21, tzinfo=UTC)


def pod(name: str, *, role: str = "head", cluster: str = "ray", **more: Any) -> Pod:
    return Pod(
        name=name, namespace="ray", cluster=cluster, role=role, group="", phase=more.pop("phase", "Running"), **more
    )


@pytest.mark.parametrize(
    ("pods", "head", "says"),
    [
        ([pod("a", ready=True)], "a", ""),
        ([pod("a"), pod("b", ready=True)], "b", ""),
        ([pod("w", role="worker", ready=True), pod("a", ready=True)], "a", ""),
        ([pod("o", cluster="other", ready=True), pod("a", ready=True)], "a", ""),
        ([pod("g", ready=True, deleting_since=NOW), pod("a", ready=True)], "a", ""),
        ([], "", "does not exist"),
        ([pod("w", role="worker", ready=True)], "", "does not exist"),
        ([pod("o", cluster="other", ready=True)], "", "does not exist"),
        ([pod("g", ready=True, deleting_since=NOW)], "", "does not exist"),
        ([pod("a", phase="Pending")], "", "is Pending"),
        ([pod("a", reason="CrashLoopBackOff")], "", "is CrashLoopBackOff"),
    ],
)
def test_the_head_that_is_reached(monkeypatch: pytest.MonkeyPatch, pods: list[Pod], head: str, says: str) -> None:
    monkeypatch.setattr(ray_pods, "pods", lambda target, namespace: pods)
    if head:
        assert connect._head(NAMED, namespace="ray", cluster="ray") == head
    else:
        with pytest.raises(OpsError, match=f"the head of RayCluster 'ray' {says}") as refused:
            connect._head(NAMED, namespace="ray", cluster="ray")
        assert refused.value.fix == "hyperpod-ray wait demo --for ray"
