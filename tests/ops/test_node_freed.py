"""`nodes free`: the out-of-service taint goes on the node that was looked at, and on no node that runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.orchestrators.eks.repair import EksRepair
from tests.ops.snapshots import instance, node

LOST = instance(1)
AUTOSCALERS = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}


class Api:
    """Kubernetes with one node; it remembers what was changed."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, dict[str, Any]]] = []

    def request(self, verb: str, path: str) -> dict[str, Any]:
        assert verb == "GET"
        return {"metadata": {"resourceVersion": "41"}, "spec": {"taints": [AUTOSCALERS]}}

    def patch(self, path: str, change: dict[str, Any]) -> None:
        self.changes.append((path, change))


def freed(api: Api, *, ready: bool) -> None:
    seen = SimpleNamespace(nodes=[node(LOST, ready=ready)], instances=[LOST], pods=[], unseen=[])
    target = SimpleNamespace(name="demo", kubernetes=api, aws=SimpleNamespace(require_account=lambda: None))
    nodes = SimpleNamespace(look=lambda: cast("Snapshot", seen))
    EksRepair(cast("Any", target), cast("Any", nodes)).free(LOST.id, yes=True)


def test_a_lost_node_gets_the_taint_beside_its_others_at_the_version_that_was_read() -> None:
    """Another version is refused by the API server: https://kubernetes.io/docs/reference/using-api/api-concepts/."""
    api = Api()
    freed(api, ready=False)
    ((path, change),) = api.changes
    assert path == f"/api/v1/nodes/{names.node_name(LOST.id)}"
    assert change["metadata"] == {"resourceVersion": "41"}
    # https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown
    ours = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    assert change["spec"]["taints"] == [AUTOSCALERS, ours]


def test_a_node_that_answers_is_left_alone() -> None:
    api = Api()
    with pytest.raises(OpsError, match="answers Kubernetes"):
        freed(api, ready=True)
    assert api.changes == []
