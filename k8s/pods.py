"""What all pods created here have in common: where they may run and what they may do."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core.names import (
    DEEP_HEALTH_LABEL,
    GPU_RESOURCE,
    HEALTH_LABEL,
    INSTANCE_GROUP_LABEL,
    NEURON_RESOURCE,
    NOT_READY,
    RAY_GID,
    RAY_UID,
    UNREACHABLE,
)
from hyperpod_ray.core.plan import Plan


def node_selector(group: str) -> dict[str, str]:
    """Only nodes of one HyperPod instance group."""
    return {INSTANCE_GROUP_LABEL: group}


def node_affinity(*, deep_checks: bool) -> dict[str, Any]:
    """Only nodes that HyperPod calls schedulable; where deep health checks run, rather those that passed them.

    HyperPod may set the label without a taint, and a node with the label alone still gets pods.
    """
    schedulable = {"key": HEALTH_LABEL, "operator": "In", "values": ["Schedulable"]}
    affinity: dict[str, Any] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [schedulable]}]}
    }
    if deep_checks:
        passed = {"key": DEEP_HEALTH_LABEL, "operator": "In", "values": ["Passed"]}
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": 100, "preference": {"matchExpressions": [passed]}}
        ]
    return affinity


def group_tolerations(plan: Plan, group: str) -> list[dict[str, Any]]:
    """Tolerations of a group's own taints, and of `nvidia.com/gpu` or `aws.amazon.com/neuron` on accelerated types."""
    tolerations: list[dict[str, Any]] = []
    for taint in plan.group(group).taints:
        match = {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
        tolerations.append({"key": taint.key, **match, "effect": taint.effect})
    accelerator = plan.type_spec(plan.group(group).type).accelerator
    key = {"nvidia": GPU_RESOURCE, "neuron": NEURON_RESOURCE}.get(accelerator)
    if key and not any(toleration["key"] == key for toleration in tolerations):
        tolerations.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    return tolerations


def node_loss_tolerations(seconds: int) -> list[dict[str, Any]]:
    """Evict from a node that is not ready or not reachable after this many seconds (Kubernetes' default: 300)."""
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in (NOT_READY, UNREACHABLE)
    ]


def resources(**amounts: str) -> dict[str, dict[str, str]]:
    """Requests equal to limits: extended resources demand it, and for the rest it makes the pod Guaranteed."""
    named = {key.replace("__", "/"): value for key, value in amounts.items()}
    return {"requests": dict(named), "limits": dict(named)}


def restricted_container(*, read_only: bool = False) -> dict[str, Any]:
    """Security context of a container under the pod-security level `restricted`."""
    context: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if read_only:
        context["readOnlyRootFilesystem"] = True
    return context


def restricted_pod(*, uid: int = RAY_UID, gid: int = RAY_GID, volume_group: int | None = None) -> dict[str, Any]:
    """Security context of a pod under the level `restricted`.

    Args:
        uid: Of its processes.
        gid: Their group.
        volume_group: Group that gets the pod's EBS volumes (`fsGroup`). Default: none; Lustre takes none.
    """
    context: dict[str, Any] = {"runAsNonRoot": True, "runAsUser": uid, "runAsGroup": gid}
    if volume_group is not None:
        context |= {"fsGroup": volume_group, "fsGroupChangePolicy": "OnRootMismatch"}
    return {**context, "seccompProfile": {"type": "RuntimeDefault"}}
