"""The verdict on a snapshot: Healthy, Recovering or Needs you. A pure function, so that every case can be a test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from ops import durations, names
from ops.durations import Usual
from ops.snapshot import ClusterEvent, Group, Instance, Node, Pod, RayCluster, Snapshot, Stack

State = Literal["Healthy", "Recovering", "Needs you"]
Kind = Literal["recovering", "needs-you", "note"]

UNREACHABLE_GRACE = timedelta(minutes=5)
"""A node that does not answer for longer, and whose object stays, is not coming back by itself: Kubernetes then keeps its
pods as Terminating and makes no replacement."""
JOIN_GRACE = timedelta(minutes=15)
"""Running in HyperPod until Ready in Kubernetes."""
QUIET = timedelta(minutes=30)
"""How long missing nodes may be missing without any sign of work on them."""
DEAD_STACK = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as it should be, or worth knowing."""

    kind: Kind
    what: str
    why: str = ""
    since: datetime | None = None
    expected_by: datetime | None = None
    next: str = ""
    subject: str = ""
    """What it is about: a node, pod, group, file system or stack."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The worst finding decides."""

    state: State
    findings: tuple[Finding, ...]

    @property
    def needs_you(self) -> tuple[Finding, ...]:
        """What waits for a person."""
        return tuple(finding for finding in self.findings if finding.kind == "needs-you")

    @property
    def recovering(self) -> tuple[Finding, ...]:
        """What mends itself."""
        return tuple(finding for finding in self.findings if finding.kind == "recovering")


def judge(seen: Snapshot) -> Verdict:
    """The verdict on a snapshot."""
    found: list[Finding] = []
    if (
        seen.saw("CloudFormation")
        and seen.stacks
        and not any(stack.status for stack in seen.stacks)
        and seen.cluster is None
    ):
        return Verdict(state="Needs you", findings=(_not_deployed(seen),))
    rules = (_unseen, _stacks, _cluster, _groups, _instances, _nodes, _storage, _ray, _pods)
    for rule in rules:
        found += rule(seen)
    order = {"needs-you": 0, "recovering": 1, "note": 2}
    found.sort(key=lambda finding: order[finding.kind])
    state: State = "Healthy"
    if any(finding.kind == "recovering" for finding in found):
        state = "Recovering"
    if any(finding.kind == "needs-you" for finding in found):
        state = "Needs you"
    return Verdict(state=state, findings=tuple(found))


def _command(seen: Snapshot, text: str) -> str:
    verb, _, rest = text.partition(" ")
    return f"python -m ops {verb} {seen.environment}{' ' + rest if rest else ''}"


def _nodes_command(seen: Snapshot, verb: str, node: str) -> str:
    return f"python -m ops nodes {verb} {seen.environment} {node}"


def _deploy(seen: Snapshot) -> str:
    return f'cdk deploy "{seen.environment}/*" -c env={seen.environment}'


def _not_deployed(seen: Snapshot) -> Finding:
    return Finding(
        kind="needs-you",
        what="not deployed: there is no stack and no cluster",
        next=f"{_command(seen, 'preflight')}, then {_deploy(seen)}",
    )


# --- what could not be seen, and the stacks --------------------------------------------------------------------------


def _unseen(seen: Snapshot) -> Iterator[Finding]:
    creating = seen.cluster is None and any(stack.status.endswith("_IN_PROGRESS") for stack in seen.stacks)
    for item in seen.unseen:
        if item.source == "Kubernetes" and creating:
            continue  # said by the stacks
        yield Finding(
            kind="needs-you",
            what=f"{item.source} could not be asked",
            why=item.why,
            next=item.next,
            subject=item.source,
        )


def _stacks(seen: Snapshot) -> Iterator[Finding]:
    missing = [stack.name for stack in seen.stacks if not stack.status]
    for stack in seen.stacks:
        if stack.status in DEAD_STACK:
            yield _dead_stack(seen, stack)
        elif stack.status == "DELETE_IN_PROGRESS":
            yield Finding(
                kind="needs-you",
                what=f"stack {stack.name} is being deleted",
                next=_command(seen, "teardown"),
                subject=stack.name,
            )
        elif stack.status.endswith("_IN_PROGRESS"):
            yield Finding(
                kind="recovering", what=f"a deployment is under way: {stack.name} is {stack.status}", subject=stack.name
            )
    busy = any(stack.status.endswith("_IN_PROGRESS") or stack.status in DEAD_STACK for stack in seen.stacks)
    if missing and not busy:
        yield Finding(
            kind="needs-you",
            what="half made: " + ", ".join(missing) + (" is" if len(missing) == 1 else " are") + " missing",
            next=_deploy(seen),
        )


def _dead_stack(seen: Snapshot, stack: Stack) -> Finding:
    next_ = {
        # nothing can be updated in this state: it has to go before it can be made again
        "ROLLBACK_COMPLETE": f"aws cloudformation delete-stack --stack-name {stack.name}, then {_deploy(seen)}",
        "ROLLBACK_FAILED": f"aws cloudformation delete-stack --stack-name {stack.name}, then {_deploy(seen)}",
        "UPDATE_ROLLBACK_FAILED": f"cdk rollback {seen.environment}/{stack.name.removeprefix(seen.environment + '-')}",
        "DELETE_FAILED": _command(seen, "teardown"),
    }.get(stack.status, _deploy(seen))
    return Finding(
        kind="needs-you", what=f"stack {stack.name} is {stack.status}", why=stack.reason, next=next_, subject=stack.name
    )


# --- the HyperPod cluster --------------------------------------------------------------------------------------------


def _cluster(seen: Snapshot) -> Iterator[Finding]:
    cluster = seen.cluster
    if cluster is None:
        made = {stack.name: stack.status for stack in seen.stacks}.get(f"{seen.environment}-HyperPod", "")
        if seen.saw("HyperPod") and made.endswith("_COMPLETE") and made not in DEAD_STACK:
            yield Finding(
                kind="needs-you", what="the HyperPod cluster is gone although its stack is there", next=_deploy(seen)
            )
        return
    started = _last(seen.events, resource="Cluster")
    if cluster.status in ("Creating", "Updating", "SystemUpdating", "RollingBack"):
        usual = {"SystemUpdating": durations.SOFTWARE}.get(cluster.status, durations.CLUSTER)
        since = cluster.created if cluster.status == "Creating" else started.time if started else None
        yield _under_way(
            seen,
            f"the cluster is {cluster.status}",
            since=since,
            usual=usual,
            next_=_command(seen, "nodes"),
            subject=cluster.name,
        )
    elif cluster.status == "Deleting":
        yield Finding(
            kind="needs-you", what="the cluster is being deleted", next=_command(seen, "teardown"), subject=cluster.name
        )
    elif cluster.status == "Failed":
        yield _failed(seen)


def _failed(seen: Snapshot) -> Finding:
    """`Failed` is the outcome of the last operation; nodes that run go on running, and another update mends it."""
    cluster = seen.cluster
    assert cluster is not None  # noqa: S101  (narrowing only)
    running = sum(1 for instance in seen.instances if instance.status == "Running")
    coming = [
        instance
        for instance in seen.instances
        if instance.status in ("Pending", "DeepHealthCheckInProgress", "SystemUpdating")
    ]
    why = cluster.failure or next((event.failure for event in seen.events if event.failure), "")
    if coming:
        since = min((instance.launched for instance in coming if instance.launched), default=None)
        return _under_way(
            seen,
            f"the cluster says Failed, but {len(coming)} node{'s are' if len(coming) > 1 else ' is'} still being brought up",
            since=since,
            usual=_usual(coming[0]),
            next_=_command(seen, "nodes"),
            subject=cluster.name,
            why=why,
        )
    goes_on = f"; {running} nodes run and go on" if running else ""
    return Finding(
        kind="needs-you",
        what=f"the last change of the cluster failed{goes_on}",
        why=why,
        next=_deploy(seen),
        subject=cluster.name,
    )


def _groups(seen: Snapshot) -> Iterator[Finding]:
    """Nodes that were asked for and are not there: with Continuous provisioning InService does not exclude that."""
    cluster = seen.cluster
    if cluster is None or cluster.status in ("Deleting", "Creating"):
        return
    for group in cluster.groups:
        there = [
            instance
            for instance in seen.instances
            if instance.group == group.name and instance.status != "ShuttingDown"
        ]
        missing = group.target - len(there)
        if missing > 0:
            yield _missing(seen, group, missing)


def _missing(seen: Snapshot, group: Group, missing: int) -> Finding:
    what = f"{missing} of {group.target} {group.type} of group '{group.name}' are missing although the cluster is {seen.cluster.status if seen.cluster else ''}"
    leaving = [
        instance for instance in seen.instances if instance.group == group.name and instance.status == "ShuttingDown"
    ]
    refused = next(
        (event for event in seen.events if event.group == group.name and event.level == "Error" and not event.instance),
        None,
    )
    newest = max((event.time for event in seen.events if event.group == group.name), default=None)
    if refused and not leaving:
        return Finding(
            kind="needs-you",
            what=what,
            why=refused.failure or refused.description,
            since=refused.time,
            next=f"{_command(seen, 'preflight')} (quota, zone, training plan); the service keeps trying",
            subject=group.name,
        )
    if leaving or (newest and seen.at - newest < QUIET):
        usual = durations.REPLACEMENT
        return Finding(
            kind="recovering",
            what=what,
            why="replacements are on the way",
            since=newest,
            expected_by=usual.by(newest),
            subject=group.name,
        )
    return Finding(
        kind="needs-you",
        what=what,
        why="nothing has happened on them for half an hour",
        since=newest,
        next=f"python -m ops nodes events {seen.environment} --group {group.name}",
        subject=group.name,
    )


# --- nodes -----------------------------------------------------------------------------------------------------------


def _instances(seen: Snapshot) -> Iterator[Finding]:
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
    event = _last(seen.events, instance=instance.id, level="Error") or _last(seen.events, instance=instance.id)
    since = event.time if event else None
    why = instance.message or (event.failure if event else "") or _fault(seen, instance)
    what = f"node {instance.id} of group '{instance.group}' is faulty"
    replace = _nodes_command(seen, "replace", instance.id)
    if group and not group.accelerated:
        return Finding(
            kind="needs-you",
            what=f"{what}; CPU nodes are not replaced automatically",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    if seen.cluster and seen.cluster.node_recovery != "Automatic":
        return Finding(
            kind="needs-you",
            what=f"{what} and node recovery is off",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    usual = durations.REPLACEMENT
    if usual.overdue(since, seen.at):
        return Finding(
            kind="needs-you",
            what=f"{what} and was not replaced in time",
            why=why,
            since=since,
            next=replace,
            subject=instance.id,
        )
    return Finding(
        kind="recovering",
        what=f"{what}; the service replaces it{_spare(seen, instance.group)}",
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
    started = _last(seen.events, instance=instance.id)
    since = started.time if started else instance.launched
    what = f"node {instance.id} of group '{instance.group}' {verb}{_spare(seen, instance.group)}"
    logs = f"{_command(seen, 'logs')} --node {instance.id}"
    return _under_way(
        seen, what, since=since, usual=_usual(instance), next_=logs, subject=instance.id, why=instance.message
    )


def _usual(instance: Instance) -> Usual:
    return {
        "SystemUpdating": durations.SOFTWARE,
        "DeepHealthCheckInProgress": durations.DEEP_CHECK,
        "ShuttingDown": durations.REBOOT,
    }.get(instance.status, durations.REBOOT if "reboot" in instance.message.lower() else durations.NODE)


def _nodes(seen: Snapshot) -> Iterator[Finding]:
    """What Kubernetes says of nodes that HyperPod finds in order, and the other way round."""
    if not seen.saw("Kubernetes") or seen.cluster is None:
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
    started = _last(seen.events, instance=instance.id)
    since = started.time if started else instance.launched
    what = f"node {instance.id} runs but is not in the Kubernetes cluster"
    logs = f"{_command(seen, 'logs')} --node {instance.id} --kind lifecycle"
    if since and seen.at - since < JOIN_GRACE:
        return Finding(kind="recovering", what=what, since=since, expected_by=since + JOIN_GRACE, subject=instance.id)
    return Finding(
        kind="needs-you",
        what=what,
        why="its lifecycle script or its way to the API server failed",
        since=since,
        next=logs,
        subject=instance.id,
    )


def _ghost(seen: Snapshot, node: Node) -> Finding:
    what = f"{node.name} is still a Kubernetes node, but HyperPod no longer has the instance"
    held = [pod.name for pod in seen.pods if pod.node == node.name]
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
    why = f"it holds {', '.join(held)}, which are not replaced before it goes" if held else "it holds no Ray pods"
    return Finding(
        kind="needs-you",
        what=what,
        why=why,
        since=since,
        next=_nodes_command(seen, "free", node.name),
        subject=node.name,
    )


def _unwell(seen: Snapshot, node: Node, instance: Instance) -> Iterator[Finding]:
    group = seen.group(instance.group)
    recovers = bool(seen.cluster and seen.cluster.node_recovery == "Automatic" and (group is None or group.accelerated))
    if node.health in (names.REPLACE, names.REBOOT):
        usual = durations.REPLACEMENT if node.health == names.REPLACE else durations.REBOOT
        doing = "replacement" if node.health == names.REPLACE else "reboot"
        yield _under_way(
            seen,
            f"node {instance.id} waits for its {doing}{_spare(seen, instance.group)}",
            since=_fault_time(seen, instance),
            usual=usual,
            next_=_nodes_command(seen, "replace" if doing == "replacement" else "reboot", instance.id),
            subject=instance.id,
            why=node.fault,
        )
    elif node.deep_check == "InProgress":
        yield _under_way(
            seen,
            f"node {instance.id} is in its deep health checks{_spare(seen, instance.group)}",
            since=_fault_time(seen, instance) or instance.launched,
            usual=durations.DEEP_CHECK,
            next_=f"{_command(seen, 'logs')} --node {instance.id} --kind deep-health-check",
            subject=instance.id,
        )
    elif node.deep_check == "Failed" or node.health == "Unschedulable":
        what = "failed its deep health checks" if node.deep_check == "Failed" else "is unschedulable"
        replace = _nodes_command(seen, "replace", instance.id)
        if recovers:
            yield _under_way(
                seen,
                f"node {instance.id} {what}; the service deals with it{_spare(seen, instance.group)}",
                since=_fault_time(seen, instance),
                usual=durations.REPLACEMENT,
                next_=replace,
                subject=instance.id,
                why=node.fault,
            )
        else:
            yield Finding(
                kind="needs-you",
                what=f"node {instance.id} {what} and is not replaced automatically",
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
    held = [pod for pod in seen.pods if pod.node == node.name]
    said = [ray.name for ray in seen.rays if ray.state == "ready" and any(pod.cluster == ray.name for pod in held)]
    why = f"RayCluster '{said[0]}' says ready, but {held[0].name} sits there" if said else ""
    if node.since is None or seen.at - node.since < UNREACHABLE_GRACE:
        by = (node.since or seen.at) + UNREACHABLE_GRACE
        return Finding(kind="recovering", what=what, why=why, since=node.since, expected_by=by, subject=instance.id)
    return Finding(
        kind="needs-you",
        what=what,
        why=why or "its pods are not replaced as long as its object stays",
        since=node.since,
        next=f"{_nodes_command(seen, 'reboot', instance.id)}, or {_nodes_command(seen, 'free', instance.id)}",
        subject=instance.id,
    )


# --- storage ---------------------------------------------------------------------------------------------------------


def _storage(seen: Snapshot) -> Iterator[Finding]:
    for file_system in seen.file_systems:
        what = f"file system {file_system.id} is {file_system.lifecycle}"
        if file_system.lifecycle == "CREATING":
            yield _under_way(
                seen,
                what,
                since=file_system.created,
                usual=durations.FILE_SYSTEM,
                next_="aws fsx describe-file-systems",
                subject=file_system.id,
            )
        elif file_system.lifecycle == "DELETING":
            yield Finding(
                kind="needs-you",
                what=f"{what}: the data goes with it",
                next=_command(seen, "teardown"),
                subject=file_system.id,
            )
        elif file_system.lifecycle not in ("AVAILABLE", "UPDATING"):
            yield Finding(
                kind="needs-you",
                what=what,
                why=file_system.failure,
                next=f"aws fsx describe-file-systems --file-system-ids {file_system.id}",
                subject=file_system.id,
            )
    claim = next(
        (claim for claim in seen.claims if claim.namespace == seen.namespace and claim.name == names.CLAIM), None
    )
    if seen.cluster is None or not seen.saw("FSx"):
        return
    made = {stack.name: stack.status for stack in seen.stacks}
    if not seen.file_systems and (
        seen.storage_mode == "existing" or made.get(f"{seen.environment}-Storage", "").endswith("_COMPLETE")
    ):
        yield Finding(kind="needs-you", what="the shared file system is gone", next=_deploy(seen))
    if claim is None:
        return
    if claim.phase == "Lost":
        yield Finding(
            kind="needs-you",
            what=f"claim {claim.namespace}/{claim.name} has lost its volume",
            next=f"kubectl -n {claim.namespace} describe pvc {claim.name}",
            subject=claim.name,
        )
    elif claim.phase == "Pending" and not any(item.lifecycle == "CREATING" for item in seen.file_systems):
        yield _under_way(
            seen,
            f"claim {claim.namespace}/{claim.name} waits for its volume",
            since=claim.created,
            usual=durations.FILE_SYSTEM,
            next_=f"kubectl -n {claim.namespace} describe pvc {claim.name}",
            subject=claim.name,
            why=next(
                (event.message for event in seen.warnings if event.object == f"PersistentVolumeClaim/{claim.name}"), ""
            ),
        )


# --- Ray -------------------------------------------------------------------------------------------------------------


def _ray(seen: Snapshot) -> Iterator[Finding]:
    if not seen.saw("Kubernetes") or seen.cluster is None:
        return
    mine = [ray for ray in seen.rays if (ray.namespace, ray.name) == (seen.namespace, seen.ray_cluster)]
    deployed = {stack.name: stack.status for stack in seen.stacks}.get(f"{seen.environment}-Ray", "")
    if not mine and deployed.endswith("_COMPLETE") and deployed not in DEAD_STACK:
        yield Finding(
            kind="needs-you",
            what=f"RayCluster '{seen.ray_cluster}' is gone although its stack is there",
            next=_deploy(seen),
        )
    for ray in seen.rays:
        if ray.suspended:
            yield Finding(
                kind="needs-you",
                what=f"RayCluster '{ray.name}' is suspended",
                next=f"kubectl -n {ray.namespace} edit raycluster {ray.name}",
                subject=ray.name,
            )
            continue
        if ray.state == "failed" or ray.reason:
            yield Finding(
                kind="needs-you",
                what=f"RayCluster '{ray.name}' is {ray.state or 'not accepted'}",
                why=ray.reason,
                next=f"kubectl -n {ray.namespace} describe raycluster {ray.name}",
                subject=ray.name,
            )
        yield from _really_ready(seen, ray)


def _really_ready(seen: Snapshot, ray: RayCluster) -> Iterator[Finding]:
    """What the pods say against what the RayCluster says: `ready` is no proof of health."""
    pods = [pod for pod in seen.pods if (pod.namespace, pod.cluster) == (ray.namespace, ray.name)]
    awake = {node.name for node in seen.nodes if node.ready}
    good = [pod for pod in pods if pod.ready and pod.deleting_since is None and pod.node in awake]
    heads, workers = ([pod for pod in good if pod.role == role] for role in ("head", "worker"))
    short = ray.desired_workers - len(workers)
    said = f"says {ray.state}" if ray.state else "says nothing yet"
    if not heads:
        yield _without_head(seen, ray, pods, said)
    elif short > 0:
        lost = [
            pod
            for pod in pods
            if pod.role == "worker" and pod not in good and (pod.deleting_since or (pod.node and pod.node not in awake))
        ]
        if lost:
            where = ", ".join(sorted({names.instance_id(pod.node) for pod in lost if pod.node}))
            why = f"{', '.join(pod.name for pod in lost)} on {where}"
        else:
            why = ""
        what = f"RayCluster '{ray.name}' {said}, but {len(workers)} of {ray.desired_workers} workers are"
        since = min(
            filter(None, (pod.deleting_since or pod.created for pod in pods if pod not in good)), default=ray.since
        )
        stuck = [pod for pod in lost if pod.deleting_since and seen.at - pod.deleting_since > UNREACHABLE_GRACE]
        if stuck:
            yield Finding(
                kind="needs-you",
                what=what,
                why=f"{stuck[0].name} has been Terminating on {names.instance_id(stuck[0].node)} and gets no replacement before its node goes",
                since=stuck[0].deleting_since,
                next=_nodes_command(seen, "free", names.instance_id(stuck[0].node)),
                subject=ray.name,
            )
        else:
            yield _under_way(
                seen,
                what,
                since=since,
                usual=_pod_usual(seen),
                next_=f"kubectl -n {ray.namespace} get pods",
                subject=ray.name,
                why=why,
            )


def _without_head(seen: Snapshot, ray: RayCluster, pods: list[Pod], said: str) -> Finding:
    head = next((pod for pod in pods if pod.role == "head"), None)
    what = f"RayCluster '{ray.name}' {said}, but its head does not run"
    since = head.created if head else ray.since
    return _under_way(
        seen,
        what,
        since=since,
        usual=_pod_usual(seen),
        next_=f"kubectl -n {ray.namespace} describe pod {head.name}"
        if head
        else f"kubectl -n {ray.namespace} describe raycluster {ray.name}",
        subject=ray.name,
    )


def _pod_usual(seen: Snapshot) -> Usual:
    """Pods wait for nodes that are on their way, and those take longer than an image."""
    coming = [
        instance
        for instance in seen.instances
        if instance.status in ("Pending", "DeepHealthCheckInProgress", "Failure", "ShuttingDown", "SystemUpdating")
    ]
    return max((_usual(instance) for instance in coming), key=lambda usual: usual.most, default=durations.RAY)


IMAGE_TROUBLE = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull")
CRASHES = (
    "CrashLoopBackOff",
    "OOMKilled",
    "Error",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)


def _pods(seen: Snapshot) -> Iterator[Finding]:
    for pod in seen.pods:
        if pod.deleting_since or pod.ready:
            continue
        describe = f"kubectl -n {pod.namespace} describe pod {pod.name}"
        if pod.reason in IMAGE_TROUBLE:
            yield Finding(
                kind="needs-you",
                what=f"pod {pod.name} cannot get its image ({pod.reason})",
                why=pod.message,
                since=pod.created,
                next=_command(seen, "preflight"),
                subject=pod.name,
            )
        elif pod.reason in CRASHES:
            logs = f"kubectl -n {pod.namespace} logs {pod.name} --previous"
            yield Finding(
                kind="needs-you",
                what=f"pod {pod.name} does not stay up ({pod.reason}, {pod.restarts} restarts)",
                why=pod.message,
                since=pod.created,
                next=logs,
                subject=pod.name,
            )
        elif pod.reason in ("Unschedulable", "SchedulingGated"):
            yield _pending(seen, pod, describe)


def _pending(seen: Snapshot, pod: Pod, describe: str) -> Finding:
    """A pod without a node: it waits for one that comes, or there is none for it."""
    coming = [
        instance
        for instance in seen.instances
        if instance.status not in ("Running", "NotFound")
        and (not pod.instance_group or instance.group == pod.instance_group)
    ]
    group = seen.group(pod.instance_group)
    on = f" in group '{pod.instance_group}'" if pod.instance_group else ""
    if coming or (group is not None and group.current < group.target):
        usual = _usual(coming[0]) if coming else durations.REPLACEMENT
        return Finding(
            kind="recovering",
            what=f"pod {pod.name} waits for a node{on}",
            why=pod.message,
            since=pod.created,
            expected_by=usual.by(pod.created),
            subject=pod.name,
        )
    return Finding(
        kind="needs-you",
        what=f"pod {pod.name} finds no room{on}, and no node is on its way",
        why=pod.message,
        since=pod.created,
        next=f"{describe}; raise the group's count, or ask for less per pod",
        subject=pod.name,
    )


# --- small parts -----------------------------------------------------------------------------------------------------


def _under_way(
    seen: Snapshot, what: str, *, since: datetime | None, usual: Usual, next_: str, subject: str, why: str = ""
) -> Finding:
    """Something that takes its time: Recovering, until it takes far longer than usual."""
    if usual.overdue(since, seen.at):
        return Finding(
            kind="needs-you",
            what=f"{what}, far longer than the usual {usual}",
            why=why,
            since=since,
            next=next_,
            subject=subject,
        )
    return Finding(kind="recovering", what=what, why=why, since=since, expected_by=usual.by(since), subject=subject)


def _last(
    events: tuple[ClusterEvent, ...], *, instance: str = "", resource: str = "", level: str = ""
) -> ClusterEvent | None:
    """The newest event that matches."""
    matching = [
        event
        for event in events
        if (not instance or event.instance == instance)
        and (not resource or event.resource == resource)
        and (not level or event.level == level)
    ]
    return max(matching, key=lambda event: event.time, default=None)


def _fault_time(seen: Snapshot, instance: Instance) -> datetime | None:
    event = _last(seen.events, instance=instance.id)
    return event.time if event else None


def _fault(seen: Snapshot, instance: Instance) -> str:
    return next((node.fault for node in seen.nodes if node.name == names.node_name(instance.id)), "")


def _spare(seen: Snapshot, group: str) -> str:
    """Says that training does not wait for a node because every worker of its RayCluster runs elsewhere."""
    if not seen.rays:
        return ""
    awake = {node.name for node in seen.nodes if node.ready}
    for ray in seen.rays:
        running = [
            pod
            for pod in seen.pods
            if pod.cluster == ray.name
            and pod.namespace == ray.namespace
            and pod.ready
            and not pod.deleting_since
            and pod.node in awake
        ]
        workers = [pod for pod in running if pod.role == "worker"]
        if len(workers) < ray.desired_workers or not any(pod.role == "head" for pod in running):
            return ""
    return "; Ray has all its workers without it"
