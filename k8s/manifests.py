"""Which manifests an environment has, in apply order."""

from __future__ import annotations

from dataclasses import replace

from hyperpod_ray.core import needs
from hyperpod_ray.core.model import DynamicStorage
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s.access import access
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray.k8s.guard import guard
from hyperpod_ray.k8s.hangs import hang_rules
from hyperpod_ray.k8s.image_pull import image_pull
from hyperpod_ray.k8s.manifest import Manifest
from hyperpod_ray.k8s.namespaces import namespaces
from hyperpod_ray.k8s.network_policies import (
    collector_policies,
    guard_policies,
    network_policies,
    operator_policies,
    queue_policies,
    system_policies,
)
from hyperpod_ray.k8s.node_pools import node_pools
from hyperpod_ray.k8s.ray_cluster import ray_cluster
from hyperpod_ray.k8s.redis import redis
from hyperpod_ray.k8s.state_volume import state_volume
from hyperpod_ray.k8s.storage import claim, cluster_storage, owner_storage, volume_owner
from hyperpod_ray.k8s.teams import teams


def namespace_manifests(plan: Plan) -> list[Manifest]:
    """The namespaces, and what protects them: there before the first node."""
    namespace_manifest = namespaces(plan)
    inside = [operator_policies(plan), network_policies(plan), access(plan)]
    if plan.settings.hyperpod.node_guard is not None:
        inside.append(guard_policies())
    if plan.settings.observability is not None:
        inside.append(collector_policies())
    if plan.settings.teams:
        inside.append(queue_policies())
    return [namespace_manifest, *(replace(manifest, after=(namespace_manifest.name,)) for manifest in inside)]


def system_manifests(plan: Plan) -> list[Manifest]:
    """Policies for the system's pods, where every pod needs one. Their namespace comes with the dependencies chart."""
    return [system_policies()] if plan.strict_network_policies else []


def platform_manifests(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """The StorageClass (mode dynamic), or the PersistentVolumes and the claims that are bound to them.

    Node pools come with them where Karpenter scales groups, and a StorageClass where a volume keeps the head's state.
    """
    volume = cluster_storage(plan, bindings)
    manifests = [volume]
    if not isinstance(plan.settings.storage, DynamicStorage):
        manifests.append(replace(claim(plan), after=(volume.name,)))
    if plan.head_volume_gib is not None:
        manifests.append(state_volume(plan))
    return [*manifests, node_pools(plan)] if plan.scaled_groups else manifests


def guard_manifests(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """The node guard, where the environment has it. Its Pod Identity comes first: pods get theirs when they start."""
    settings = plan.settings.hyperpod.node_guard
    return [guard(plan, bindings, settings)] if settings is not None else []


def ray_manifests(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """What runs in the Ray namespaces, in apply order.

    A claim that makes a file system is among them: it goes last on destroy. A store of ours outlives the RayCluster:
    KubeRay clears the cluster's state there.
    """
    manifests: list[Manifest] = []
    prerequisites: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    if isinstance(plan.settings.storage, DynamicStorage):
        volume_claim = claim(plan)
        owner_claim = replace(owner_storage(plan, bindings), after=(volume_claim.name,))
        manifests, prerequisites, owned = [volume_claim, owner_claim], (volume_claim.name,), (owner_claim.name,)
    before_ray = prerequisites
    manifests.append(replace(volume_owner(plan, bindings), after=owned))
    # a file system that a claim makes has no name before the claim is bound
    manifests += [replace(manifest, after=prerequisites) for manifest in teams(plan, bindings)]
    if plan.checked_worker_groups:
        manifests.append(image_pull(plan, bindings))
    if (detection := plan.settings.ray.hung_job_detection) is not None:
        manifests.append(hang_rules(plan, detection))
    fault_tolerance = plan.settings.ray.gcs_fault_tolerance
    if fault_tolerance and fault_tolerance.redis_image and not fault_tolerance.redis_address:
        store = redis(plan, needs.pulled(plan, fault_tolerance.redis_image))
        manifests.append(replace(store, after=prerequisites))
        before_ray = (*prerequisites, store.name)
    return [*manifests, replace(ray_cluster(plan, bindings), after=before_ray)]
