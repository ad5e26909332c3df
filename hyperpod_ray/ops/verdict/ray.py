"""Findings about RayClusters and their pods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from hyperpod_ray.core import names
from hyperpod_ray.core.amounts import duration
from hyperpod_ray.ops.observe.snapshot import (
    TRAINING,
    RayCluster,
    Snapshot,
    part_of,
)
from hyperpod_ray.ops.reach.ray_pods import Pod
from hyperpod_ray.ops.verdict import durations
from hyperpod_ray.ops.verdict.durations import Usual
from hyperpod_ray.ops.verdict.finding import (
    DEAD_STACK,
    UNREACHABLE_GRACE,
    Finding,
    command,
    deploy,
    nodes_command,
    several,
    under_way,
    usual_of,
)

ENDED_JOBS = ("Complete", "Failed")
"""`jobDeploymentStatus` of a RayJob that runs no more."""


def ray_clusters(snapshot: Snapshot) -> Iterator[Finding]:
    """What RayClusters say of themselves, and what their pods say."""
    if not snapshot.saw("Kubernetes") or not snapshot.saw(part_of("ray_clusters", snapshot.namespace)):
        return
    own_clusters = [
        ray for ray in snapshot.ray_clusters if (ray.namespace, ray.name) == (snapshot.namespace, snapshot.ray_cluster)
    ]
    deployed = {stack.name: stack.status for stack in snapshot.stacks}.get(
        names.stack_name(snapshot.environment, names.RAY_STACK), ""
    )
    if (
        not own_clusters
        and snapshot.cluster is not None
        and deployed.endswith("_COMPLETE")
        and deployed not in DEAD_STACK
    ):
        yield Finding(
            kind="action-required",
            what=f"RayCluster '{snapshot.ray_cluster}' is gone although its stack is there",
            next=deploy(snapshot),
        )
    for ray in snapshot.ray_clusters:
        if ray.suspended:
            yield Finding(
                kind="action-required",
                what=f"RayCluster '{ray.name}' is suspended",
                next=f"kubectl -n {ray.namespace} edit raycluster {ray.name}",
                subject=ray.name,
            )
            continue
        if ray.state == "failed" or ray.reason:
            yield Finding(
                kind="action-required",
                what=f"RayCluster '{ray.name}' is {ray.state or 'not accepted'}",
                why=ray.reason,
                next=f"kubectl -n {ray.namespace} describe raycluster {ray.name}",
                subject=ray.name,
            )
        yield from _really_ready(snapshot, ray)


def _really_ready(snapshot: Snapshot, ray: RayCluster) -> Iterator[Finding]:
    """What the pods say against what the RayCluster says: `ready` is no proof of health."""
    if not snapshot.saw(part_of("pods", ray.namespace)):
        return
    pods = [pod for pod in snapshot.pods if (pod.namespace, pod.cluster) == (ray.namespace, ray.name)]
    healthy, others = list[Pod](), list[Pod]()
    for pod in pods:
        well = pod.ready and pod.deleting_since is None and snapshot.answers(pod.node)
        (healthy if well else others).append(pod)
    heads, workers = ([pod for pod in healthy if pod.role == role] for role in ("head", "worker"))
    short = ray.desired_workers - len(workers)
    report = f"says {ray.state}" if ray.state else "says nothing yet"
    if not heads:
        yield _without_head(snapshot, ray, pods, report)
    elif short > 0:
        lost = [
            pod
            for pod in others
            if pod.role == "worker" and (pod.deleting_since or (pod.node and not snapshot.answers(pod.node)))
        ]
        if lost:
            where = several(sorted({names.instance_id(pod.node) for pod in lost if pod.node}))
            why = f"{several([pod.name for pod in lost])} on {where}"
        else:
            why = ""
        summary = f"RayCluster '{ray.name}' {report}, but only {len(workers)} of {ray.desired_workers} workers run"
        since = min(filter(None, (_out_since(snapshot, pod) for pod in others)), default=ray.since)
        stuck = [pod for pod in lost if pod.deleting_since and snapshot.at - pod.deleting_since > UNREACHABLE_GRACE]
        if stuck:
            yield Finding(
                kind="action-required",
                what=summary,
                why=f"{stuck[0].name} has been Terminating on {names.instance_id(stuck[0].node)} "
                "and will not be replaced until its node is removed",
                since=stuck[0].deleting_since,
                next=nodes_command(snapshot, "free", names.instance_id(stuck[0].node)),
                subject=ray.name,
            )
        else:
            yield under_way(
                snapshot,
                summary,
                since=since,
                usual=_pod_usual(snapshot),
                next_=f"kubectl -n {ray.namespace} get pods",
                subject=ray.name,
                why=why,
                recovery="pods",
            )


def idle(snapshot: Snapshot) -> Iterator[Finding]:
    """RayClusters whose workers keep accelerated nodes for hours without a job."""
    if snapshot.idle_hours is None or not snapshot.saw("Kubernetes"):
        return
    for ray in snapshot.ray_clusters:
        workers = [pod for pod in workers_of(snapshot, ray.namespace, ray.name) if _accelerated(snapshot, pod)]
        since = without_job(snapshot, ray.namespace, ray.name)
        if not workers or since is None or snapshot.at - since < timedelta(hours=snapshot.idle_hours):
            continue
        cluster = (ray.namespace, ray.name)
        ray_jobs = [job.name for job in snapshot.ray_jobs if (job.namespace, job.cluster) == cluster]
        delete = f"rayjob {ray_jobs[0]}" if ray_jobs else f"raycluster {ray.name}"
        yield Finding(
            kind="note",
            what=f"RayCluster '{ray.name}' has had no job for {duration((snapshot.at - since).total_seconds())}, and "
            f"its {len(workers)} workers hold accelerated nodes",
            why=f"{command(snapshot, 'cost')} --so-far says what they cost",
            since=since,
            next=f"{command(snapshot, 'submit')} -- COMMAND, or kubectl -n {ray.namespace} delete {delete}",
            subject=ray.name,
        )


def workers_of(snapshot: Snapshot, namespace: str, cluster: str) -> list[Pod]:
    """Workers of a RayCluster that are ready."""
    return [
        pod
        for pod in snapshot.pods
        if (pod.namespace, pod.cluster, pod.role) == (namespace, cluster, "worker")
        and pod.ready
        and not pod.deleting_since
    ]


def jobless(snapshot: Snapshot, namespace: str, cluster: str) -> bool:
    """Whether a RayCluster is known to have no job. Ray is asked for the jobs of the standing one, and of RayJobs."""
    ray_jobs = [job for job in snapshot.ray_jobs if (job.namespace, job.cluster) == (namespace, cluster)]
    if any(job.deployment_status not in ENDED_JOBS for job in ray_jobs):
        return False
    standing = (namespace, cluster) == (snapshot.namespace, snapshot.ray_cluster)
    head = any(
        (pod.namespace, pod.cluster, pod.role) == (namespace, cluster, "head") and pod.ready and not pod.deleting_since
        for pod in snapshot.pods
    )
    jobs = [job for job in snapshot.jobs if (job.namespace, job.cluster) == (namespace, cluster)]
    going = any(job.state in ("RUNNING", "PENDING") for job in jobs)
    return snapshot.saw(TRAINING) and not going and (bool(ray_jobs) or (standing and head))


def without_job(snapshot: Snapshot, namespace: str, cluster: str) -> datetime | None:
    """Since when a RayCluster has workers and no job; None where it has one, or that is not known."""
    if not jobless(snapshot, namespace, cluster):
        return None
    ready = [pod.ready_since or pod.created for pod in workers_of(snapshot, namespace, cluster)]
    ends = [job.ended for job in snapshot.jobs if (job.namespace, job.cluster) == (namespace, cluster)]
    ends += [job.ended for job in snapshot.ray_jobs if (job.namespace, job.cluster) == (namespace, cluster)]
    return max(filter(None, [*ready, *ends]), default=None)


def _accelerated(snapshot: Snapshot, pod: Pod) -> bool:
    group = snapshot.group(pod.instance_group)
    return group is not None and group.accelerated


def _out_since(snapshot: Snapshot, pod: Pod) -> datetime | None:
    """Since when a pod is of no use: its deletion, its node's silence, the end of its readiness, or its creation."""
    silent = next((node.since for node in snapshot.nodes if node.name == pod.node and not node.ready), None)
    return pod.deleting_since or silent or (None if pod.ready else pod.ready_since) or pod.created


def _without_head(snapshot: Snapshot, ray: RayCluster, pods: list[Pod], report: str) -> Finding:
    head = next((pod for pod in pods if pod.role == "head"), None)
    summary = f"RayCluster '{ray.name}' {report}, but its head does not run"
    since = _out_since(snapshot, head) if head else ray.since
    return under_way(
        snapshot,
        summary,
        since=since,
        usual=_pod_usual(snapshot),
        next_=f"kubectl -n {ray.namespace} describe pod {head.name}"
        if head
        else f"kubectl -n {ray.namespace} describe raycluster {ray.name}",
        subject=ray.name,
        recovery="pods",
    )


def _pod_usual(snapshot: Snapshot) -> Usual:
    """Pods wait for nodes that are on their way, and those take longer than an image."""
    coming = [
        instance
        for instance in snapshot.instances
        if instance.status in ("Pending", "DeepHealthCheckInProgress", "Failure", "ShuttingDown", "SystemUpdating")
    ]
    return max((usual_of(instance) for instance in coming), key=lambda usual: usual.most, default=durations.RAY)


IMAGE_TROUBLE = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull")
CRASHES = (
    "CrashLoopBackOff",
    "OOMKilled",
    "Error",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)


def pods(snapshot: Snapshot) -> Iterator[Finding]:
    """Pods that do not run, and why."""
    for pod in snapshot.pods:
        if pod.deleting_since or pod.ready:
            continue
        describe = f"kubectl -n {pod.namespace} describe pod {pod.name}"
        if pod.reason in IMAGE_TROUBLE:
            yield Finding(
                kind="action-required",
                what=f"pod {pod.name} cannot get its image ({pod.reason})",
                why=pod.message,
                since=pod.created,
                next=command(snapshot, "preflight"),
                subject=pod.name,
            )
        elif pod.reason in CRASHES:
            logs = f"kubectl -n {pod.namespace} logs {pod.name} --previous"
            yield Finding(
                kind="action-required",
                what=f"pod {pod.name} does not stay up ({pod.reason}, {pod.restarts} restarts)",
                why=pod.message,
                since=pod.created,
                next=logs,
                subject=pod.name,
            )
        elif pod.reason in ("Unschedulable", "SchedulingGated"):
            yield _pending(snapshot, pod, describe)


def _pending(snapshot: Snapshot, pod: Pod, describe: str) -> Finding:
    """A pod without a node: it waits for one that comes, or there is none for it."""
    coming = [
        instance
        for instance in snapshot.instances
        if instance.status not in ("Running", "NotFound")
        and (not pod.instance_group or instance.group == pod.instance_group)
    ]
    group = snapshot.group(pod.instance_group)
    on = f" in group '{pod.instance_group}'" if pod.instance_group else ""
    if coming or (group is not None and group.current < group.target):
        usual = usual_of(coming[0]) if coming else durations.REPLACEMENT
        return Finding(
            kind="recovering",
            what=f"pod {pod.name} waits for a node{on}",
            why=pod.message,
            since=pod.created,
            expected_by=usual.by(pod.created),
            subject=pod.name,
            recovery="pods",
        )
    return Finding(
        kind="action-required",
        what=f"pod {pod.name} finds no room{on}, and no node is on its way",
        why=pod.message,
        since=pod.created,
        next=f"{describe}; raise the group's count, or ask for less per pod",
        subject=pod.name,
    )
