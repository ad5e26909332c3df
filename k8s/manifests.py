"""Which manifests an environment has, in apply order."""

from __future__ import annotations

from core import needs
from core.plan import Plan
from k8s.access import access
from k8s.bindings import Bindings
from k8s.manifest import Manifest
from k8s.namespaces import namespaces
from k8s.network_policies import network_policies, operator_policies, system_policies
from k8s.node_pools import node_pools
from k8s.ray_cluster import ray_cluster
from k8s.redis import redis
from k8s.storage import claim, cluster_storage, volume_owner


def system_manifests(plan: Plan) -> list[Manifest]:
    """What must be there before the first node: policies for the system's pods, where every pod needs one."""
    return [system_policies()] if plan.strict_network_policies else []


def platform_manifests(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """Cluster-wide objects, in apply order: namespaces, then the StorageClass (dynamic) or the PersistentVolumes,
    and node pools where Karpenter scales groups.
    """
    made = [namespaces(plan), operator_policies(plan), cluster_storage(plan, bindings)]
    return [*made, node_pools(plan)] if plan.scaled_groups else made


def ray_manifests(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """What is in the Ray namespaces, in apply order; policies come before anything they protect."""
    made = [network_policies(plan), access(plan), claim(plan), volume_owner(plan, bindings)]
    fault_tolerance = plan.settings.ray.gcs_fault_tolerance
    if fault_tolerance and fault_tolerance.redis_image and not fault_tolerance.redis_address:
        made.append(redis(plan, needs.pulled(plan, fault_tolerance.redis_image)))
    return [*made, ray_cluster(plan, bindings)]
