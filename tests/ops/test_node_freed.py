"""`nodes free`: the out-of-service taint goes on the node that was looked at, and on no node that runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe.snapshot import NODES, Snapshot, Unseen
from hyperpod_ray.ops.orchestrators.eks.repair import EksRepair
from hyperpod_ray.ops.reach.ray_pods import Pod
from tests.ops.snapshots import instance, node

LOST = instance(1)
TAINT = "node.kubernetes.io/out-of-service"
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


def freed(api: Api, *, ready: bool = False, name: str = LOST.id, **more: Any) -> None:
    usual = {"nodes": [node(LOST, ready=ready)], "instances": [LOST], "pods": [], "unseen": []}
    seen = SimpleNamespace(**usual | more)
    target = SimpleNamespace(name="demo", kubernetes=api, aws=SimpleNamespace(require_account=lambda: None))
    nodes = SimpleNamespace(look=lambda: cast("Snapshot", seen))
    EksRepair(cast("Any", target), cast("Any", nodes)).free(name, yes=True)


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


def test_it_says_what_is_known_of_the_node_and_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions: list[tuple[str, bool]] = []
    monkeypatch.setattr(output, "confirm", lambda text, *, yes: questions.append((text, yes)))
    name, since = names.node_name(LOST.id), datetime(2026, 11, 21, 17, 40, tzinfo=UTC)
    ray = [
        Pod(name=pod, namespace="ray", cluster="ray", role=role, group="", phase="Running", node=host)
        for pod, role, host in (("w1", "worker", name), ("h", "head", name), ("w2", "worker", "hyperpod-i-2"))
    ]
    monkeypatch.setattr(output, "now", lambda: since)
    lost = replace(node(LOST, ready=False), since=since)
    freed(Api(), nodes=[lost], pods=ray)
    freed(Api(), nodes=[lost], instances=[])
    assert questions == [(f"Free the pods of {name}?", True)] * 2
    done = f"its pods go within a minute; should the node come back: kubectl taint node {name} {TAINT}-"
    assert capsys.readouterr().err.splitlines() == [
        f"free {name}: not ready since {output.clock(since)}; it has w1 (worker), h (head)",
        f"  HyperPod says {LOST.status}; be sure that it does not run any more",
        done,
        f"free {name}: not ready since {output.clock(since)}; it has no Ray pods",
        "  HyperPod says it is gone; be sure that it does not run any more",
        done,
    ]


OTHER = "i-0123456789abcdef9"
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a node that answers": (
        {"ready": True},
        f"node {names.node_name(LOST.id)} answers Kubernetes. Expected a lost node: freed pods of a live one run twice",
        f"hyperpod-ray nodes reboot demo {LOST.id}",
    ),
    "a node that is nowhere": (
        {"name": OTHER}, f"node: '{names.node_name(OTHER)}' is not in Kubernetes. Expected the name of a node",
        "hyperpod-ray nodes demo",
    ),
    "Kubernetes is away": (
        {"unseen": [Unseen(source="Kubernetes", why="it is away", next="connect to the VPC")]}, "it is away",
        "connect to the VPC",
    ),
    "nodes may not be seen": (
        {"unseen": [Unseen(source=NODES, why="nodes is forbidden")]}, "nodes is forbidden", "run the command again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_known_to_be_lost_is_left_alone(case: str) -> None:
    given, message, fix = REFUSED[case]
    api = Api()
    with pytest.raises(OpsError) as caught:
        freed(api, **given)
    assert (caught.value.message, caught.value.fix) == (message, fix)
    assert api.changes == []
    freed(api, unseen=[Unseen(source="FSx", why="it is away")])
    assert len(api.changes) == 1, "another source that is away is no reason"
