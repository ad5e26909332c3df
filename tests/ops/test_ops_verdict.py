"""Every verdict: a table of snapshots and what is said of them."""

# ruff: noqa: E501  (cases and commands read better unbroken)  # noqa: RUF100
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from hyperpod_ray.core.names import STACKS, node_name
from hyperpod_ray.ops.journal.record import RunEvent
from hyperpod_ray.ops.observe.snapshot import (
    Claim,
    ClusterEvent,
    ControlPlane,
    FileSystem,
    Group,
    Hang,
    Instance,
    KubernetesEvent,
    RayJob,
    Snapshot,
    Stack,
    TrainingPlan,
    Unseen,
)
from hyperpod_ray.ops.verdict import judge
from tests.ops.said_findings import assert_said, recorded
from tests.ops.snapshots import (
    HEAD,
    JOB,
    NOW,
    ONE,
    RUN,
    SPARE_HEAD,
    THREE,
    TWO,
    ago,
    event,
    healthy,
    instance,
    node,
    pod,
    replaced,
    said,
    trains,
    with_cluster,
    with_controller,
    with_instance,
    with_node,
    with_pod,
    with_stack,
    without,
)
from tests.support.faults import FAULTS

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
    "the head's volume lost": (
        replace(healthy(), claims=(Claim(name="ray-gcs-pvc", namespace="ray", phase="Lost"),)),
        "Action required", "claim ray/ray-gcs-pvc has lost its volume: the next head has no state",
    ),
    "the head's volume waits": (
        replace(healthy(), claims=(Claim(name="ray-gcs-pvc", namespace="ray", phase="Pending", created=ago(6)),)),
        "Action required", "claim ray/ray-gcs-pvc waits for its volume",
    ),
    "the head's volume is made": (
        replace(healthy(), claims=(Claim(name="ray-gcs-pvc", namespace="ray", phase="Pending", created=ago(1)),)),
        "Healthy", "",
    ),
    "volume lost": (replace(healthy(), claims=(Claim(name="fsx", namespace="ray", phase="Lost"),)), "Action required", "has lost its volume"),
    # sources
    "Kubernetes unreachable": (
        replace(healthy(), nodes=(), pods=(), ray_clusters=(), claims=(), unseen=(Unseen(source="Kubernetes", why="timed out", next="VPN"),)),
        "Action required", "Kubernetes could not be asked (timed out) next VPN",
    ),
}  # fmt: skip


def heard(of: Instance, at: datetime) -> ClusterEvent:
    return replace(event(0, of), time=at)


def fresh(status: str, at: datetime) -> Snapshot:
    """A new instance in a state, of which no event tells since when."""
    seen = replaced(status, 0)
    return with_instance(replace(seen, events=()), seen.instances[-1], status=status, launched=at)


def labelled(at: datetime, **labels: str) -> Snapshot:
    return replace(with_node(healthy(), ONE, **labels), events=(heard(ONE, at),))


def stands(state: str, at: datetime) -> Snapshot:
    return trains(state=state, state_since=at, started=ago(9999))


def plan_that_ends(at: datetime) -> Snapshot:
    """As long after now as a time is before it."""
    plan = TrainingPlan(arn="arn:plan", name="tp", status="Active", end=NOW + (NOW - at), groups=("workers",))
    return replace(healthy(), training_plans=(plan,))


def head_since(at: datetime) -> Snapshot:
    return with_pod(healthy(), "ray-head", ready=False, phase="Pending", created=at)


NO_NODE = without(healthy(), THREE)
FAILED_JOB = replace(JOB, state="FAILED", exit_code=7, message="entrypoint failed")
SPANS: dict[str, tuple[float, Callable[[datetime], Snapshot]]] = {
    "a faulty worker": (60, lambda at: replace(with_instance(healthy(), ONE, status="Failure"), events=(heard(ONE, at),))),
    "a node that is brought up": (50, lambda at: fresh("Pending", at)),
    "a node that is shut down": (20, lambda at: fresh("ShuttingDown", at)),
    "a node with its software update": (120, lambda at: fresh("SystemUpdating", at)),
    "a node in its checks": (240, lambda at: fresh("DeepHealthCheckInProgress", at)),
    "a node that has not joined": (15, lambda at: replace(healthy(), nodes=healthy().nodes[:-1], events=(heard(THREE, at),))),
    "a node without its instance": (5, lambda at: replace(with_node(healthy(), ONE, ready=False, since=at), instances=(HEAD, SPARE_HEAD, TWO, THREE, instance(9)))),
    "a silent node": (5, lambda at: with_node(healthy(), ONE, ready=False, unreachable=True, since=at)),
    "a node to be replaced": (60, lambda at: labelled(at, health="UnschedulablePendingReplacement", fault="Xid 74")),
    "a node to be restarted": (20, lambda at: labelled(at, health="UnschedulablePendingReboot")),
    "a node whose label says checks": (240, lambda at: labelled(at, deep_check="InProgress")),
    "a node that failed its checks": (60, lambda at: labelled(at, deep_check="Failed")),
    "a cluster being created": (50, lambda at: with_cluster(healthy(), status="Creating", created=at)),
    "a cluster being updated": (50, lambda at: with_cluster(replace(healthy(), events=(replace(event(0), time=at),)), status="Updating")),
    "a cluster with its software update": (120, lambda at: with_cluster(replace(healthy(), events=(replace(event(0), time=at),)), status="SystemUpdating")),
    "missing nodes": (30, lambda at: replace(NO_NODE, events=(replace(event(0, group="workers"), time=at),))),
    "an operator that starts": (5, lambda at: with_controller(healthy(), "KubeRay operator", ready=0, since=at)),
    "one of two CoreDNS": (5, lambda at: with_controller(healthy(), "CoreDNS", ready=1, since=at, why="OOMKilled")),
    "a daemon that starts": (5, lambda at: with_controller(healthy(), "FSx CSI driver's node daemon", ready=4, since=at, nodes=(node_name(ONE.id),))),
    "a daemon on a fresh node": (15, lambda at: with_controller(with_node(healthy(), ONE, created=at), "FSx CSI driver's node daemon", ready=4, since=ago(9), nodes=(node_name(ONE.id),))),
    "a file system that is created": (30, lambda at: replace(healthy(), file_systems=(FileSystem(id="fs-1", lifecycle="CREATING", capacity_gib=1200, created=at),))),
    "a claim that waits": (30, lambda at: replace(healthy(), claims=(Claim(name="fsx", namespace="ray", phase="Pending", created=at),))),
    "a head that starts": (30, head_since),
    "a worker that starts": (30, lambda at: with_pod(healthy(), "w1", ready=False, phase="Pending", created=at)),
    "a worker that starts on a node that comes": (50, lambda at: replace(with_pod(fresh("Pending", ago(1)), "w1", ready=False, phase="Pending", created=at))),
    "a worker that is Terminating": (5, lambda at: with_pod(healthy(), "w1", deleting_since=at)),
    "a cluster without a job": (240, lambda at: replace(with_pod(with_pod(healthy(), "w1", ready_since=at), "w2", ready_since=ago(9999)), idle_hours=4)),
    "the first step": (15, lambda at: trains(last_step_at=None, started=at)),
    **{
        f"a run that is {state}": (limit, lambda at, state=state: stands(state, at))  # type: ignore[misc]
        for state, limit in {"starting": 15, "restoring": 30, "recovering": 15, "saving": 30, "paused": 30}.items()
    },
    "steps of a run": (0.75, lambda at: trains(last_step_at=at, longest_pause_seconds=None, step_seconds=1.0)),
    "a run with longer steps": (2, lambda at: trains(last_step_at=at, longest_pause_seconds=None, step_seconds=60.0, best_step_seconds=None)),
    "a run with a pause that repeats": (3, lambda at: trains(last_step_at=at, longest_pause_seconds=120.0)),
    "parts of steps": (1, lambda at: trains(last_step_at=ago(30), last_part_at=at, part_seconds=30.0, longest_part_pause_seconds=1.0)),
    "a save that has ended": (0.75, lambda at: trains(last_step_at=ago(30), state_since=at, longest_pause_seconds=None)),
    "a checkpoint that is late": (12, lambda at: trains(last_checkpoint_at=at)),
    "a job that failed": (4320, lambda at: trains(replace(FAILED_JOB, ended=at), None)),
    "a job that waits for its driver": (30, lambda at: trains(replace(JOB, state="PENDING", started=at), None)),
    "a RayJob that failed": (4320, lambda at: replace(healthy(), ray_jobs=(RayJob(name="j", namespace="ns", deployment_status="Failed", ended=at, reason="AppFailed"),))),
    "a RayJob that waits": (30, lambda at: replace(healthy(), ray_jobs=(RayJob(name="j", namespace="ns", deployment_status="Initializing", created=at),))),
    "a training plan that ends soon": (1440, plan_that_ends),
    "a training plan that ends": (20160, plan_that_ends),
}  # fmt: skip
"""What lasts, how many minutes of it are as they should be, and how it looks since some time."""


def at_limits() -> Iterator[tuple[str, Snapshot]]:
    """Each span a second before its limit, at it, and a second after it."""
    for name, (minutes, since) in SPANS.items():
        for offset, words in ((-1, "a second less"), (0, "at its limit"), (1, "a second more")):
            yield f"{name}, {words}", since(NOW - timedelta(minutes=minutes, seconds=offset))


SLOW_RANK = RunEvent(at=ago(3), kind="slow", text="rank 3 on 10.0.0.3 takes 2.1 s a step")
CONTROL = ControlPlane(name="c-eks", version="1.33", version_of_file="1.33", protected=True, protected_by_file=True)
GPUS = Group(name="workers", type="ml.g5.8xlarge", target=3, current=3, accelerated=True)


def grouped(**changes: object) -> Snapshot:
    return with_cluster(healthy(), groups=(healthy().cluster.groups[0], replace(GPUS, **changes)))  # type: ignore[arg-type, union-attr]


def rack(*silent: int, others: tuple[int, ...] = ()) -> Snapshot:
    """Eight nodes below each of two network nodes."""
    fleet = [replace(instance(number), launched=ago(900)) for number in range(20, 36)]
    nodes = tuple(
        node(
            one,
            network=("nn-1", f"nn-{2 + number // 8}"),
            ready=number not in (*silent, *others),
            since=ago(number + 1),
        )
        for number, one in enumerate(fleet)
    )
    return with_cluster(replace(healthy(), instances=tuple(fleet), nodes=nodes, pods=(), ray_clusters=()), groups=())


MORE: dict[str, Snapshot] = dict(at_limits()) | {
    # training
    "a run that is done": trains(state="done", state_since=ago(15)),
    "a run that is done, and its job is not": trains(state="done", state_since=ago(16)),
    "a run that failed, and its job did not": trains(state="failed", state_since=ago(99), last_error="disk quota"),
    "a run that saves, and says an error": trains(state="saving", state_since=ago(1), last_error="disk quota"),
    "a run that hangs, of which HyperPod says why": replace(
        trains(last_step_at=ago(9)),
        hangs=(Hang(at=ago(1), instance=ONE.id, group="workers", job="another", text="not this"),
               Hang(at=ago(2), instance=TWO.id, group="workers", job="raysubmit_1", text="rank 3 is silent")),
    ),
    "a hang that later steps have ended": replace(
        trains(), hangs=(Hang(at=ago(2), instance=TWO.id, group="workers", job="raysubmit_1", text="rank 3 is silent"),)
    ),
    "a run that hangs at its first steps": trains(last_step_at=ago(9), step_seconds=None, last_checkpoint_step=None),
    "a run whose steps are of an earlier attempt": trains(last_step_at=ago(98), started=ago(3)),
    "twice as slow as ever": trains(step_seconds=1.6, best_step_seconds=0.8),
    "more than twice as slow": trains(step_seconds=1.61, best_step_seconds=0.8),
    "over sockets": trains(misses_efa=True, transport="sockets"),
    "a slow rank": trains(events=(*RUN.events, SLOW_RANK)),
    "a slow rank, on the node of a pod": replace(
        trains(events=(SLOW_RANK,)), pods=(*healthy().pods, pod("w3", ONE, address="10.0.0.3"))
    ),
    "a rank that was slow before a restore": trains(events=(SLOW_RANK, replace(SLOW_RANK, kind="restore", text=""))),
    "one checkpoint only": trains(events=RUN.events[:1], last_checkpoint_at=ago(90)),
    "a job that publishes nothing": trains(
        replace(JOB, actors={"ALIVE": 4, "PENDING_CREATION": 2, "DEAD": 1}, gpu_percent=71.6), None
    ),
    "a job of which Ray knows no actor": trains(JOB, None),
    "a job that was submitted again": replace(
        trains(replace(FAILED_JOB, ended=ago(3)), None),
        jobs=(replace(FAILED_JOB, ended=ago(30)), replace(JOB, id="raysubmit_2", started=ago(2))),
    ),
    "a run that failed at a step": trains(replace(FAILED_JOB, ended=ago(30)), last_error="CUDA out of memory"),
    "a RayJob that is refused": replace(healthy(), ray_jobs=(
        RayJob(name="j", namespace="ns", deployment_status="ValidationFailed", message="no entrypoint", created=ago(9999)),
    )),
    "a RayJob in its queue": replace(healthy(), ray_jobs=(
        RayJob(name="j", namespace="ns", deployment_status="Suspended"), RayJob(name="k", namespace="ns", suspended=True),
    )),
    "a RayJob that runs": replace(healthy(), ray_jobs=(RayJob(name="j", namespace="ns", deployment_status="Running"),)),
    # what ends and ages
    "a training plan that is over": replace(healthy(), training_plans=(
        TrainingPlan(arn="arn:plan", name="tp", status="Expired", end=ago(9), groups=("workers", "more")),
    )),
    "a training plan that has not begun": replace(healthy(), training_plans=(
        TrainingPlan(arn="arn:plan", name="tp", status="Scheduled", start=NOW + timedelta(days=1), groups=("workers",)),
    )),
    "a newer AMI": grouped(image_status="UpdateAvailable", image_release="2026.08.18", image_available="2026.09.01"),
    "an AMI that needs an update": grouped(image_status="SecurityUpdateRequired", image_release="2026.08.18"),
    "an AMI without support": grouped(image_status="EndOfLife"),
    "an AMI of one's own that is old": grouped(image_status="SecurityUpdateRequired", own_image="ami-0a1b2c3d4e5f60718"),
    "an AMI as it should be": grouped(image_status="UpToDate", image_release="2026.08.18"),
    "an update that failed": grouped(update_status="Failed", image_status="UpdateAvailable"),
    "a patch that comes": grouped(next_patch=NOW + timedelta(hours=30)),
    "a patch that was": grouped(next_patch=NOW),
    "the control plane as the file says": replace(healthy(), control_plane=CONTROL),
    "no protection any more": replace(healthy(), control_plane=replace(CONTROL, protected=False)),
    "no protection asked for": replace(healthy(), control_plane=replace(CONTROL, protected=False, protected_by_file=False)),
    "a version that EKS has updated": replace(healthy(), control_plane=replace(CONTROL, version="1.34")),
    "a version that waits for a deploy": replace(healthy(), control_plane=replace(CONTROL, version="1.32")),
    # storage
    "a tenth of the space is free": replace(healthy(), file_systems=(FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200, free_gib=120),)),
    "less than a tenth is free": replace(healthy(), file_systems=(FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200, free_gib=119.9),)),
    "home folders that are full": replace(healthy(), file_systems=(*healthy().file_systems, FileSystem(id="fs-2", lifecycle="UPDATING", capacity_gib=100, free_gib=0, homes=True))),
    "home folders that are gone": replace(healthy(), homes_mode="new"),
    # racks
    "three silent nodes of a rack": rack(0, 1, 2),
    "four silent nodes of a rack": rack(0, 1, 2, 3),
    "a rack, and another node": rack(0, 1, 2, 3, others=(9,)),
    "a rack, and two other nodes": rack(0, 1, 2, 3, 4, 5, 6, 7, others=(9, 10)),
    "both racks": rack(0, 1, 2, 3, 4, 5, others=(8, 9, 10, 11, 12)),
    # controllers
    "an operator that is gone": with_controller(healthy(), "KubeRay operator", present=False, wanted=0, ready=0),
    "an operator of none": with_controller(healthy(), "KubeRay operator", wanted=0, ready=0),
    "an add-on that is gone": with_controller(healthy(), "CoreDNS", present=False, wanted=0, ready=0),
    "a device plugin on no node": with_controller(healthy(), "NVIDIA device plugin", wanted=0, ready=0),
    "a device plugin that runs nowhere": with_controller(healthy(), "NVIDIA device plugin", ready=0, since=ago(30), why="CrashLoopBackOff"),
    "an agent on a silent node": with_controller(with_node(healthy(), ONE, ready=False, since=ago(2)), "HyperPod's health-monitoring agent", ready=2, since=ago(30), nodes=(node_name(ONE.id),)),
    "an agent that is not on a node": with_controller(healthy(), "HyperPod's health-monitoring agent", ready=2, since=ago(30), nodes=(node_name(ONE.id),), why="ImagePullBackOff"),
    "pods that wait, and no operator": with_controller(head_since(ago(1)), "KubeRay operator", present=False, wanted=0, ready=0),
    # what may not be seen, and what this machine lacks
    "no right to events": replace(healthy(), unseen=(Unseen(source="warnings of namespace ray", why="forbidden", refused=True),)),
    "no kubectl here": replace(healthy(), unseen=(Unseen(source="Kubernetes", why="no kubectl", next="install it", laptop=True),)),
    "a stack that goes": with_stack(healthy(), "Ray", "DELETE_IN_PROGRESS"),
    "a change that was rolled back": with_stack(healthy(), "Ray", "UPDATE_ROLLBACK_COMPLETE", "no capacity"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_verdict(case: str) -> None:
    seen, state, words = CASES[case]
    verdict = judge(seen)
    assert (verdict.state, words in said(verdict)) == (state, True), said(verdict)
    assert_said(case, seen)


@pytest.mark.parametrize("case", MORE)
def test_each_finding_is_said_word_for_word(case: str) -> None:
    assert_said(case, MORE[case])


def test_the_recorded_findings_are_of_these_cases() -> None:
    assert set(recorded()) == {*CASES, *MORE, *(f"fault: {fault.name}" for fault in FAULTS)}


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
