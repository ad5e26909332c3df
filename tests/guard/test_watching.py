"""The guard's loop against a cluster and a service in memory; the real APIs are in test_rehearsed.py."""

from __future__ import annotations

import pytest

from hyperpod_ray.guard import NAME
from hyperpod_ray.guard.hyperpod import NoAnswerError
from hyperpod_ray.guard.watching import FIRST_PAUSE, LONGEST_PAUSE, PROOF_SECONDS, QUIET_SECONDS
from hyperpod_ray_rules.names import OUT_OF_SERVICE
from tests.guard.watching_helpers import LOST, THIRD, World

JUST_NOW = "2027-01-15T07:59:59Z"
"""One second before NOW."""


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
    # https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/, as core/v1 has it
    assert event == {
        "apiVersion": "v1", "kind": "Event", "metadata": event["metadata"],
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": f"hyperpod-{LOST}", "uid": LOST},
        "reason": "NodeGuardFreed", "message": event["message"], "type": "Warning", "source": {"component": NAME},
        "reportingComponent": NAME, "reportingInstance": event["reportingInstance"], "count": 1,
        "firstTimestamp": "2027-01-15T08:00:00Z", "lastTimestamp": "2027-01-15T08:00:00Z",
    }  # fmt: skip
    assert event["message"] and event["reportingInstance"]
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
