"""What a changed NodePool or HyperpodNodeClass does to the nodes that managed Karpenter added.

No template shows those nodes. A change of what a NodePool makes nodes of is drift: Karpenter replaces the nodes that
differ, busy or not. Limits and disruption are read as they are and replace nothing.
https://karpenter.sh/docs/concepts/disruption/#drift
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core.names import GPU_RESOURCE, INSTANCE_GROUP_LABEL, INSTANCE_TYPE_LABEL, NEURON_RESOURCE
from hyperpod_ray.review import severity
from hyperpod_ray.review.effects.words import moved
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Findings, Row
from hyperpod_ray.review.instance_groups import UNCOUNTED
from hyperpod_ray.review.kubernetes import Cluster, KubernetesObject

POOL, NODE_CLASS = "NodePool", "HyperpodNodeClass"


def concerns(k8s_object: KubernetesObject) -> bool:
    """Whether an object says what managed Karpenter makes."""
    return k8s_object.id.kind in {POOL, NODE_CLASS}


def deleted(k8s_object: KubernetesObject, how: str) -> Row:
    """The row of one that leaves the cluster: its nodes go with it."""
    types = _types(k8s_object) if k8s_object.id.kind == POOL else []
    return Row(
        code=f"{k8s_object.id.kind.lower()}-deleted",
        what=str(k8s_object.id),
        change="left the manifests",
        consequence=f"{how.capitalize()}. Karpenter drains and ends every node that it created by it, busy or not.",
        unavailable=f"the nodes of {k8s_object.id}",
        where=k8s_object.where,
        lost=tuple((f"{name} node", UNCOUNTED) for name in types),
        **severity.of_class("autoscaled-nodes-go"),
    )


def stays(k8s_object: KubernetesObject) -> Row:
    """The row of one that leaves the manifests and stays in the cluster."""
    return Row(
        code="stays-behind",
        what=str(k8s_object.id),
        change="left the manifests",
        consequence="'kubectl apply --prune' deletes only built-in kinds it lists: this one stays, and Karpenter still "
        "acts by it. Its nodes are not looked after by anything here. To delete it ends them.",
        unavailable=f"control of the nodes of {k8s_object.id}",
        where=k8s_object.where,
        **severity.of_class("autoscaling-off"),
    )


def find(before: KubernetesObject, after: KubernetesObject, findings: Findings) -> None:
    """Rows for one that stays and changes."""
    spec_before, spec_after = (side.data.get("spec") or {} for side in (before, after))
    if after.id.kind == NODE_CLASS:
        _node_class(spec_before, spec_after, after, findings)
        return
    common: dict[str, Any] = {"what": str(after.id), "where": after.where}
    if spec_before.get("template") != spec_after.get("template"):
        findings.add(
            Row(
                code="nodes-drift",
                change="the nodes that it makes: labels, taints, types or lifetime",
                consequence="Nodes that exist already differ, which Karpenter calls drift: it replaces them, busy or "
                "not. Training on them ends and resumes from its checkpoint.",
                unavailable=f"the nodes of {after.id}, until they are replaced",
                lost=tuple((f"{name} node", UNCOUNTED) for name in _types(before)),
                **severity.of_class("autoscaled-nodes-go"),
                **common,
            )
        )
    had, has = spec_before.get("limits") or {}, spec_after.get("limits") or {}
    if limits := moved(had, has, {**had, **has}):
        lower = _lower(had, has)
        findings.add(
            Row(
                **severity.of_class("autoscaling-narrowed") | ({} if lower else {"effect": Effect.SAFE}),
                code="nodepool-limits",
                change=f"limits: {', '.join(limits)}",
                consequence="Karpenter makes no node beyond it. Nodes there are beyond it stay; a lost one of them is "
                "not replaced."
                if lower
                else "Karpenter may make more nodes for pods that wait.",
                **common,
            )
        )
    if spec_before.get("disruption") != spec_after.get("disruption"):
        moves = (spec_after.get("disruption") or {}).get("consolidationPolicy") != "WhenEmpty"
        findings.add(
            Row(
                effect=Effect.INTERRUPTS if moves else Effect.SAFE,
                source=source("karpenter-consolidation"),
                code="nodepool-disruption",
                change="disruption: when a node is removed",
                consequence="Karpenter may remove nodes that have work, to pack pods on fewer."
                if moves
                else "Karpenter removes nodes without pods sooner or later than before; no pod is touched.",
                **common,
            )
        )


def _node_class(
    spec_before: dict[str, Any], spec_after: dict[str, Any], after: KubernetesObject, findings: Findings
) -> None:
    gone = sorted(
        set(map(str, spec_before.get("instanceGroups") or [])) - set(map(str, spec_after.get("instanceGroups") or []))
    )
    if not gone:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="object-changed",
                what=str(after.id),
                change="instance groups are added",
                consequence="Karpenter may use the new ones; no node is touched.",
                where=after.where,
            )
        )
        return
    findings.add(
        Row(
            code="nodes-drift",
            what=str(after.id),
            change=f"without {', '.join(gone)}",
            consequence="Nodes of a group that leaves a HyperpodNodeClass are drift: Karpenter replaces them, busy or "
            "not.",
            unavailable=f"the nodes of {', '.join(gone)}",
            where=after.where,
            lost=(("node", UNCOUNTED),),
            **severity.of_class("autoscaled-nodes-go"),
        )
    )


def _types(node_pool: KubernetesObject) -> list[str]:
    """Instance types that a NodePool may make."""
    spec = ((node_pool.data.get("spec") or {}).get("template") or {}).get("spec") or {}
    return [
        str(name)
        for requirement in spec.get("requirements") or []
        if requirement.get("key") == INSTANCE_TYPE_LABEL
        for name in requirement.get("values") or []
    ]


def most_nodes(cluster: Cluster, group: str, instance_type: str) -> int | None:
    """Nodes that Karpenter may add to a group, by the limits of its NodePool; None where there is no limit."""
    from hyperpod_ray.core.common_plan import catalogue  # only for an environment that autoscales

    spec = catalogue().get(instance_type)
    for k8s_object in cluster.objects.values():
        if k8s_object.id.kind != POOL:
            continue
        pool = k8s_object.data.get("spec") or {}
        labels = ((pool.get("template") or {}).get("metadata") or {}).get("labels") or {}
        if labels.get(INSTANCE_GROUP_LABEL) != group:
            continue
        limits = pool.get("limits") or {}
        if spec is None or not limits:
            return None
        per_node = {"cpu": spec.vcpus, GPU_RESOURCE: spec.accelerators, NEURON_RESOURCE: spec.accelerators}
        counts = [int(float(value) // per_node[name]) for name, value in limits.items() if per_node.get(name)]
        return min(counts, default=None)
    return None


def _lower(limits_before: dict[str, Any], limits_after: dict[str, Any]) -> bool:
    """Whether any limit is new or smaller; one that cannot be compared counts as smaller."""
    for name, value in limits_after.items():
        try:
            if name not in limits_before or float(value) < float(limits_before[name]):
                return True
        except ValueError:
            return True
    return False
