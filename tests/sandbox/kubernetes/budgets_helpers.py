"""What tests of `budgets`, `eviction`, `pod_security`, `quota` share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

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


def phase(cluster: Any, name: str, wanted: str) -> None:
    cluster.until(lambda: cluster.get("pod", name, "-n", "bud")["status"].get("phase") == wanted, f"{name} {wanted}")
