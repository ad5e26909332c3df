"""Namespaces with their pod-security labels."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from core.plan import Plan
from k8s.manifest import PART_OF, Manifest, build
from k8s.names import OPERATOR_NAMESPACE, ray_namespaces


def namespaces(plan: Plan) -> Manifest:
    """The operator's namespace and those that may hold RayClusters.

    Pod security: the operator's namespace enforces `restricted`. A Ray namespace enforces `baseline` and warns and
    audits `restricted`: head, workers and Redis are restricted, but the volume-owner Job runs as root with CHOWN, and a
    claim can only be mounted from its own namespace. `aws-hyperpod` is the HyperPod chart's own (its agent mounts host
    folders). https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """

    def define(chart: cdk8s.Chart) -> None:
        _namespace(chart, OPERATOR_NAMESPACE, enforce="restricted")
        for name in ray_namespaces(plan):
            _namespace(chart, name, enforce="baseline")

    return build("Namespaces", define)


def _namespace(chart: cdk8s.Chart, name: str, *, enforce: str) -> None:
    security = {"enforce": enforce, "warn": "restricted", "audit": "restricted"}
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in security.items()}
    k8s.KubeNamespace(chart, name, metadata=k8s.ObjectMeta(name=name, labels={**PART_OF, **labels}))
