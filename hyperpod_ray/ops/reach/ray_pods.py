"""Pods of RayClusters, as the Kubernetes API lists them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hyperpod_ray.core import names
from hyperpod_ray.ops.reach.clients import Json, Target


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod of Ray."""

    name: str
    namespace: str
    cluster: str
    role: str
    """`head` or `worker`."""
    group: str
    """Ray's worker group."""
    phase: str
    ready: bool = False
    node: str = ""
    reason: str = ""
    """Why it does not run: Unschedulable, ImagePullBackOff, CrashLoopBackOff, OOMKilled …"""
    message: str = ""
    created: datetime | None = None
    deleting_since: datetime | None = None
    instance_group: str = ""
    """The HyperPod group that its node selector asks for."""
    restarts: int = 0
    ready_since: datetime | None = None
    """When its Ready condition last changed."""
    address: str = ""
    """By which Ray knows it."""


def moment(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text) if text else None


def pods(target: Target, namespace: str) -> list[Pod]:
    """Pods of RayClusters in a namespace."""
    found = target.kubernetes.items(f"/api/v1/namespaces/{namespace}/pods", labels=names.RAY_CLUSTER_LABEL)
    return [pod_of(item) for item in found]


def pod_of(item: Json) -> Pod:
    """A pod of a listing."""
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
        ready_since=moment(conditions.get("Ready", {}).get("lastTransitionTime")),
        address=status.get("podIP", ""),
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
