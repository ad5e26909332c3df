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
    several,
    training,
    under_way,
    usual_of,
)


def instances(snapshot: Snapshot) -> Iterator[Finding]:
    """What HyperPod says of its nodes."""
    cluster = snapshot.cluster
    if cluster is None or cluster.status == "Deleting":
        return
    for instance in snapshot.instances:
        if instance.status in ("Failure", "NotFound"):
            yield _faulty(snapshot, instance)
        elif instance.status in ("Pending", "ShuttingDown", "SystemUpdating", "DeepHealthCheckInProgress"):
            yield _in_transit(snapshot, instance)


def _faulty(snapshot: Snapshot, instance: Instance) -> Finding:
    """The service replaces faulty accelerated nodes when node recovery is on, and never CPU nodes."""
    group = snapshot.group(instance.group)
    event = last_event(snapshot.events, instance=instance.id, level="Error") or last_event(
        snapshot.events, instance=instance.id
    )
    since = event.time if event else None
    why = instance.message or (event.failure if event else "") or fault_of(snapshot, instance)
    summary = f"node {instance.id} of group '{instance.group}' is faulty"
    replace = nodes_command(snapshot, "replace", instance.id)
    if group and not group.accelerated:
        return Finding(
            kind="action-required",
            what=f"{summary}; CPU nodes are not replaced automatically{training(snapshot, instance)}",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    if snapshot.cluster and snapshot.cluster.node_recovery != "Automatic":
        return Finding(
            kind="action-required",
            what=f"{summary} and node recovery is off{training(snapshot, instance)}",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    usual = durations.REPLACEMENT
    if usual.overdue(since, snapshot.at):
        return Finding(
            kind="action-required",
            what=f"{summary} and was not replaced in time{training(snapshot, instance)}",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    return Finding(
        kind="recovering",
        what=f"{summary}; the service replaces it{training(snapshot, instance)}",
        why=why,
        since=since,
        expected_by=usual.by(since),
        subject=instance.id,
    )


def _in_transit(snapshot: Snapshot, instance: Instance) -> Finding:
    verb = {
        "Pending": "is being brought up",
        "ShuttingDown": "is being shut down",
        "SystemUpdating": "gets its software update",
        "DeepHealthCheckInProgress": "is in its deep health checks",
    }[instance.status]
    started = last_event(snapshot.events, instance=instance.id)
    since = started.time if started else instance.launched
    summary = f"node {instance.id} of group '{instance.group}' {verb}{training(snapshot, instance)}"
    logs = f"{command(snapshot, 'logs')} --node {instance.id}"
    return under_way(
        snapshot, summary, since=since, usual=usual_of(instance), next_=logs, subject=instance.id, why=instance.message
    )


def nodes(snapshot: Snapshot) -> Iterator[Finding]:
    """What Kubernetes says of nodes that HyperPod finds in order, and the other way round."""
    if not snapshot.saw_nodes or snapshot.cluster is None:
        return
    by_name = {names.node_name(instance.id): instance for instance in snapshot.instances}
    joined = {node.name for node in snapshot.nodes}
    for name, instance in by_name.items():
        if instance.status == "Running" and name not in joined:
            yield _not_joined(snapshot, instance)
    for node in snapshot.nodes:
        running = by_name.get(node.name)
        if node.name.startswith(names.NODE_PREFIX) and running is None and snapshot.saw("HyperPod"):
            yield _ghost(snapshot, node)
        elif running is not None and running.status == "Running":
            yield from _unwell(snapshot, node, running)


LEAST_OF_RACK = 3
"""Fewer nodes in trouble below one network node are chance."""


def racks(snapshot: Snapshot) -> Iterator[Finding]:
    """Nodes below one network node that are in trouble together: one cause for all is likely, such as a switch."""
    running = {names.node_name(instance.id): instance for instance in snapshot.instances}
    below: dict[str, list[Node]] = {}
    for node in snapshot.nodes:
        if node.network:
            below.setdefault(node.network[-1], []).append(node)
    troubled = {
        node.name
        for node in snapshot.nodes
        if not node.ready or ((instance := running.get(node.name)) and instance.status in ("Failure", "NotFound"))
    }
    for network, members in below.items():
        hit = [node for node in members if node.name in troubled]
        others = len(snapshot.nodes) - len(members)
        elsewhere = (len(troubled) - len(hit)) / others if others else 1.0
        # half of them, and far more than elsewhere: else the whole cluster is in trouble, and no rack of it
        if len(hit) >= LEAST_OF_RACK and len(hit) / len(members) >= max(0.5, 4 * elsewhere):
            yield Finding(
                kind="note",
                what=f"{len(hit)} of {len(members)} nodes below network node {network} are in trouble, elsewhere "
                f"{len(troubled) - len(hit)} of {others}: one cause for all of them is likely",
                why=several([names.instance_id(node.name) for node in hit]),
                since=min((node.since for node in hit if node.since), default=None),
                next=f"{command(snapshot, 'nodes --unhealthy')}; name the network node to AWS Support",
                subject=network,
            )


def _not_joined(snapshot: Snapshot, instance: Instance) -> Finding:
    started = last_event(snapshot.events, instance=instance.id)
    since = started.time if started else instance.launched
    summary = f"node {instance.id} runs but is not in the Kubernetes cluster"
    logs = f"{command(snapshot, 'logs')} --node {instance.id} --kind lifecycle"
    if since and snapshot.at - since < JOIN_GRACE:
        return Finding(
            kind="recovering", what=summary, since=since, expected_by=since + JOIN_GRACE, subject=instance.id
        )
    return Finding(
        kind="action-required",
        what=summary,
        why="its lifecycle script or its way to the API server failed",
        since=since,
        next=logs,
        subject=instance.id,
    )


def _ghost(snapshot: Snapshot, node: Node) -> Finding:
    summary = f"{node.name} is still a Kubernetes node, but HyperPod no longer has the instance"
    pods = [pod.name for pod in snapshot.pods if pod.node == node.name]
    since = node.since
    if node.out_of_service or (since and snapshot.at - since < UNREACHABLE_GRACE):
        by = (since or snapshot.at) + UNREACHABLE_GRACE
        return Finding(
            kind="recovering",
            what=summary,
            why="its object is about to go",
            since=since,
            expected_by=by,
            subject=node.name,
        )
    why = f"{', '.join(pods)} will not be replaced until the node is removed" if pods else "no Ray pod is on it"
    return Finding(
        kind="action-required",
        what=summary,
        why=why,
        since=since,
        next=nodes_command(snapshot, "free", node.name),
        subject=node.name,
    )


def _unwell(snapshot: Snapshot, node: Node, instance: Instance) -> Iterator[Finding]:
    group = snapshot.group(instance.group)
    recovers = bool(
        snapshot.cluster and snapshot.cluster.node_recovery == "Automatic" and (group is None or group.accelerated)
    )
    if node.health in (names.REPLACE, names.REBOOT):
        usual = durations.REPLACEMENT if node.health == names.REPLACE else durations.REBOOT
        doing = "replacement" if node.health == names.REPLACE else "reboot"
        yield under_way(
            snapshot,
            f"node {instance.id} waits for its {doing}{training(snapshot, instance)}",
            since=last_heard(snapshot, instance),
            usual=usual,
            next_=nodes_command(snapshot, "replace" if doing == "replacement" else "reboot", instance.id),
            subject=instance.id,
            why=node.fault,
        )
    elif node.deep_check == "InProgress":
        yield under_way(
            snapshot,
            f"node {instance.id} is in its deep health checks{training(snapshot, instance)}",
            since=last_heard(snapshot, instance) or instance.launched,
            usual=durations.DEEP_CHECK,
            next_=f"{command(snapshot, 'logs')} --node {instance.id} --kind deep-health-check",
            subject=instance.id,
            why="what they run, and where their logs are: docs/deep-health-checks.md",
        )
    elif node.deep_check == "Failed" or node.health == "Unschedulable":
        state = "failed its deep health checks" if node.deep_check == "Failed" else "is unschedulable"
        replace = nodes_command(snapshot, "replace", instance.id)
        if recovers:
            yield under_way(
                snapshot,
                f"node {instance.id} {state}; the service deals with it{training(snapshot, instance)}",
                since=last_heard(snapshot, instance),
                usual=durations.REPLACEMENT,
                next_=replace,
                subject=instance.id,
                why=node.fault,
            )
        else:
            yield Finding(
                kind="action-required",
                what=f"node {instance.id} {state} and is not replaced automatically{training(snapshot, instance)}",
                why=node.fault,
                next=replace,
                subject=instance.id,
            )
    elif not node.ready:
        yield _silent(snapshot, node, instance)
    elif node.cordoned:
        yield Finding(
            kind="note",
            what=f"node {instance.id} is cordoned: no new pods go there",
            next=f"kubectl uncordon {node.name}",
            subject=instance.id,
        )


def _silent(snapshot: Snapshot, node: Node, instance: Instance) -> Finding:
    """The kubelet no longer answers though HyperPod says Running."""
    summary = f"node {instance.id} does not answer Kubernetes, though HyperPod says Running"
    pods = [pod for pod in snapshot.pods if pod.node == node.name]
    ready = [
        f"RayCluster '{ray.name}' says ready, but {pod.name} is on it"
        for ray in snapshot.ray_clusters
        for pod in pods
        if ray.state == "ready" and (pod.cluster, pod.namespace) == (ray.name, ray.namespace)
    ]
    why = ready[0] if ready else ""
    if node.since is None or snapshot.at - node.since < UNREACHABLE_GRACE:
        by = (node.since or snapshot.at) + UNREACHABLE_GRACE
        return Finding(kind="recovering", what=summary, why=why, since=node.since, expected_by=by, subject=instance.id)
    return Finding(
        kind="action-required",
        what=summary,
        why=why or "its pods are not replaced as long as its object stays",
        since=node.since,
        next=f"{nodes_command(snapshot, 'reboot', instance.id)}, or {nodes_command(snapshot, 'free', instance.id)}",
        subject=instance.id,
    )
