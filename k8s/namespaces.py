"""Namespaces with their pod-security labels."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from core.names import GUARD, OBSERVABILITY_NAMESPACE, OPERATOR_NAMESPACE, STORAGE_NAMESPACE
from core.plan import Plan
from core.plan_names import ray_namespaces
from k8s.manifest import PART_OF, Manifest, build


def namespaces(plan: Plan) -> Manifest:
    """The operator's namespace, those that may hold RayClusters, the volume-owner Job's and the node guard's.

    Pod security: the operator's, the guard's and the Ray namespaces enforce `restricted`. The volume-owner Job is root
    with CHOWN: it has `ray-storage` to itself, which enforces `baseline`. `aws-hyperpod` is the HyperPod chart's own
    (its agent mounts host folders). https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """

    def define(chart: cdk8s.Chart) -> None:
        _namespace(chart, OPERATOR_NAMESPACE, enforce="restricted")
        for name in ray_namespaces(plan):
            _namespace(chart, name, enforce="restricted")
        _namespace(chart, STORAGE_NAMESPACE, enforce="baseline")
        if plan.settings.hyperpod.node_guard is not None:
            _namespace(chart, GUARD, enforce="restricted")
        if plan.settings.observability is not None:
            # its exporters read the host: node exporter, DCGM
            _namespace(chart, OBSERVABILITY_NAMESPACE, enforce="privileged")

    return build("Namespaces", define)


def _namespace(chart: cdk8s.Chart, name: str, *, enforce: str) -> None:
    security = {"enforce": enforce, "warn": "restricted", "audit": "restricted"}
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in security.items()}
    k8s.KubeNamespace(chart, name, metadata=k8s.ObjectMeta(name=name, labels={**PART_OF, **labels}))
