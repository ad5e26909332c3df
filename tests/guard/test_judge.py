"""What the guard decides, and that its words are the services' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import botocore.session
import pytest

from hyperpod_ray.guard import MARK, judge
from hyperpod_ray.guard.judge import Node, disrupted, frees, node_of, returned, silent
from hyperpod_ray_rules.names import OUT_OF_SERVICE

TAINT = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
INSTANCES = [f"hyperpod-i-{number:017x}" for number in range(40)]


def a_node(
    number: int = 0, *, ready: str = "True", since: float = 0, mark: str = "", taints: Sequence[Any] = ()
) -> Node:
    return Node(name=INSTANCES[number], uid="u", version="1", ready=ready, since=since, mark=mark, taints=list(taints))


def nodes(lost: int, of: int) -> list[Node]:
    return [a_node(number, ready="Unknown" if number < lost else "True") for number in range(of)]


def test_the_states_are_those_of_the_service() -> None:
    """Every value of botocore's enum is dealt with: a new one fails here."""
    model = botocore.session.get_session().get_service_model("sagemaker")
    known = set(model.shape_for("ClusterInstanceStatus").enum)  # type: ignore[attr-defined]
    assert known >= judge.FAILED
    assert known - judge.FAILED == {"Running", "Pending", "SystemUpdating", "DeepHealthCheckInProgress"}
    assert model.shape_for("ClusterNodeId").metadata["pattern"] == judge.INSTANCE.pattern


@pytest.mark.parametrize("ready", ["Unknown", "False"])
@pytest.mark.parametrize("status", ["Running", "Pending", "SystemUpdating", "DeepHealthCheckInProgress", "Unheard", ""])
def test_a_network_that_is_cut_frees_nothing(ready: str, status: str) -> None:
    assert not frees(a_node(ready=ready), status, now=1e9)


@pytest.mark.parametrize("ready", ["Unknown", "False"])
@pytest.mark.parametrize("status", ["NotFound", "ShuttingDown"])
def test_an_instance_that_is_gone_is_freed(ready: str, status: str) -> None:
    assert frees(a_node(ready=ready, since=100), status, now=100)


def test_a_kubelet_that_answers_ends_the_pods_itself() -> None:
    assert frees(a_node(ready="Unknown", since=100), "Failure", now=100)
    assert not frees(a_node(ready="False", since=100), "Failure", now=399)
    assert frees(a_node(ready="False", since=100), "Failure", now=400)


def test_who_is_silent() -> None:
    other = Node(name="ip-10-0-0-1.ec2.internal", uid="u", version="1", ready="Unknown", since=0, mark="")
    wrong = Node(name="hyperpod-controller", uid="u", version="1", ready="Unknown", since=0, mark="")
    lost = a_node(1, ready="Unknown")
    done = a_node(2, ready="Unknown", mark="then", taints=[TAINT])
    by_hand = a_node(3, ready="False", taints=[TAINT])
    overruled = a_node(4, ready="Unknown", mark="then")
    assert silent([a_node(), lost, done, by_hand, overruled, other, wrong]) == [lost]


def test_who_returned() -> None:
    """The guard's own taint alone is taken off, and the mark of a node whose taint somebody took off."""
    ours = a_node(1, mark="then", taints=[TAINT])
    theirs = a_node(2, taints=[TAINT])
    away = a_node(3, ready="Unknown", mark="then", taints=[TAINT])
    bare = a_node(4, mark="then")
    assert returned([a_node(), ours, theirs, away, bare]) == [ours, bare]


@pytest.mark.parametrize(
    ("lost", "of", "cut"),
    [(1, 2, False), (1, 3, False), (2, 3, False), (3, 5, True), (3, 6, False), (5, 9, True), (5, 10, False),
     (11, 20, True), (2, 2, True), (1, 1, True), (0, 4, False), (18, 40, False), (22, 40, True)],
)  # fmt: skip
def test_many_silent_nodes_are_a_network_that_is_cut(lost: int, of: int, cut: bool) -> None:
    """More than two and 55 %, or all: as node_lifecycle_controller.go's ComputeZoneState has it."""
    assert disrupted(nodes(lost, of)) is cut


def test_nodes_that_are_dealt_with_are_not_counted() -> None:
    done = [a_node(number, ready="Unknown", mark="then", taints=[TAINT]) for number in range(10, 16)]
    assert not disrupted([*nodes(2, 4), *done])
    assert not disrupted([])
    strange = [Node(name=f"n{i}", uid="", version="", ready="Unknown", since=0, mark="") for i in range(9)]
    assert not disrupted([*nodes(1, 4), *strange])


def test_a_node_as_kubernetes_writes_it() -> None:
    item = {
        "metadata": {"name": INSTANCES[7], "uid": "u7", "resourceVersion": "12", "annotations": {MARK: "then"}},
        "spec": {"taints": [TAINT]},
        "status": {
            "conditions": [
                {"type": "DiskPressure", "status": "Unknown", "lastTransitionTime": "2020-01-01T00:00:00Z"},
                {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-22T16:00:01Z"},
            ]
        },
    }
    found = node_of(item)
    assert (found.instance, found.version, found.ready, found.mark) == (INSTANCES[7][9:], "12", "Unknown", "then")
    assert found.tainted
    assert found.since == 1795363201
    fresh = node_of({"metadata": {"name": INSTANCES[8]}})
    assert (fresh.ready, fresh.mark, fresh.tainted, fresh.since) == ("True", "", False, 0)
