"""Asks every source of a snapshot at once; one that does not answer is noted and the others still count."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

from core import names, plan_names
from core.evidence import absent
from ops.clients import Json, Target
from ops.errors import OpsError, explain
from ops.output import now
from ops.snapshot import (
    Claim,
    Cluster,
    ClusterEvent,
    FileSystem,
    Group,
    Instance,
    KubernetesEvent,
    Node,
    Pod,
    RayCluster,
    Snapshot,
    Stack,
    Unseen,
)

T = TypeVar("T")

EVENTS = 50
"""Newest cluster events looked at."""
WARNINGS = 50
SOURCES = ("CloudFormation", "HyperPod", "HyperPod events", "Kubernetes", "FSx")
NODES = "Kubernetes nodes"
"""Part of source Kubernetes, but asked apart: a user of a namespace may not see nodes, and has a RayCluster."""


def snapshot(target: Target, *, only: tuple[str, ...] = SOURCES) -> Snapshot:
    """One snapshot. `only` limits the sources that are asked; the others are then empty and not `unseen`.

    Raises:
        OpsError: Where the credentials are missing, expired or of another account: then nothing can be said.
    """
    target.aws.require_account()
    settings = target.plan.settings
    parts: dict[str, Any] = {}
    unseen: list[Unseen] = []
    tasks: dict[str, Callable[[Target], dict[str, Any]]] = {
        "CloudFormation": _cloudformation,
        "HyperPod": _hyperpod,
        "HyperPod events": _events,
        "Kubernetes": lambda target: _kubernetes(target, unseen),
        NODES: lambda target: {"nodes": nodes(target)},
        "FSx": _fsx,
    }
    with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
        wanted = {*only, NODES} if "Kubernetes" in only else set(only)
        futures = {source: pool.submit(task, target) for source, task in tasks.items() if source in wanted}
        for source, future in futures.items():
            try:
                parts |= future.result()
            except Exception as error:
                known = explain(error, environment=target.name)
                if known is None:
                    raise
                unseen.append(Unseen(source=source, why=known.message, next=known.fix, refused=refused(error)))
    if any(item.source == "Kubernetes" and not item.refused for item in unseen):
        unseen = [item for item in unseen if item.source != NODES]  # one cause, said once
    return Snapshot(
        environment=target.name,
        at=now(),
        namespace=settings.ray.namespace,
        ray_cluster=settings.ray.cluster_name,
        storage_mode=settings.storage.kind,
        unseen=tuple(unseen),
        **parts,
    )


# --- CloudFormation --------------------------------------------------------------------------------------------------


def _cloudformation(target: Target) -> dict[str, Any]:
    return {"stacks": tuple(stack(target, name) for name in plan_names.stack_names(target.plan))}


def stack(target: Target, name: str) -> Stack:
    """One stack; with an empty status where there is none."""
    try:
        found = target.aws.call("cloudformation", "describe_stacks", StackName=name)["Stacks"][0]
    except Exception as error:
        if absent(error):
            return Stack(name=name)
        raise
    return Stack(
        name=name,
        status="" if found["StackStatus"] == "DELETE_COMPLETE" else found["StackStatus"],
        reason=found.get("StackStatusReason", ""),
        protected=bool(found.get("EnableTerminationProtection")),
    )


# --- HyperPod --------------------------------------------------------------------------------------------------------


def _hyperpod(target: Target) -> dict[str, Any]:
    found = cluster(target)
    if found is None:
        return {"cluster": None}
    return {"cluster": found, "instances": instances(target)}


def _events(target: Target) -> dict[str, Any]:
    try:
        return {"events": events(target)}
    except Exception as error:
        if absent(error):  # no cluster, no events
            return {}
        raise


def cluster(target: Target) -> Cluster | None:
    """The HyperPod cluster; None where there is none."""
    name = target.plan.settings.hyperpod.cluster_name
    try:
        found = target.aws.call("sagemaker", "describe_cluster", ClusterName=name)
    except Exception as error:
        if absent(error):
            return None
        raise
    return Cluster(
        name=name,
        arn=found["ClusterArn"],
        status=found["ClusterStatus"],
        failure=found.get("FailureMessage", ""),
        node_recovery=found.get("NodeRecovery", "Automatic"),
        created=found.get("CreationTime"),
        groups=tuple(_group(target, group) for group in found.get("InstanceGroups", [])),
    )


def _group(target: Target, group: Json) -> Group:
    kind = group.get("InstanceType", "")
    plan = target.plan
    return Group(
        name=group["InstanceGroupName"],
        type=kind,
        target=int(group.get("TargetCount") or 0),
        current=int(group.get("CurrentCount") or 0),
        status=group.get("Status", ""),
        # an unknown type is taken for accelerated: the mistake then is to wait for a recovery, which has a time limit
        accelerated=plan.type_spec(kind).accelerators > 0 if plan.known(kind) else True,
    )


def instances(target: Target) -> tuple[Instance, ...]:
    """Every node that HyperPod lists, oldest first."""
    name = target.plan.settings.hyperpod.cluster_name
    found = target.aws.pages("sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=name)
    listed = [
        Instance(
            id=node["InstanceId"],
            group=node["InstanceGroupName"],
            type=node["InstanceType"],
            status=node["InstanceStatus"]["Status"],
            message=node["InstanceStatus"].get("Message", ""),
            launched=node.get("LaunchTime"),
            logical_id=node.get("NodeLogicalId", ""),
        )
        for node in found
    ]
    return tuple(
        sorted(listed, key=lambda node: (node.group, node.launched or datetime.min.replace(tzinfo=UTC), node.id))
    )


def events(target: Target, *, limit: int = EVENTS, **filters: Any) -> tuple[ClusterEvent, ...]:
    """The cluster's newest events, newest first; failure messages are not part of the listing (`describe_event`)."""
    name = target.plan.settings.hyperpod.cluster_name
    found: list[Json] = []
    arguments: Json = {"ClusterName": name, "SortOrder": "Descending", "MaxResults": min(limit, 100), **filters}
    while len(found) < limit:
        page = target.aws.call("sagemaker", "list_cluster_events", **arguments)
        found += page.get("Events", [])
        if not page.get("NextToken"):
            break
        arguments["NextToken"] = page["NextToken"]
    return tuple(_event(item) for item in found[:limit])


def describe_event(target: Target, event: ClusterEvent) -> ClusterEvent:
    """An event with its failure message, which only DescribeClusterEvent tells."""
    name = target.plan.settings.hyperpod.cluster_name
    details = target.aws.call("sagemaker", "describe_cluster_event", ClusterName=name, EventId=event.id)["EventDetails"]
    return _event(details)


def _event(item: Json) -> ClusterEvent:
    metadata = (item.get("EventDetails") or {}).get("EventMetadata") or {}
    failures = [
        part["FailureMessage"] for part in metadata.values() if isinstance(part, dict) and part.get("FailureMessage")
    ]
    return ClusterEvent(
        id=item["EventId"],
        time=item["EventTime"],
        level=item.get("EventLevel", "Info"),
        description=item.get("Description", ""),
        resource=item.get("ResourceType", "Cluster"),
        group=item.get("InstanceGroupName", ""),
        instance=item.get("InstanceId", ""),
        failure="; ".join(failures),
    )


# --- Kubernetes ------------------------------------------------------------------------------------------------------


def _kubernetes(target: Target, unseen: list[Unseen]) -> dict[str, Any]:
    """Every Ray namespace; one that these credentials may not see, and that is not the environment's, is omitted."""
    found: dict[str, list[Any]] = {"pods": [], "ray_clusters": [], "claims": [], "warnings": []}
    own, *others = plan_names.ray_namespaces(target.plan)
    for space in (own, *others):
        try:
            here: dict[str, list[Any]] = {
                "pods": pods(target, space),
                "ray_clusters": ray_clusters(target, space),
                "claims": claims(target, space),
                "warnings": warnings(target, space),
            }
        except Exception as error:
            known = explain(error, environment=target.name)
            if space == own or known is None or not refused(error):
                raise
            unseen.append(Unseen(source=f"namespace {space}", why=known.message, refused=True))
            continue
        for part, items in here.items():
            found[part] += items
    return {part: tuple(items) for part, items in found.items()}


def refused(error: BaseException) -> bool:
    """Whether Kubernetes answered that these credentials may not."""
    return getattr(error, "status", None) == 403


def nodes(target: Target) -> tuple[Node, ...]:
    """Nodes of the Kubernetes cluster."""
    return tuple(_node(item) for item in target.kubernetes.items("/api/v1/nodes"))


def _node(item: Json) -> Node:
    meta, spec = item["metadata"], item.get("spec", {})
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    conditions = {c["type"]: c for c in (item.get("status") or {}).get("conditions") or []}
    ready = conditions.get("Ready", {})
    taints = {taint["key"] for taint in spec.get("taints") or []}
    reported = [
        next((labels[key] for key in keys if labels.get(key)), "")
        for keys in (names.FAULT_TYPE_LABELS, names.FAULT_REASON_LABELS)
    ]
    return Node(
        name=meta["name"],
        ready=ready.get("status") == "True",
        unreachable=names.UNREACHABLE in taints or ready.get("status") == "Unknown",
        since=moment(ready.get("lastTransitionTime")),
        created=moment(meta.get("creationTimestamp")),
        group=labels.get(names.INSTANCE_GROUP_LABEL, ""),
        health=labels.get(names.HEALTH_LABEL, ""),
        deep_check=labels.get(names.DEEP_HEALTH_LABEL, ""),
        fault=": ".join(filter(None, [*reported, notes.get(names.FAULT_DETAILS, "")])),
        cordoned=bool(spec.get("unschedulable")),
        out_of_service=names.OUT_OF_SERVICE in taints,
    )


def pods(target: Target, namespace: str) -> list[Pod]:
    """Pods of RayClusters in a namespace."""
    found = target.kubernetes.items(f"/api/v1/namespaces/{namespace}/pods", labels=names.RAY_CLUSTER_LABEL)
    return [_pod(item) for item in found]


def _pod(item: Json) -> Pod:
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    labels = meta.get("labels") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    reason, message = _why_not(status, conditions)
    containers = status.get("containerStatuses") or []
    return Pod(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        cluster=labels.get(names.RAY_CLUSTER_LABEL, ""),
        role=labels.get(names.RAY_ROLE_LABEL, ""),
        group=labels.get(names.RAY_GROUP_LABEL, ""),
        phase=status.get("phase", "Pending"),
        ready=conditions.get("Ready", {}).get("status") == "True",
        node=spec.get("nodeName", ""),
        reason=reason,
        message=message,
        created=moment(meta.get("creationTimestamp")),
        deleting_since=moment(meta.get("deletionTimestamp")),
        instance_group=(spec.get("nodeSelector") or {}).get(names.INSTANCE_GROUP_LABEL, ""),
        restarts=max((c.get("restartCount", 0) for c in containers), default=0),
    )


def _why_not(status: Json, conditions: dict[str, Json]) -> tuple[str, str]:
    """Why a pod does not run: the scheduler's reason, else the first container's that waits or died."""
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return scheduled.get("reason", ""), scheduled.get("message", "")
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason") and waiting["reason"] not in ("PodInitializing", "ContainerCreating"):
            last = ((container.get("lastState") or {}).get("terminated") or {}).get("reason", "")
            return ("OOMKilled" if last == "OOMKilled" else waiting["reason"]), waiting.get("message", "")
        if terminated.get("reason") and terminated.get("exitCode"):
            return terminated["reason"], terminated.get("message", "")
    return status.get("reason", ""), status.get("message", "")


def ray_clusters(target: Target, namespace: str) -> list[RayCluster]:
    """RayClusters of a namespace; none where KubeRay is not installed."""
    with contextlib.suppress(Missing):
        return [
            _ray(item) for item in _custom(target, f"/apis/{names.RAY_API_VERSION}/namespaces/{namespace}/rayclusters")
        ]
    return []


class Missing(Exception):
    """A kind of object is not installed in the cluster."""


def _custom(target: Target, path: str) -> list[Json]:
    try:
        return target.kubernetes.items(path)
    except Exception as error:
        if absent(error):
            raise Missing from None
        raise


def _ray(item: Json) -> RayCluster:
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    wanted = sum(group.get("replicas") or 0 for group in spec.get("workerGroupSpecs") or [])
    bad = [c for c in status.get("conditions") or [] if c.get("type") == "ReplicaFailure" and c.get("status") == "True"]
    changed = [moment(c.get("lastTransitionTime")) for c in status.get("conditions") or []]
    return RayCluster(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        state=status.get("state", ""),
        desired_workers=status.get("desiredWorkerReplicas", wanted) or wanted,
        ready_workers=status.get("readyWorkerReplicas", 0),
        suspended=bool(spec.get("suspend")),
        reason=bad[0].get("message", "") if bad else status.get("reason", ""),
        since=max(filter(None, changed), default=moment(meta.get("creationTimestamp"))),
    )


def claims(target: Target, namespace: str) -> list[Claim]:
    """Volume claims of a namespace."""
    return [
        Claim(
            name=item["metadata"]["name"],
            namespace=namespace,
            phase=(item.get("status") or {}).get("phase", "Pending"),
            volume=(item.get("spec") or {}).get("volumeName", ""),
            storage_class=(item.get("spec") or {}).get("storageClassName", "") or "",
            created=moment(item["metadata"].get("creationTimestamp")),
            deleting_since=moment(item["metadata"].get("deletionTimestamp")),
        )
        for item in target.kubernetes.items(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
    ]


def warnings(target: Target, namespace: str) -> list[KubernetesEvent]:
    """The newest warnings of a namespace, newest first."""
    found = target.kubernetes.items(f"/api/v1/namespaces/{namespace}/events", fields="type=Warning")
    listed = [
        KubernetesEvent(
            time=moment(
                item.get("lastTimestamp") or item.get("eventTime") or item["metadata"].get("creationTimestamp")
            ),
            reason=item.get("reason", ""),
            object="/".join((item.get("involvedObject") or {}).get(key, "") for key in ("kind", "name")),
            message=item.get("message", ""),
            count=item.get("count") or 1,
        )
        for item in found
    ]
    listed.sort(key=lambda event: event.time or datetime.min.replace(tzinfo=UTC), reverse=True)
    return listed[:WARNINGS]


def moment(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text) if text else None


# --- FSx -------------------------------------------------------------------------------------------------------------


def _fsx(target: Target) -> dict[str, Any]:
    return {"file_systems": file_systems(target)}


def file_systems(target: Target) -> tuple[FileSystem, ...]:
    """File systems that carry the environment's tag, and the one that the environment only uses."""
    existing = target.plan.existing_file_system
    found = []
    for item in target.aws.pages("fsx", "describe_file_systems", "FileSystems"):
        tags = {tag["Key"]: tag.get("Value", "") for tag in item.get("Tags", [])}
        mine = tags.get(names.ENVIRONMENT_TAG) == target.name
        if not mine and not (existing and existing.file_system_id == item["FileSystemId"]):
            continue
        found.append(
            FileSystem(
                id=item["FileSystemId"],
                lifecycle=item["Lifecycle"],
                capacity_gib=item.get("StorageCapacity", 0),
                made_by_claim=names.CLAIM_TAG in tags,
                failure=(item.get("FailureDetails") or {}).get("Message", ""),
                created=item.get("CreationTime"),
                stack=tags.get("aws:cloudformation:stack-name", ""),
                interfaces=tuple(item.get("NetworkInterfaceIds", [])),
            )
        )
    return tuple(found)


def require_cluster(target: Target) -> Cluster:
    """The HyperPod cluster, or an error that says how to make it."""
    target.aws.require_account()
    found = cluster(target)
    if found is None:
        raise OpsError(
            f"HyperPod cluster '{target.plan.settings.hyperpod.cluster_name}' does not exist",
            expected="the environment to be deployed",
            fix=target.deploy_command,
        )
    return found
