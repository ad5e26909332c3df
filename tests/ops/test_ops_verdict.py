"""Every verdict: a table of snapshots and what is said of them."""

# ruff: noqa: E501  (cases and commands read better unbroken)  # noqa: RUF100
from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from hyperpod_ray.core.names import STACKS, node_name
from hyperpod_ray.ops.observe.snapshot import (
    Claim,
    FileSystem,
    KubernetesEvent,
    Snapshot,
    Stack,
    Unseen,
)
from hyperpod_ray.ops.verdict import judge
from tests.ops.snapshots import (
    HEAD,
    NOW,
    ONE,
    SPARE_HEAD,
    THREE,
    TWO,
    ago,
    event,
    healthy,
    instance,
    replaced,
    said,
    with_cluster,
    with_instance,
    with_node,
    with_pod,
    with_stack,
    without,
)

CASES: dict[str, tuple[Snapshot, str, str]] = {
    "all is well": (healthy(), "Healthy", ""),
    "not deployed": (
        Snapshot(environment="demo", at=NOW, stacks=tuple(Stack(name=f"demo-{n}") for n in STACKS)),
        "Action required", "not deployed",
    ),
    "being deployed": (
        Snapshot(
            environment="demo", at=NOW,
            stacks=(Stack(name="demo-Network", status="CREATE_COMPLETE"), Stack(name="demo-Eks", status="CREATE_IN_PROGRESS"), Stack(name="demo-Ray")),
            unseen=(Unseen(source="Kubernetes", why="no cluster"),),
        ),
        "Recovering", "demo-Eks is CREATE_IN_PROGRESS",
    ),
    "incomplete": (with_stack(healthy(), "Ray", ""), "Action required", "incomplete: demo-Ray is missing"),
    "first creation rolled back": (
        with_stack(healthy(), "Ray", "ROLLBACK_COMPLETE", "timed out"), "Action required", "(timed out) next correct the cause, then hyperpod-ray deploy demo",
    ),
    "destroy got stuck": (with_stack(healthy(), "Network", "DELETE_FAILED", "has dependencies"), "Action required", "hyperpod-ray teardown demo"),
    "update rollback failed": (with_stack(healthy(), "Eks", "UPDATE_ROLLBACK_FAILED"), "Action required", "aws cloudformation continue-update-rollback --stack-name demo-Eks, then hyperpod-ray deploy demo"),
    "cluster vanished": (replace(healthy(), cluster=None, instances=()), "Action required", "cluster is gone"),
    "cluster being created": (with_cluster(healthy(), status="Creating", created=ago(5)), "Recovering", "the cluster is Creating"),
    "cluster creating for far too long": (
        with_cluster(healthy(), status="Creating", created=ago(120)), "Action required", "far longer than the usual 15–25 min",
    ),
    "software update": (with_cluster(replace(healthy(), events=(event(20),)), status="SystemUpdating"), "Recovering", "SystemUpdating"),
    "cluster being deleted": (with_cluster(healthy(), status="Deleting"), "Action required", "being deleted"),
    "Failed, yet its nodes run": (
        with_cluster(healthy(), status="Failed", failure="no capacity"), "Action required", "the last change of the cluster failed; 5 nodes keep running (no capacity)",
    ),
    "Failed is not final while nodes come up": (
        with_cluster(replaced("Pending", 3), status="Failed"), "Recovering", "says Failed, but 1 node is still being brought up",
    ),
    # InService can hide missing nodes
    "InService with missing nodes, no capacity": (
        replace(without(healthy(), THREE), events=(event(4, group="workers", level="Error", failure="insufficient ml.g5.8xlarge capacity"),)),
        "Action required", "1 of 3 ml.g5.8xlarge of group 'workers' are missing although the cluster is InService (insufficient ml.g5.8xlarge capacity)",
    ),
    "no capacity, as AWS reports it: of an instance that is not there": (
        replace(without(healthy(), THREE), events=(replace(event(4, THREE, level="Error", failure="no sufficient capacity"), description="Instance creation in Cluster c and InstanceGroup workers failed"),)),
        "Action required", "(no sufficient capacity) next hyperpod-ray preflight demo; it compares",
    ),
    "an instance that failed and is gone is no lack of capacity": (
        replace(without(healthy(), THREE), events=(event(4, THREE, level="Error", failure="Xid 74"),)), "Recovering", "replacements are on the way",
    ),
    "an error of an instance that is there is no lack of capacity": (
        replace(without(healthy(), THREE), events=(replace(event(4, TWO, level="Error"), description="Instance creation failed"),)), "Recovering", "replacements are on the way",
    ),
    "an event that is no error refuses nothing": (
        replace(without(healthy(), THREE), events=(event(4, group="workers"),)), "Recovering", "replacements are on the way",
    ),
    "no capacity before the group's newest node is over": (
        replace(without(healthy(), THREE), events=(event(4, TWO), event(400, group="workers", level="Error", failure="no capacity"))), "Recovering", "replacements are on the way",
    ),
    "InService with missing nodes, replacement under way": (
        replace(without(healthy(), THREE), events=(event(4, THREE),)), "Recovering", "replacements are on the way",
    ),
    "InService with missing nodes, and nothing happens": (
        replace(without(healthy(), THREE), events=(event(300, group="workers"),)), "Action required", "nothing has happened on them for half an hour",
    ),
    "InService and no nodes at all": (
        replace(without(healthy(), ONE, TWO, THREE), pods=healthy().pods[:1]), "Action required", "3 of 3 ml.g5.8xlarge",
    ),
    # nodes
    "faulty worker, recovery on": (
        replace(with_instance(healthy(), ONE, status="Failure", message="Xid 74"), events=(event(2, ONE, level="Error"),)),
        "Recovering", "is faulty; the service replaces it; Ray's pod is on it: w1 (Xid 74)",
    ),
    "faulty worker, never replaced": (
        replace(with_instance(healthy(), ONE, status="Failure"), events=(event(90, ONE, level="Error"),)),
        "Action required", f"was not replaced in time; Ray's pod is on it: w1 () next hyperpod-ray nodes replace demo {ONE.id}",
    ),
    "faulty worker, recovery off": (
        with_cluster(with_instance(healthy(), ONE, status="Failure"), node_recovery="None"), "Action required", "node recovery is off",
    ),
    "faulty CPU node is not replaced": (
        with_instance(healthy(), SPARE_HEAD, status="Failure"), "Action required", "CPU nodes are not replaced automatically",
    ),
    "fresh node is brought up": (replaced("Pending", 5), "Recovering", "is being brought up; Ray has all its workers without it"),
    "fresh node is brought up for ever": (replaced("Pending", 80), "Action required", "far longer than the usual 10–25 min"),
    "deep health checks": (replaced("DeepHealthCheckInProgress", 50), "Recovering", "is in its deep health checks"),
    "deep health checks for ever": (replaced("DeepHealthCheckInProgress", 300), "Action required", "far longer than the usual 60–120 min"),
    "deep health check shown by its label": (with_node(healthy(), THREE, deep_check="InProgress"), "Action required", "deep health checks"),
    "deep health check shown by its label, fresh": (
        replace(with_node(healthy(), THREE, deep_check="InProgress", health="Unschedulable"), events=(event(3, THREE),)),
        "Recovering", "is in its deep health checks; Ray has all its workers without it",
    ),
    "deep health check failed": (
        replace(with_node(healthy(), THREE, deep_check="Failed"), events=(event(3, THREE),)), "Recovering", "failed its deep health checks; the service deals with it",
    ),
    "label asks for replacement": (
        replace(with_node(healthy(), ONE, health="UnschedulablePendingReplacement", fault="XID: 74"), events=(event(1, ONE),)),
        "Recovering", "waits for its replacement; Ray's pod is on it: w1 (XID: 74)",
    ),
    "label asks for reboot, for an hour": (
        replace(with_node(healthy(), ONE, health="UnschedulablePendingReboot"), events=(event(60, ONE),)),
        "Action required", f"hyperpod-ray nodes reboot demo {ONE.id}",
    ),
    "unschedulable CPU node": (with_node(healthy(), SPARE_HEAD, health="Unschedulable"), "Action required", "is not replaced automatically"),
    "cordoned": (with_node(healthy(), THREE, cordoned=True), "Healthy", "is cordoned"),
    "runs but did not join, just launched": (
        replace(healthy(), nodes=healthy().nodes[:-1], events=(event(3, THREE),)), "Recovering", "is not in the Kubernetes cluster",
    ),
    "runs but did not join": (
        replace(healthy(), nodes=healthy().nodes[:-1], events=(event(40, THREE),)), "Action required", f"--node {THREE.id} --kind lifecycle",
    ),
    # ready is no proof
    "silent for a minute": (
        with_node(healthy(), ONE, ready=False, unreachable=True, since=ago(1)), "Recovering", "does not answer Kubernetes",
    ),
    "RayCluster ready while a worker's node is unreachable": (
        with_node(healthy(), ONE, ready=False, unreachable=True, since=ago(20)), "Action required", "RayCluster 'ray' says ready, but w1 is on it",
    ),
    "worker stuck Terminating": (
        with_pod(with_node(healthy(), ONE, ready=False, unreachable=True, since=ago(20)), "w1", deleting_since=ago(14)),
        "Action required", f"will not be replaced until its node is removed) next hyperpod-ray nodes free demo {ONE.id}",
    ),
    "node object outlives its instance": (
        replace(with_node(healthy(), ONE, ready=False, since=ago(9)), instances=(HEAD, SPARE_HEAD, TWO, THREE, instance(9))),
        "Action required", f"hyperpod-{ONE.id} is still a Kubernetes node",
    ),
    "node object outlives its instance, freed": (
        replace(with_node(healthy(), ONE, ready=False, since=ago(9), out_of_service=True), instances=(HEAD, SPARE_HEAD, TWO, THREE, instance(9)),
                events=(event(1, instance(9)),)),
        "Recovering", "its object is about to go",
    ),
    # Ray
    "a worker is missing": (replace(healthy(), pods=healthy().pods[:2], ray_clusters=(replace(healthy().ray_clusters[0], since=ago(1)),)), "Recovering", "1 of 2 workers"),
    "head is starting": (
        with_pod(healthy(), "ray-head", ready=False, phase="Pending", created=ago(2)), "Recovering", "its head does not run",
    ),
    "head does not start": (
        with_pod(healthy(), "ray-head", ready=False, phase="Pending", created=ago(60)), "Action required", "describe pod ray-head",
    ),
    "RayCluster gone": (replace(healthy(), ray_clusters=(), pods=()), "Action required", "RayCluster 'ray' is gone"),
    "suspended": (replace(healthy(), ray_clusters=(replace(healthy().ray_clusters[0], suspended=True),)), "Action required", "is suspended"),
    "operator rejects it": (
        replace(healthy(), ray_clusters=(replace(healthy().ray_clusters[0], state="failed", reason="minReplicas > maxReplicas"),)), "Action required", "minReplicas > maxReplicas",
    ),
    "pending with no room": (
        with_pod(healthy(), "w2", ready=False, node="", phase="Pending", reason="Unschedulable", message="Insufficient nvidia.com/gpu", created=ago(3)),
        "Action required", "finds no room in group 'workers', and no node is on its way (Insufficient nvidia.com/gpu)",
    ),
    "pending while a node comes": (
        with_pod(replaced("Pending", 3, old=TWO), "w2", ready=False, node="", phase="Pending", reason="Unschedulable", created=ago(3)),
        "Recovering", "pod w2 waits for a node in group 'workers'",
    ),
    "image cannot be pulled": (
        with_pod(healthy(), "w2", ready=False, phase="Pending", reason="ImagePullBackOff", message="not found"), "Action required", "cannot get its image",
    ),
    "out of memory": (with_pod(healthy(), "w2", ready=False, reason="OOMKilled", restarts=4), "Action required", "OOMKilled, 4 restarts"),
    # storage
    "file system being made": (
        replace(healthy(), file_systems=(FileSystem(id="fs-1", lifecycle="CREATING", capacity_gib=1200, created=ago(4)),)), "Recovering", "fs-1 is CREATING",
    ),
    "file system being deleted": (
        replace(healthy(), file_systems=(FileSystem(id="fs-1", lifecycle="DELETING", capacity_gib=1200),)), "Action required", "fs-1 is DELETING: the data goes with it",
    ),
    "file system failed": (
        replace(healthy(), file_systems=(FileSystem(id="fs-1", lifecycle="FAILED", capacity_gib=1200, failure="key gone"),)), "Action required", "key gone",
    ),
    "file system gone": (replace(healthy(), file_systems=()), "Action required", "the shared file system is gone"),
    "claim pending": (
        replace(healthy(), storage_mode="dynamic", file_systems=(), stacks=healthy().stacks[:2] + healthy().stacks[3:],
                claims=(Claim(name="fsx", namespace="ray", phase="Pending", created=ago(50)),),
                warnings=(KubernetesEvent(time=ago(1), reason="ProvisioningFailed", object="PersistentVolumeClaim/fsx", message="AccessDenied"),)),
        "Action required", "waits for its volume, far longer than the usual 8–15 min (AccessDenied)",
    ),
    "volume lost": (replace(healthy(), claims=(Claim(name="fsx", namespace="ray", phase="Lost"),)), "Action required", "has lost its volume"),
    # sources
    "Kubernetes unreachable": (
        replace(healthy(), nodes=(), pods=(), ray_clusters=(), claims=(), unseen=(Unseen(source="Kubernetes", why="timed out", next="VPN"),)),
        "Action required", "Kubernetes could not be asked (timed out) next VPN",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_verdict(case: str) -> None:
    seen, state, words = CASES[case]
    verdict = judge(seen)
    assert (verdict.state, words in said(verdict)) == (state, True), said(verdict)


def test_what_needs_a_person_says_what_to_do() -> None:
    for case, (seen, _, _) in CASES.items():
        for finding in judge(seen).action_required:
            assert finding.next, f"{case}: {finding.what}"


def test_what_recovers_says_until_when_where_it_is_known() -> None:
    verdict = judge(CASES["faulty worker, recovery on"][0])
    (finding,) = verdict.recovering
    assert (finding.since, finding.expected_by) == (ago(2), ago(2) + timedelta(minutes=30))


def test_worst_comes_first() -> None:
    seen = with_node(CASES["faulty CPU node is not replaced"][0], THREE, cordoned=True)
    seen = replace(seen, file_systems=(FileSystem(id="fs-1", lifecycle="CREATING", capacity_gib=1200, created=ago(1)),))
    assert [f.kind for f in judge(seen).findings] == ["action-required", "recovering", "note"]


def test_a_spare_is_named_only_when_ray_is_complete() -> None:
    broken = replace(with_instance(healthy(), ONE, status="Failure"), events=(event(1, ONE, level="Error"),))
    moved = with_pod(broken, "w1", node=node_name(THREE.id))
    lost = with_pod(with_node(broken, ONE, ready=False, since=ago(1)), "w1", ready=False, deleting_since=ago(1))
    assert "Ray has all its workers without it" in said(judge(moved))
    assert "Ray has all its workers without it" not in said(judge(lost))


def test_a_pod_on_a_faulty_node_is_named_however_ready_it_says_it_is() -> None:
    broken = replace(with_instance(healthy(), ONE, status="Failure"), events=(event(1, ONE, level="Error"),))
    assert "Ray's pod is on it: w1" in said(judge(broken))
    assert "without it" not in said(judge(broken))
