"""Namespaces with their pod-security labels."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from hyperpod_ray.core.names import (
    GUARD,
    KUEUE_NAMESPACE,
    OBSERVABILITY_NAMESPACE,
    OPERATOR_NAMESPACE,
    STORAGE_NAMESPACE,
)
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import own_namespaces
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build


def namespaces(plan: Plan) -> Manifest:
    """The operator's namespace, those that may hold RayClusters, the volume-owner Job's, the node guard's and Kueue's.

    Not those of teams: HyperPod task governance makes them, and `teams` puts labels on them.

    Pod security: the operator's, the guard's and the Ray namespaces enforce `restricted`. The volume-owner Job is root
    with CHOWN: it has `ray-storage` to itself, which enforces `baseline`. `aws-hyperpod` is the HyperPod chart's own
    (its agent mounts host folders). https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """

    def define(chart: cdk8s.Chart) -> None:
        namespace(chart, OPERATOR_NAMESPACE, enforce="restricted")
        for name in own_namespaces(plan):
            namespace(chart, name, enforce="restricted")
        namespace(chart, STORAGE_NAMESPACE, enforce="baseline")
        if plan.settings.hyperpod.node_guard is not None:
            namespace(chart, GUARD, enforce="restricted")
        if plan.settings.observability is not None:
            # its exporters read the host: node exporter, DCGM
            namespace(chart, OBSERVABILITY_NAMESPACE, enforce="privileged")
        if plan.settings.teams:
            namespace(chart, KUEUE_NAMESPACE, enforce="baseline")

    return build("Namespaces", define)


def namespace(chart: cdk8s.Chart, name: str, *, enforce: str) -> None:
    """A namespace that enforces a pod security level."""
    security = {"enforce": enforce, "warn": "restricted", "audit": "restricted"}
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in security.items()}
    k8s.KubeNamespace(chart, name, metadata=k8s.ObjectMeta(name=name, labels={**PART_OF, **labels}))
