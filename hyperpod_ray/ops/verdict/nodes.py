"""Findings about nodes: what HyperPod says, what Kubernetes says, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import names
from hyperpod_ray.ops.observe.snapshot import Instance, Node, Snapshot
from hyperpod_ray.ops.verdict import durations
from hyperpod_ray.ops.verdict.finding import (
    JOIN_GRACE,
    UNREACHABLE_GRACE,
    Finding,
    command,
    fault_of,
    last_event,
    last_heard,
    nodes_command,
    training,
    under_way,
    usual_of,
)


def instances(seen: Snapshot) -> Iterator[Finding]:
    """What HyperPod says of its nodes."""
    cluster = seen.cluster
    if cluster is None or cluster.status == "Deleting":
        return
    for instance in seen.instances:
        if instance.status in ("Failure", "NotFound"):
            yield _faulty(seen, instance)
        elif instance.status in ("Pending", "ShuttingDown", "SystemUpdating", "DeepHealthCheckInProgress"):
            yield _in_transit(seen, instance)


def _faulty(seen: Snapshot, instance: Instance) -> Finding:
    """The service replaces faulty accelerated nodes when node recovery is on, and never CPU nodes."""
    group = seen.group(instance.group)
    event = last_event(seen.events, instance=instance.id, level="Error") or last_event(
        seen.events, instance=instance.id
    )
    since = event.time if event else None
    why = instance.message or (event.failure if event else "") or fault_of(seen, instance)
    what = f"node {instance.id} of group '{instance.group}' is faulty"
    replace = nodes_command(seen, "replace", instance.id)
    if group and not group.accelerated:
        return Finding(
            kind="action-required",
            what=f"{what}; CPU nodes are not replaced automatically{training(seen, instance)}",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    if seen.cluster and seen.cluster.node_recovery != "Automatic":
        return Finding(
            kind="action-required",
            what=f"{what} and node recovery is off{training(seen, instance)}",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    usual = durations.REPLACEMENT
    if usual.overdue(since, seen.at):
        return Finding(
            kind="action-required",
            what=f"{what} and was not replaced in time{training(seen, instance)}",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    return Finding(
        kind="recovering",
        what=f"{what}; the service replaces it{training(seen, instance)}",
        why=why,
        since=since,
        expected_by=usual.by(since),
        subject=instance.id,
    )


def _in_transit(seen: Snapshot, instance: Instance) -> Finding:
    verb = {
        "Pending": "is being brought up",
        "ShuttingDown": "is being shut down",
        "SystemUpdating": "gets its software update",
        "DeepHealthCheckInProgress": "is in its deep health checks",
    }[instance.status]
    started = last_event(seen.events, instance=instance.id)
    since = started.time if started else instance.launched
    what = f"node {instance.id} of group '{instance.group}' {verb}{training(seen, instance)}"
    logs = f"{command(seen, 'logs')} --node {instance.id}"
    return under_way(
        seen, what, since=since, usual=usual_of(instance), next_=logs, subject=instance.id, why=instance.message
    )


def nodes(seen: Snapshot) -> Iterator[Finding]:
    """What Kubernetes says of nodes that HyperPod finds in order, and the other way round."""
    if not seen.saw_nodes or seen.cluster is None:
        return
    known = {names.node_name(instance.id): instance for instance in seen.instances}
    joined = {node.name for node in seen.nodes}
    for name, instance in known.items():
        if instance.status == "Running" and name not in joined:
            yield _not_joined(seen, instance)
    for node in seen.nodes:
        running = known.get(node.name)
        if node.name.startswith(names.NODE_PREFIX) and running is None and seen.saw("HyperPod"):
            yield _ghost(seen, node)
        elif running is not None and running.status == "Running":
            yield from _unwell(seen, node, running)


def _not_joined(seen: Snapshot, instance: Instance) -> Finding:
    started = last_event(seen.events, instance=instance.id)
    since = started.time if started else instance.launched
    what = f"node {instance.id} runs but is not in the Kubernetes cluster"
    logs = f"{command(seen, 'logs')} --node {instance.id} --kind lifecycle"
    if since and seen.at - since < JOIN_GRACE:
        return Finding(kind="recovering", what=what, since=since, expected_by=since + JOIN_GRACE, subject=instance.id)
    return Finding(
        kind="action-required",
        what=what,
        why="its lifecycle script or its way to the API server failed",
        since=since,
        next=logs,
        subject=instance.id,
    )


def _ghost(seen: Snapshot, node: Node) -> Finding:
    what = f"{node.name} is still a Kubernetes node, but HyperPod no longer has the instance"
    pods = [pod.name for pod in seen.pods if pod.node == node.name]
    since = node.since
    if node.out_of_service or (since and seen.at - since < UNREACHABLE_GRACE):
        by = (since or seen.at) + UNREACHABLE_GRACE
        return Finding(
            kind="recovering",
            what=what,
            why="its object is about to go",
            since=since,
            expected_by=by,
            subject=node.name,
        )
    why = f"{', '.join(pods)} will not be replaced until the node is removed" if pods else "no Ray pod is on it"
    return Finding(
        kind="action-required",
        what=what,
        why=why,
        since=since,
        next=nodes_command(seen, "free", node.name),
        subject=node.name,
    )


def _unwell(seen: Snapshot, node: Node, instance: Instance) -> Iterator[Finding]:
    group = seen.group(instance.group)
    recovers = bool(seen.cluster and seen.cluster.node_recovery == "Automatic" and (group is None or group.accelerated))
    if node.health in (names.REPLACE, names.REBOOT):
        usual = durations.REPLACEMENT if node.health == names.REPLACE else durations.REBOOT
        doing = "replacement" if node.health == names.REPLACE else "reboot"
        yield under_way(
            seen,
            f"node {instance.id} waits for its {doing}{training(seen, instance)}",
            since=last_heard(seen, instance),
            usual=usual,
            next_=nodes_command(seen, "replace" if doing == "replacement" else "reboot", instance.id),
            subject=instance.id,
            why=node.fault,
        )
    elif node.deep_check == "InProgress":
        yield under_way(
            seen,
            f"node {instance.id} is in its deep health checks{training(seen, instance)}",
            since=last_heard(seen, instance) or instance.launched,
            usual=durations.DEEP_CHECK,
            next_=f"{command(seen, 'logs')} --node {instance.id} --kind deep-health-check",
            subject=instance.id,
            why="what they run, and where their logs are: docs/deep-health-checks.md",
        )
    elif node.deep_check == "Failed" or node.health == "Unschedulable":
        what = "failed its deep health checks" if node.deep_check == "Failed" else "is unschedulable"
        replace = nodes_command(seen, "replace", instance.id)
        if recovers:
            yield under_way(
                seen,
                f"node {instance.id} {what}; the service deals with it{training(seen, instance)}",
                since=last_heard(seen, instance),
                usual=durations.REPLACEMENT,
                next_=replace,
                subject=instance.id,
                why=node.fault,
            )
        else:
            yield Finding(
                kind="action-required",
                what=f"node {instance.id} {what} and is not replaced automatically{training(seen, instance)}",
                why=node.fault,
                next=replace,
                subject=instance.id,
            )
    elif not node.ready:
        yield _silent(seen, node, instance)
    elif node.cordoned:
        yield Finding(
            kind="note",
            what=f"node {instance.id} is cordoned: no new pods go there",
            next=f"kubectl uncordon {node.name}",
            subject=instance.id,
        )


def _silent(seen: Snapshot, node: Node, instance: Instance) -> Finding:
    """The kubelet no longer answers though HyperPod says Running."""
    what = f"node {instance.id} does not answer Kubernetes, though HyperPod says Running"
    pods = [pod for pod in seen.pods if pod.node == node.name]
    ready = [
        ray.name for ray in seen.ray_clusters if ray.state == "ready" and any(pod.cluster == ray.name for pod in pods)
    ]
    why = f"RayCluster '{ready[0]}' says ready, but {pods[0].name} is on it" if ready else ""
    if node.since is None or seen.at - node.since < UNREACHABLE_GRACE:
        by = (node.since or seen.at) + UNREACHABLE_GRACE
        return Finding(kind="recovering", what=what, why=why, since=node.since, expected_by=by, subject=instance.id)
    return Finding(
        kind="action-required",
        what=what,
        why=why or "its pods are not replaced as long as its object stays",
        since=node.since,
        next=f"{nodes_command(seen, 'reboot', instance.id)}, or {nodes_command(seen, 'free', instance.id)}",
        subject=instance.id,
    )
