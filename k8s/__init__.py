"""Everything this project puts into Kubernetes, as plain objects: cdk8s only, never aws_cdk.

Order of a deploy::

    hyperpod_dependencies(plan)            # Helm, into kube-system, before the HyperPod cluster
    …  HyperPod cluster, nodes, FSx CSI driver …
    platform_manifests(plan, bindings)     # namespaces, then StorageClass or PersistentVolume
    kuberay_operator(plan)                 # Helm, waits; its Roles go into the Ray namespaces
    ray_manifests(plan, bindings)          # each after the one before it
"""

from __future__ import annotations

from k8s.access import access
from k8s.bindings import Bindings, placeholders
from k8s.helm_charts.errors import ChartError, ChartMissingError
from k8s.helm import HelmRelease, helm_releases, hyperpod_dependencies, kuberay_operator
from k8s.manifest import Manifest
from k8s.names import OPERATOR_NAMESPACE, ray_namespaces, user_groups
from k8s.namespaces import namespaces
from k8s.network_policies import network_policies
from k8s.ray_cluster import DRIVER_GROUP, ray_cluster
from k8s.ray_job import ray_job
from k8s.redis import redis
from k8s.storage import claim, cluster_storage, volume_owner

from environments.plan import Plan

__all__ = [
    "DRIVER_GROUP",
    "OPERATOR_NAMESPACE",
    "Bindings",
    "ChartError",
    "ChartMissingError",
    "HelmRelease",
    "Manifest",
    "helm_releases",
    "hyperpod_dependencies",
    "kuberay_operator",
    "placeholders",
    "platform_manifests",
    "ray_job",
    "ray_manifests",
    "ray_namespaces",
    "user_groups",
]


def platform_manifests(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """Cluster-wide objects, in apply order: namespaces, then the StorageClass (dynamic) or the PersistentVolume."""
    return [namespaces(plan), cluster_storage(plan, bindings)]


def ray_manifests(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """What is in the Ray namespaces, in apply order; policies come before anything they protect."""
    made = [network_policies(plan), access(plan), claim(plan), volume_owner(plan, bindings)]
    fault_tolerance = plan.settings.ray.gcs_fault_tolerance
    if fault_tolerance and fault_tolerance.redis_image and not fault_tolerance.redis_address:
        made.append(redis(plan, fault_tolerance.redis_image))
    return [*made, ray_cluster(plan, bindings)]
