"""What is said of the cluster and of its groups: gone, failed, and nodes that are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Snapshot, Stack, Unseen
from hyperpod_ray.ops.verdict import cluster as rules
from hyperpod_ray.ops.verdict.finding import Finding
from tests.support import pages

CAPACITY = "Insufficient capacity for instance type ml.p5.48xlarge"


def of_cluster(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(finding.kind, finding.what) for finding in rules.cluster(snapshot)]


@pytest.mark.parametrize(
    ("status", "unseen", "gone"),
    [
        ("CREATE_COMPLETE", (), True),
        ("UPDATE_COMPLETE", (), True),
        ("CREATE_COMPLETE", ("HyperPod",), False),  # it did not answer: nobody knows
        ("UPDATE_IN_PROGRESS", (), False),
        ("ROLLBACK_COMPLETE", (), False),  # the stack says it
        ("UPDATE_ROLLBACK_COMPLETE", (), True),
        ("DELETE_FAILED", (), False),
    ],
)
def test_a_cluster_that_is_gone_beside_its_stack(status: str, unseen: tuple[str, ...], gone: bool) -> None:
    snapshot = pages.healthy()
    stacks = tuple(Stack(name=stack.name, status=status) for stack in snapshot.stacks)
    parts = tuple(Unseen(source=source, why="refused") for source in unseen)
    said = of_cluster(replace(snapshot, cluster=None, stacks=stacks, unseen=parts))
    assert said == ([("action-required", "the HyperPod cluster is gone although its stack is there")] if gone else [])


def failed(statuses: list[str], *, failure: str = "", **changed: Any) -> Finding:
    snapshot = pages.healthy()
    nodes = tuple(
        replace(node, status=status, launched=pages.ago(10 * number))
        for number, (node, status) in enumerate(zip(snapshot.instances, statuses, strict=False), start=1)
    )
    assert snapshot.cluster is not None
    cluster = replace(snapshot.cluster, status="Failed", failure=failure)
    (finding,) = rules.cluster(replace(snapshot, cluster=cluster, instances=nodes, **changed))
    return finding


def test_a_failed_cluster_whose_nodes_come_is_under_way() -> None:
    first, second = (failed(["Running", *["Pending"] * number]) for number in (1, 2))
    assert "but 1 node is still being brought up" in first.what
    assert "but 2 nodes are still being brought up" in second.what
    assert second.since == pages.ago(30), "since the first of them"
    for status in ("DeepHealthCheckInProgress", "SystemUpdating"):
        assert "1 node is still being brought up" in failed(["Running", status]).what


def test_a_failed_cluster_says_why_and_what_keeps_running() -> None:
    assert failed(["Running", "Running", "Failure"]).what == (
        "the last change of the cluster failed; 2 nodes keep running"
    )
    none = failed(["Failure"])
    assert (none.kind, none.what) == ("action-required", "the last change of the cluster failed")
    event = ClusterEvent(id="e", time=pages.ago(5), level="Error", description="d", resource="Cluster", failure="quota")
    assert failed(["Failure"], events=(event,)).why == "quota"
    assert failed(["Failure"], events=(event,), failure="its own").why == "its own"


def missing(*events: ClusterEvent, leaving: bool = False, launched: float = 300) -> Finding:
    """One of five workers is not there."""
    snapshot = pages.healthy()
    nodes = [replace(node, launched=pages.ago(launched)) for node in snapshot.instances]
    nodes[-1:] = [replace(nodes[-1], status="ShuttingDown")] if leaving else []
    (finding,) = rules.groups(replace(snapshot, instances=tuple(nodes), events=events))
    assert finding.what == "1 of 5 ml.p5.48xlarge of group 'workers' are missing although the cluster is InService"
    return finding


def event(minutes: float, *, group: str = "workers", level: str = "Error", **more: Any) -> ClusterEvent:
    words = {"description": CAPACITY, **more}
    return ClusterEvent(id=f"e{minutes}{group}", time=pages.ago(minutes), level=level, resource="InstanceGroup",
                        group=group, **words)  # fmt: skip


@pytest.mark.parametrize(
    ("events", "leaving", "finding_kind", "why"),
    [
        ([event(60)], False, "action-required", CAPACITY),
        ([event(60, failure="no capacity")], False, "action-required", "no capacity"),
        # the newest error counts
        ([event(90, failure="old"), event(60, failure="new")], False, "action-required", "new"),
        ([event(60, failure="new"), event(90, failure="old")], False, "action-required", "new"),
        # an error of another group, before the last node came, or no error
        ([event(60, group="head")], False, "action-required", "nothing has happened on them for half an hour"),
        ([event(400)], False, "action-required", "nothing has happened on them for half an hour"),
        ([event(60, level="Info")], False, "action-required", "nothing has happened on them for half an hour"),
        ([event(10, group="head")], False, "action-required", "nothing has happened on them for half an hour"),
        # a node goes, or something happened a moment ago
        ([event(60)], True, "recovering", "replacements are on the way"),
        ([event(10, level="Info")], False, "recovering", "replacements are on the way"),
        ([event(29.9, level="Info")], False, "recovering", "replacements are on the way"),
        ([event(30.1, level="Info")], False, "action-required", "nothing has happened on them for half an hour"),
        ([], False, "action-required", "nothing has happened on them for half an hour"),
        ([], True, "recovering", "replacements are on the way"),
    ],
)
def test_nodes_that_are_missing(events: list[ClusterEvent], leaving: bool, finding_kind: str, why: str) -> None:
    finding = missing(*events, leaving=leaving)
    assert (finding.kind, finding.why) == (finding_kind, why)


@pytest.mark.parametrize(
    ("description", "instance", "counts"),
    [
        ("Instance creation failed", "i-0f00000000000000f", True),  # it was never there
        ("Instance creation failed", "i-00000000000000003", False),
        ("The node was rebooted", "i-0f00000000000000f", False),
        ("The group could not be scaled", "", True),
    ],
)
def test_whose_error_is_a_lack_of_nodes(description: str, instance: str, counts: bool) -> None:
    why = missing(event(60, instance=instance, description=description)).why
    assert why == (description if counts else "nothing has happened on them for half an hour")


def test_a_group_with_all_its_nodes_or_of_a_cluster_that_begins_or_ends_is_not_missing_any() -> None:
    snapshot = pages.healthy()
    assert snapshot.cluster is not None
    assert list(rules.groups(snapshot)) == []
    for status in ("Creating", "Deleting"):
        begun = replace(snapshot, cluster=replace(snapshot.cluster, status=status), instances=())
        assert list(rules.groups(begun)) == []
    assert list(rules.groups(replace(snapshot, cluster=None))) == []
    updating = replace(snapshot, cluster=replace(snapshot.cluster, status="Updating"), instances=(), events=())
    assert [finding.subject for finding in rules.groups(updating)] == ["head", "workers"]
