"""What of an environment is inside its EKS cluster, and its deletion."""

from __future__ import annotations

from collections.abc import Sequence

from hyperpod_ray.core import names, plan_names
from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops import output
from hyperpod_ray.ops.observe import kube
from hyperpod_ray.ops.observe.snapshot import Claim, RayCluster
from hyperpod_ray.ops.orchestrators.interface import Inside
from hyperpod_ray.ops.reach import ray_pods
from hyperpod_ray.ops.reach.clients import Target


class EksWorkloads:
    """What goes before the stacks of one environment do."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def inside(self) -> Inside | None:
        """RayClusters, RayJobs and claims of every Ray namespace, and load balancers; None without a cluster."""
        target = self.target
        if not _eks_exists(target):
            return None
        spaces = plan_names.ray_namespaces(target.plan)
        return Inside(
            ray_clusters=tuple(ray for space in spaces for ray in kube.ray_clusters(target, space)),
            jobs=tuple(f"{space}/{name}" for space in spaces for name in _ray_jobs(target, space)),
            claims=tuple(claim for space in spaces for claim in kube.claims(target, space)),
            balancers=tuple(
                f"{service['metadata']['namespace']}/{service['metadata']['name']}"
                for service in target.kubernetes.items("/api/v1/services")
                if service.get("spec", {}).get("type") == "LoadBalancer"
            ),
        )

    def created_for(self, claim: Claim) -> bool:
        """Whether the CSI driver created a claim's volume for it."""
        return claim.storage_class == plan_names.storage_class(self.target.plan)

    def delete(self, ray_clusters: Sequence[RayCluster], jobs: Sequence[str]) -> None:
        """Delete RayJobs and RayClusters."""
        base = f"/apis/{names.RAY_API_VERSION}/namespaces"
        for job in jobs:
            space, _, name = job.partition("/")
            self.target.kubernetes.delete(f"{base}/{space}/rayjobs/{name}")
            output.log(f"deleting RayJob {job}")
        for ray in ray_clusters:
            path = f"{base}/{ray.namespace}/rayclusters/{ray.name}"
            self.target.kubernetes.delete(path, propagation="Background")
            output.log(f"deleting RayCluster {ray.namespace}/{ray.name}: workers get their time to save")

    def left(self) -> list[str]:
        """Pods of Ray that are still there, with their nodes."""
        spaces = plan_names.ray_namespaces(self.target.plan)
        pods = [pod for space in spaces for pod in ray_pods.pods(self.target, space)]
        return [f"{pod.name} on {names.instance_id(pod.node)}" if pod.node else pod.name for pod in pods]

    def delete_claims(self, claims: Sequence[Claim]) -> None:
        """Delete claims; their pods are gone, so that the driver can do its part while it is still there."""
        for claim in claims:
            path = f"/api/v1/namespaces/{claim.namespace}/persistentvolumeclaims/{claim.name}"
            if self.target.kubernetes.delete(path):
                output.log(f"deleting claim {claim.namespace}/{claim.name}")

    def deletes_volumes(self, driver: str = names.CSI_DRIVER) -> bool:
        """Whether a volume of ours is still in Kubernetes with the driver installed, which deletes what it is."""
        target, plan = self.target, self.target.plan
        addon, ours = {
            names.CSI_DRIVER: (names.CSI_ADDON, plan_names.storage_class(plan)),
            names.EBS_CSI_DRIVER: (names.EBS_CSI_ADDON, plan_names.store_class(plan)),
        }[driver]
        if not _eks_exists(target):
            return False
        try:
            target.aws.call("eks", "describe_addon", clusterName=plan.eks_cluster_name, addonName=addon)
        except Exception as error:
            if absent(error):
                return False
            raise
        return any(
            (volume.get("spec", {}).get("csi") or {}).get("driver") == driver
            and volume["spec"].get("storageClassName") == ours
            for volume in target.kubernetes.items("/api/v1/persistentvolumes")
        )


def _eks_exists(target: Target) -> bool:
    try:
        answer = target.aws.call("eks", "describe_cluster", name=target.plan.eks_cluster_name)
    except Exception as error:
        if absent(error):
            return False
        raise
    return bool(answer["cluster"].get("endpoint")) and answer["cluster"].get("status") != "DELETING"


def _ray_jobs(target: Target, namespace: str) -> list[str]:
    try:
        found = target.kubernetes.items(f"/apis/{names.RAY_API_VERSION}/namespaces/{namespace}/rayjobs")
    except Exception as error:
        if absent(error):
            return []
        raise
    return [item["metadata"]["name"] for item in found]
