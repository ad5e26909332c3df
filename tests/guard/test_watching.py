"""The guard's loop against a cluster and a service in memory; the real APIs are in test_rehearsed.py."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.guard import MARK
from hyperpod_ray.guard.hyperpod import NoAnswerError
from hyperpod_ray.guard.kubernetes import KubernetesError
from hyperpod_ray.guard.watching import FIRST_PAUSE, LONGEST_PAUSE, PROOF_SECONDS, QUIET_SECONDS, Guard
from hyperpod_ray_rules.names import OUT_OF_SERVICE

HERE, LOST, THIRD = (f"i-{number:017x}" for number in (1, 2, 3))
NOW = 1_800_000_000.0
JUST_NOW = "2027-01-15T07:59:59Z"
"""One second before NOW."""
GROUP_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


class World:
    """Nodes and instances that a test changes, and the guards that look at them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = NOW
        self.nodes: dict[str, Any] = {}
        self.events: dict[str, Any] = {}
        self.instances: dict[str, str] = {}
        self.described: dict[str, str] = {}
        self.broken: Exception | None = None
        self.asked = 0
        self.before_patch: Callable[[], None] = lambda: None
        self.version = 100
        for instance in (HERE, LOST, THIRD):
            self.instances[instance] = "Running"
            self.change(instance, "True", "2027-01-01T00:00:00Z")

    def change(self, instance: str, ready: str, since: str = "2027-01-15T07:00:00Z") -> None:
        self.version += 1
        known = self.nodes.get(f"hyperpod-{instance}", {"metadata": {}, "spec": {"taints": [GROUP_TAINT]}})
        known["metadata"] |= {"name": f"hyperpod-{instance}", "uid": instance, "resourceVersion": str(self.version)}
        known["status"] = {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]}
        self.nodes[f"hyperpod-{instance}"] = known

    def taints(self, instance: str = LOST) -> list[str]:
        return [taint["key"] for taint in self.nodes[f"hyperpod-{instance}"]["spec"]["taints"]]

    def mark(self, instance: str = LOST) -> str | None:
        found = (self.nodes[f"hyperpod-{instance}"]["metadata"].get("annotations") or {}).get(MARK)
        return str(found) if found is not None else None

    @property
    def reasons(self) -> list[str]:
        return sorted(event["reason"] for event in self.events.values())

    # what the guard uses

    def list_nodes(self) -> tuple[list[Any], str]:
        return copy.deepcopy(list(self.nodes.values())), str(self.version)

    def patch_node(self, name: str, patch: Any) -> None:
        self.before_patch()
        node = self.nodes[name]
        if patch["metadata"]["resourceVersion"] != node["metadata"]["resourceVersion"]:
            raise KubernetesError(409, "Conflict")
        self.version += 1
        node["metadata"]["resourceVersion"] = str(self.version)
        marks = {**(node["metadata"].get("annotations") or {}), **patch["metadata"]["annotations"]}
        node["metadata"]["annotations"] = {key: value for key, value in marks.items() if value is not None}
        node["spec"]["taints"] = patch["spec"]["taints"]

    def create_event(self, namespace: str, event: Any) -> None:
        name = event["metadata"]["name"]
        assert namespace == event["metadata"]["namespace"] == "default"
        if name in self.events:
            raise KubernetesError(409, "AlreadyExists")
        self.events[name] = event

    def statuses(self) -> dict[str, str]:
        self.asked += 1
        if self.broken:
            raise self.broken
        return dict(self.instances)

    def status(self, instance: str) -> str:
        if self.broken:
            raise self.broken
        return self.described.get(instance, self.instances.get(instance, "NotFound"))

    def guard(self, *, seconds: int = 2, node: str = f"hyperpod-{HERE}", name: str = "ready") -> Guard:
        world = self

        class Kubernetes:
            nodes = staticmethod(world.list_nodes)
            patch_node = staticmethod(world.patch_node)
            create_event = staticmethod(world.create_event)

            @staticmethod
            def watch_nodes(version: str, *, seconds: int, until: Callable[[Any], bool]) -> None:
                raise AssertionError("not in these tests")

        return Guard(
            kubernetes=Kubernetes(),
            hyperpod=world,
            node=node,
            not_ready_seconds=seconds,
            ready_file=self.folder / name,
            clock=lambda: world.now,
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("ready", ["Unknown", "False"])
@pytest.mark.parametrize("status", ["Failure", "ShuttingDown", "NotFound", None])
def test_a_silent_node_that_failed_or_is_gone_is_freed(world: World, ready: str, status: str | None) -> None:
    world.change(LOST, ready)
    if status is None:
        del world.instances[LOST]
    else:
        world.instances[LOST] = status
    world.guard().look()
    assert world.taints() == ["nvidia.com/gpu", OUT_OF_SERVICE]
    assert world.nodes[f"hyperpod-{LOST}"]["spec"]["taints"][1] == {
        "key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": "2027-01-15T08:00:00Z"
    }  # fmt: skip
    assert world.mark() == "2027-01-15T08:00:00Z"
    assert world.reasons == ["NodeGuardFreed"]
    (event,) = world.events.values()
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": f"hyperpod-{LOST}", "uid": LOST}
    assert world.taints(THIRD) == ["nvidia.com/gpu"]


@pytest.mark.parametrize("status", ["Running", "SystemUpdating", "DeepHealthCheckInProgress", "Pending"])
def test_a_network_that_is_cut_changes_nothing(world: World, status: str) -> None:
    """However long it lasts."""
    world.change(LOST, "Unknown")
    world.instances[LOST] = status
    guard = world.guard()
    pauses = []
    for _ in range(50):
        pauses.append(guard.look())
        world.now += pauses[-1]
    assert (world.taints(), world.mark(), world.reasons) == (["nvidia.com/gpu"], None, ["NodeGuardWaits"])
    assert pauses[:5] == [FIRST_PAUSE, 4, 8, 16, LONGEST_PAUSE]
    assert max(pauses) == LONGEST_PAUSE
    world.change(LOST, "True")
    assert guard.look() == QUIET_SECONDS
    assert world.taints() == ["nvidia.com/gpu"]


def test_a_list_that_lacks_it_is_not_enough(world: World) -> None:
    """`DescribeClusterNode` must say so too."""
    world.change(LOST, "Unknown")
    del world.instances[LOST]
    world.described[LOST] = "Running"
    world.guard().look()
    assert OUT_OF_SERVICE not in world.taints()


def test_a_list_without_the_own_instance_is_not_believed(world: World) -> None:
    """Another cluster's, or an empty one."""
    world.change(LOST, "Unknown")
    world.instances = {"i-0ffffffffffffffff": "Running"}
    world.guard().look()
    assert OUT_OF_SERVICE not in world.taints()
    assert world.reasons == ["NodeGuardCannotAsk"]
    assert not (world.folder / "ready").exists()


def test_hyperpod_does_not_answer(world: World) -> None:
    """Nothing is done, an event says so, the pod is not ready; when it answers, the node is freed."""
    world.change(LOST, "Unknown")
    world.instances[LOST] = "Failure"
    world.broken = NoAnswerError("AccessDenied")
    guard = world.guard()
    guard.look()
    guard.look()
    assert (world.taints(), world.reasons) == (["nvidia.com/gpu"], ["NodeGuardCannotAsk"])
    assert not (world.folder / "ready").exists()
    world.broken = None
    guard.look()
    assert OUT_OF_SERVICE in world.taints()
    assert (world.folder / "ready").exists()


def test_it_waits_before_it_asks(world: World) -> None:
    world.change(LOST, "Unknown", JUST_NOW)
    world.instances[LOST] = "Failure"
    guard = world.guard(seconds=5)
    guard.look()
    asked = world.asked
    assert guard.look() == pytest.approx(4)
    assert (world.asked, world.taints()) == (asked, ["nvidia.com/gpu"])
    world.now += 4
    guard.look()
    assert OUT_OF_SERVICE in world.taints()


def test_a_kubelet_that_answers_gets_its_time(world: World) -> None:
    world.change(LOST, "False", JUST_NOW)
    world.instances[LOST] = "Failure"
    guard = world.guard(seconds=0)
    guard.look()
    assert (world.taints(), world.reasons) == (["nvidia.com/gpu"], ["NodeGuardWaits"])
    assert "the kubelet answers" in next(iter(world.events.values()))["message"]
    world.now += 300
    guard.look()
    assert OUT_OF_SERVICE in world.taints()


def test_many_silent_nodes_are_left_alone(world: World) -> None:
    """Although HyperPod says that they failed."""
    more = [f"i-{number:017x}" for number in range(10, 15)]
    for instance in more:
        world.change(instance, "Unknown")
        world.instances[instance] = "Failure"
    guard = world.guard()
    guard.look()
    assert all(OUT_OF_SERVICE not in world.taints(instance) for instance in more)
    assert world.reasons == ["NodeGuardTooMany"] * 5
    for instance in more[:3]:
        world.change(instance, "True")
    guard.look()
    assert [OUT_OF_SERVICE in world.taints(instance) for instance in more] == [False, False, False, True, True]


def test_its_own_taint_goes_when_the_node_returns(world: World) -> None:
    world.change(LOST, "Unknown")
    world.instances[LOST] = "Failure"
    guard = world.guard()
    guard.look()
    assert guard.look() == QUIET_SECONDS, "what is done is done"
    world.change(LOST, "True")
    guard.look()
    assert (world.taints(), world.mark()) == (["nvidia.com/gpu"], None)
    assert world.reasons == ["NodeGuardFreed", "NodeGuardReturned"]
    world.change(LOST, "Unknown")
    guard.look()
    assert OUT_OF_SERVICE in world.taints(), "and again"


def test_somebody_elses_taint_stays(world: World) -> None:
    taints = world.nodes[f"hyperpod-{LOST}"]["spec"]["taints"]
    taints.append({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"})
    for ready in ("Unknown", "True"):
        world.change(LOST, ready)
        world.guard().look()
        assert (world.taints(), world.mark(), world.events) == (["nvidia.com/gpu", OUT_OF_SERVICE], None, {})


def test_a_taint_that_a_person_took_off_stays_off(world: World) -> None:
    world.change(LOST, "Unknown")
    world.instances[LOST] = "Failure"
    guard = world.guard()
    guard.look()
    world.nodes[f"hyperpod-{LOST}"]["spec"]["taints"].pop()
    guard.look()
    assert world.taints() == ["nvidia.com/gpu"]
    world.change(LOST, "True")
    guard.look()
    assert world.mark() is None


def test_two_guards_act_once(world: World) -> None:
    """One decided on the node as it was before the other's change: its own comes to nothing."""
    world.change(LOST, "Unknown")
    world.instances[LOST] = "Failure"
    first, second = world.guard(), world.guard(node=f"hyperpod-{THIRD}", name="second")

    def meanwhile() -> None:
        world.before_patch = lambda: None
        second.look()

    world.before_patch = meanwhile
    first.look()
    first.look()
    assert world.taints() == ["nvidia.com/gpu", OUT_OF_SERVICE]
    assert world.reasons == ["NodeGuardFreed"]


def test_a_node_that_returns_meanwhile_is_not_freed(world: World) -> None:
    world.change(LOST, "Unknown")
    world.instances[LOST] = "Failure"
    world.before_patch = lambda: world.change(LOST, "True")
    world.guard().look()
    assert (world.taints(), world.events) == (["nvidia.com/gpu"], {})


def test_a_restart_half_way_loses_nothing(world: World) -> None:
    """The new one knows what the old one did from the node alone."""
    world.change(LOST, "Unknown", JUST_NOW)
    world.instances[LOST] = "Failure"
    world.guard(seconds=3).look()
    world.now += 2
    world.guard(seconds=3).look()
    assert OUT_OF_SERVICE in world.taints(), "the time before the restart counts"
    world.guard().look()
    assert world.reasons == ["NodeGuardFreed"]
    world.change(LOST, "True")
    world.guard().look()
    assert world.taints() == ["nvidia.com/gpu"]


def test_the_right_to_ask_is_proven_before_it_is_needed(world: World) -> None:
    guard = world.guard()
    assert guard.look() == QUIET_SECONDS
    assert world.asked == 1
    guard.look()
    assert world.asked == 1
    world.now += PROOF_SECONDS
    guard.look()
    assert world.asked == 2
    world.broken = NoAnswerError("the role lacks the right")
    world.now += PROOF_SECONDS
    assert [guard.look() for _ in range(6)] == [2, 4, 8, 16, 30, 30]
    assert not (world.folder / "ready").exists()
    assert world.events == {}, "no node is concerned"
    world.broken = None
    assert guard.look() == QUIET_SECONDS
    assert (world.folder / "ready").exists()


def test_another_error_of_kubernetes_is_not_hidden(world: World) -> None:
    world.change(LOST, "Unknown")
    world.instances[LOST] = "Failure"

    def refused() -> None:
        raise KubernetesError(403, "forbidden")

    world.before_patch = refused
    with pytest.raises(KubernetesError):
        world.guard().look()
