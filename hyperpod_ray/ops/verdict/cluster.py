"""Findings about the HyperPod cluster and its groups."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from hyperpod_ray.core import names
from hyperpod_ray.core.notifications import NOT_CREATED
from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Group, Snapshot
from hyperpod_ray.ops.verdict import durations
from hyperpod_ray.ops.verdict.finding import (
    DEAD_STACK,
    QUIET,
    Finding,
    command,
    deploy,
    last_event,
    under_way,
    usual_of,
)


def cluster(snapshot: Snapshot) -> Iterator[Finding]:
    """What the cluster says of itself."""
    cluster = snapshot.cluster
    if cluster is None:
        stack_status = {stack.name: stack.status for stack in snapshot.stacks}.get(
            names.stack_name(snapshot.environment, names.HYPERPOD_STACK), ""
        )
        if snapshot.saw("HyperPod") and stack_status.endswith("_COMPLETE") and stack_status not in DEAD_STACK:
            yield Finding(
                kind="action-required",
                what="the HyperPod cluster is gone although its stack is there",
                next=deploy(snapshot),
            )
        return
    started = last_event(snapshot.events, resource="Cluster")
    if cluster.status in ("Creating", "Updating", "SystemUpdating", "RollingBack"):
        usual = {"SystemUpdating": durations.SOFTWARE}.get(cluster.status, durations.CLUSTER)
        since = cluster.created if cluster.status == "Creating" else started.time if started else None
        yield under_way(
            snapshot,
            f"the cluster is {cluster.status}",
            since=since,
            usual=usual,
            next_=command(snapshot, "nodes"),
            subject=cluster.name,
        )
    elif cluster.status == "Deleting":
        yield Finding(
            kind="action-required",
            what="the cluster is being deleted",
            next=command(snapshot, "teardown"),
            subject=cluster.name,
        )
    elif cluster.status == "Failed":
        yield _failed(snapshot)


def _failed(snapshot: Snapshot) -> Finding:
    """`Failed` is the outcome of the last operation; running nodes keep running, and another update repairs it."""
    cluster = snapshot.cluster
    assert cluster is not None  # noqa: S101
    running = sum(1 for instance in snapshot.instances if instance.status == "Running")
    coming = [
        instance
        for instance in snapshot.instances
        if instance.status in ("Pending", "DeepHealthCheckInProgress", "SystemUpdating")
    ]
    why = cluster.failure or next((event.failure for event in snapshot.events if event.failure), "")
    if coming:
        many = f"{len(coming)} {'nodes are' if len(coming) > 1 else 'node is'}"
        since = min((instance.launched for instance in coming if instance.launched), default=None)
        return under_way(
            snapshot,
            f"the cluster says Failed, but {many} still being brought up",
            since=since,
            usual=usual_of(coming[0]),
            next_=command(snapshot, "nodes"),
            subject=cluster.name,
            why=why,
        )
    unaffected = f"; {running} nodes keep running" if running else ""
    return Finding(
        kind="action-required",
        what=f"the last change of the cluster failed{unaffected}",
        why=why,
        next=deploy(snapshot),
        subject=cluster.name,
    )


def groups(snapshot: Snapshot) -> Iterator[Finding]:
    """Nodes that were asked for and are not there: with Continuous provisioning InService does not exclude that."""
    cluster = snapshot.cluster
    if cluster is None or cluster.status in ("Deleting", "Creating"):
        return
    for group in cluster.groups:
        present = [
            instance
            for instance in snapshot.instances
            if instance.group == group.name and instance.status != "ShuttingDown"
        ]
        missing = group.target - len(present)
        if missing > 0:
            yield _missing(snapshot, group, missing)


def _missing(snapshot: Snapshot, group: Group, missing: int) -> Finding:
    status = snapshot.cluster.status if snapshot.cluster else ""
    many = f"{missing} of {group.target} {group.type} of group '{group.name}'"
    summary = f"{many} are missing although the cluster is {status}"
    leaving = [
        instance
        for instance in snapshot.instances
        if instance.group == group.name and instance.status == "ShuttingDown"
    ]
    refused = _refused(snapshot, group)
    newest = max((event.time for event in snapshot.events if event.group == group.name), default=None)
    if refused and not leaving:
        return Finding(
            kind="action-required",
            what=summary,
            why=refused.failure or refused.description,
            since=refused.time,
            next=f"{command(snapshot, 'preflight')}; it compares quota, zone and training plan; "
            "the service keeps trying",
            subject=group.name,
        )
    if leaving or (newest and snapshot.at - newest < QUIET):
        usual = durations.REPLACEMENT
        return Finding(
            kind="recovering",
            what=summary,
            why="replacements are on the way",
            since=newest,
            expected_by=usual.by(newest),
            subject=group.name,
        )
    return Finding(
        kind="action-required",
        what=summary,
        why="nothing has happened on them for half an hour",
        since=newest,
        next=f"hyperpod-ray nodes events {snapshot.environment} --group {group.name}",
        subject=group.name,
    )


def _refused(snapshot: Snapshot, group: Group) -> ClusterEvent | None:
    """The newest error since which the group got no node: of the group, or of an instance that was never created.

    A lack of capacity is an event of the instance, as AWS documents it, although there is no such instance.
    """
    launched = max(
        (instance.launched for instance in snapshot.instances if instance.group == group.name and instance.launched),
        default=None,
    )
    present = {instance.id for instance in snapshot.instances}
    errors = [
        event
        for event in snapshot.events
        if event.group == group.name
        and event.level == "Error"
        and (launched is None or event.time > launched)
        and (not event.instance or (event.instance not in present and _not_created(event)))
    ]
    return max(errors, key=lambda event: event.time, default=None)


def _not_created(event: ClusterEvent) -> bool:
    return any(fnmatchcase(event.description, words) for words in NOT_CREATED)
