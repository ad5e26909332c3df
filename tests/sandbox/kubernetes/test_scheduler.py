"""Many pods at once: the scheduler ends each pass early, goes on where it ended, and adds requests up once a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers import scheduler
from hyperpod_ray_sandbox.kubernetes.controllers.common import set_status
from hyperpod_ray_sandbox.kubernetes.controllers.scheduler import Scheduler
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]


def node(name: str, cpu: str = "4") -> Json:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str = "3") -> Json:
    container = {"name": "c", "image": "b", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(Store(tmp_path / "objects.sqlite"))


def fill(api: Api, nodes: list[Json], pods: list[Json]) -> None:
    for body in nodes:
        api.create(api.kind("v1", "Node"), "", body, trusted=True)
    for body in pods:
        api.create(api.kind("v1", "Pod"), "default", body)


def places(api: Api) -> dict[str, str]:
    return {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in api.all("v1", "Pod", "default")}


def test_a_pass_that_ends_early_goes_on_with_the_next_pod(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "PASS_SECONDS", -1)
    fill(api, [node("n1"), node("n2")], [pod("huge", cpu="9"), pod("a"), pod("b")])
    passes = Scheduler(api)
    for bound in (0, 1, 2):
        api.store.changed.clear()
        passes.reconcile()
        assert sum(map(bool, places(api).values())) == bound, "one pod a pass, and none twice while others wait"
        assert api.store.changed.is_set()
    passes.reconcile()
    assert places(api)["huge"] == ""
    api.create(api.kind("v1", "Node"), "", node("n3", cpu="16"), trusted=True)
    for _ in range(3):
        passes.reconcile()
    assert places(api)["huge"] == "n3", "a new round looks at it again"


def test_what_is_bound_in_a_pass_counts_in_it(api: Api) -> None:
    fill(api, [node("n1"), node("n2")], [pod("a"), pod("b"), pod("c")])
    Scheduler(api).reconcile()
    assert sorted(places(api).values()) == ["", "n1", "n2"]


def test_requests_are_added_up_once_a_pod(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 pods on 30 nodes: once when it waits, once when it runs; a sum for each pair would be thousands."""
    asked: list[str] = []
    counted = scheduler.requests

    def count(body: Json) -> Any:
        asked.append(body["metadata"]["name"])
        return counted(body)

    monkeypatch.setattr(scheduler, "requests", count)
    monkeypatch.setattr(scheduler, "PASS_SECONDS", 3600)
    fill(api, [node(f"n{number}") for number in range(30)], [pod(f"p{number}") for number in range(30)])
    Scheduler(api).reconcile()
    assert all(places(api).values())
    assert len(asked) == 60


def test_a_pod_that_fits_nowhere_keeps_no_other_from_its_turn(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the first of each round, and that it still fits nowhere changes nothing that would put it last."""
    monkeypatch.setattr(scheduler, "PASS_SECONDS", -1)
    fill(api, [node("n1")], [pod("huge", cpu="9")])
    passes = Scheduler(api)
    for _ in range(3):
        passes.reconcile()
    fill(api, [], [pod("a")])
    for _ in range(3):
        passes.reconcile()
    assert places(api) == {"huge": "", "a": "n1"}


def claimed(name: str, claim: str) -> Json:
    body = pod(name, cpu="1")
    body["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return body


def claim_of(api: Api, mode: str) -> Json:
    kind = {
        "metadata": {"name": "waits"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    api.create(api.kind("storage.k8s.io/v1", "StorageClass"), "", kind)
    spec = {"accessModes": [mode], "storageClassName": "waits", "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "state"}, "spec": spec}
    return api.create(api.kind("v1", "PersistentVolumeClaim"), "default", body)


def bind(api: Api, zone: str) -> None:
    """What provisioner and volume controller do."""
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
    spec = {
        "accessModes": ["ReadWriteOncePod"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    api.create(api.kind("v1", "PersistentVolume"), "", {"metadata": {"name": "pv"}, "spec": spec})
    claim = api.find("v1", "PersistentVolumeClaim", "default", "state")
    assert claim is not None
    api.modify(claim, lambda current: current["spec"].update(volumeName="pv"))
    set_status(api, claim, lambda status: status.update(phase="Bound"))


def in_zone(name: str, zone: str) -> Json:
    body = node(name)
    body["metadata"]["labels"] = {"topology.kubernetes.io/zone": zone}
    return body


def test_a_claim_that_waits_learns_its_node_before_the_pod_is_bound(api: Api) -> None:
    """https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode"""
    claim_of(api, "ReadWriteOnce")
    fill(api, [in_zone("n1", "us-west-2a")], [claimed("a", "state")])
    Scheduler(api).reconcile()
    claim = api.find("v1", "PersistentVolumeClaim", "default", "state")
    assert claim is not None
    assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n1"
    assert places(api) == {"a": ""}
    bind(api, "us-west-2a")
    Scheduler(api).reconcile()
    assert places(api) == {"a": "n1"}


def test_a_volume_keeps_its_pod_in_its_zone(api: Api) -> None:
    claim_of(api, "ReadWriteOnce")
    bind(api, "us-west-2a")
    fill(api, [in_zone("n1", "us-west-2b")], [claimed("a", "state")])
    Scheduler(api).reconcile()
    assert places(api) == {"a": ""}
    (refusal,) = [e["message"] for e in api.all("v1", "Event", "default") if e["reason"] == "FailedScheduling"]
    assert refusal == "0/1 nodes are available: 1 node(s) had volume node affinity conflict."


@pytest.mark.parametrize(("mode", "second"), [("ReadWriteOncePod", ""), ("ReadWriteOnce", "n2")])
def test_one_pod_has_a_claim_that_is_for_one(api: Api, mode: str, second: str) -> None:
    """A pod of a lost node that does not end keeps it: its successor writes nowhere beside it."""
    claim_of(api, mode)
    bind(api, "us-west-2a")
    fill(api, [in_zone("n1", "us-west-2a")], [claimed("a", "state")])
    Scheduler(api).reconcile()
    assert places(api) == {"a": "n1"}
    first = api.find("v1", "Pod", "default", "a")
    assert first is not None
    api.modify(first, lambda current: current["metadata"].update(finalizers=["kept.example.com/node"]))
    api.delete(api.kind("v1", "Pod"), "default", "a")
    fill(api, [in_zone("n2", "us-west-2a")], [claimed("b", "state")])
    Scheduler(api).reconcile()
    assert places(api)["b"] == second


def test_pods_of_another_scheduler_stay_without_a_node(api: Api) -> None:
    """https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/"""
    foreign = pod("foreign")
    foreign["spec"]["schedulerName"] = "mine"
    fill(api, [node("n1")], [foreign, pod("own")])
    Scheduler(api).reconcile()
    assert places(api) == {"foreign": "", "own": "n1"}
