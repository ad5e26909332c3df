"""Everything this project puts into Kubernetes, as plain objects: cdk8s only, never aws_cdk.

Order of a deploy::

    hyperpod_dependencies(plan)            # Helm, into kube-system, before the HyperPod cluster
    namespace_manifests(plan)              # namespaces, policies, roles
    system_manifests(plan)                 # policies of the system's pods, beside the HyperPod cluster
    …  HyperPod cluster, nodes …
    platform_manifests(plan, bindings)     # StorageClass, or PersistentVolume and its claim
    kuberay_operator(plan)                 # Helm, waits; its Roles go into the Ray namespaces
    …  FSx CSI driver, beside these two …
    guard_manifests(plan, bindings)        # what frees the pods of a node that is gone
    ray_manifests(plan, bindings)          # a claim that makes a file system, then what mounts it

Names load on first use: what needs no cdk8s (the charts' commands) starts no Node.js.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperpod_ray.k8s.bindings import Bindings, placeholders
    from hyperpod_ray.k8s.helm import HelmRelease, helm_releases, hyperpod_dependencies, kuberay_operator
    from hyperpod_ray.k8s.manifest import Manifest
    from hyperpod_ray.k8s.manifests import (
        guard_manifests,
        namespace_manifests,
        platform_manifests,
        ray_manifests,
        system_manifests,
    )
    from hyperpod_ray.k8s.rayjob import ray_cron_job, ray_job

__all__ = [
    "Bindings",
    "HelmRelease",
    "Manifest",
    "guard_manifests",
    "helm_releases",
    "hyperpod_dependencies",
    "kuberay_operator",
    "namespace_manifests",
    "placeholders",
    "platform_manifests",
    "ray_cron_job",
    "ray_job",
    "ray_manifests",
    "system_manifests",
]

_HOME = {
    "Bindings": "bindings",
    "HelmRelease": "helm",
    "Manifest": "manifest",
    "guard_manifests": "manifests",
    "helm_releases": "helm",
    "hyperpod_dependencies": "helm",
    "kuberay_operator": "helm",
    "namespace_manifests": "manifests",
    "placeholders": "bindings",
    "platform_manifests": "manifests",
    "ray_cron_job": "rayjob",
    "ray_job": "rayjob",
    "ray_manifests": "manifests",
    "system_manifests": "manifests",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
