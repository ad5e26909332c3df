"""The RayCluster and its claim, and the node guard, which runs in the same image."""

from __future__ import annotations

from constructs import Construct, IDependable
from hyperpod_ray import k8s
from hyperpod_ray.constructs.claims import ClaimedFileSystem, ClaimGuard, ClaimWaiter
from hyperpod_ray.constructs.cluster import ControlPlane
from hyperpod_ray.constructs.identity import PodIdentity
from hyperpod_ray.constructs.image import TrainingImage
from hyperpod_ray.constructs.kubernetes import Manifests
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.constructs.storage import LustreFileSystem
from hyperpod_ray.constructs.tier import TierBucket
from hyperpod_ray.constructs.tracking import TrackingApp
from hyperpod_ray.constructs.volumes import VolumeGuard
from hyperpod_ray.core.model import RayAccess
from hyperpod_ray.core.names import CLAIM, DASHBOARD_PORT, GUARD, SERVICE_ACCOUNT
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import own_namespaces
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.bindings import bindings, bucket_access
from hyperpod_ray.stacks.teams import team_roles


class RayStack(EnvironmentStack):
    """Everything of Ray; the guard comes first, so on destroy it goes last and waits for the claim's file system."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        network: Network,
        eks: ControlPlane,
        image: TrainingImage | None,
        file_system: LustreFileSystem | None,
        claim_waiter: ClaimWaiter | None,
        cluster_arn: str,
    ) -> None:
        super().__init__(scope, construct_id, plan=plan, description="RayCluster")
        ray = plan.settings.ray
        after: list[IDependable] = []
        claimed: ClaimedFileSystem | None = None
        if claim_waiter is not None:
            claimed = ClaimedFileSystem(
                self,
                "ClaimedFileSystem",
                cluster=eks.cluster,
                namespace=ray.namespace,
                claim=CLAIM,
                environment_name=plan.name,
                waiter=claim_waiter,
            )
            if plan.new_file_system is not None and plan.new_file_system.on_destroy == "delete":
                after.append(ClaimGuard(self, "ClaimGuard", environment_name=plan.name, waiter=claim_waiter))
        if plan.head_volume_gib is not None:
            after.append(VolumeGuard(self, "VolumeGuard", environment_name=plan.name))
        tiered = plan.settings.hyperpod.tiered_storage
        if tiered is not None and tiered.bucket is None and plan.tier_bucket_name is not None:
            tier = TierBucket(
                self,
                "Tier",
                bucket_name=plan.tier_bucket_name,
                keep_days=tiered.keep_days,
                retain=tiered.on_destroy == "retain",
            )
            after.append(tier)
            self.output("TierBucket", tier.bucket.bucket_name, "second tier of checkpoints")
        tracker: TrackingApp | None = None
        if (app := plan.mlflow_app) is not None:
            tracker = TrackingApp(
                self,
                "Tracking",
                name=plan.settings.hyperpod.cluster_name,
                bucket_name=plan.mlflow_bucket_name,
                maintenance_start=app.weekly_maintenance_window_start,
                retain=app.on_destroy == "retain",
            )
            self.output("MlflowApp", tracker.arn, "MLflow app that the pods record in")
        if plan.pods_have_roles:
            access = ray.access or RayAccess()
            identity = PodIdentity(
                self,
                "Identity",
                buckets=[bucket_access(grant) for grant in access.s3],
                kms_key_arns=access.kms_key_arns,
                secret_arns=access.secret_arns,
                mlflow_arn=tracker.arn if tracker else access.mlflow_arn,
                artifacts=plan.mlflow_bucket_name if tracker else None,
                tier_bucket=plan.tier_bucket_name,
                cluster=eks.cluster,
                namespaces=own_namespaces(plan),
                service_account=SERVICE_ACCOUNT,
            )
            team_roles(identity, plan)
            after.append(identity)
        bound = bindings(
            plan,
            network=network,
            file_system=claimed or file_system,
            image=image,
            mlflow_arn=tracker.arn if tracker else "",
        )
        if plan.settings.hyperpod.node_guard is not None:
            guard = PodIdentity(
                self,
                "NodeGuard",
                purpose="node guard: what HyperPod says of its instances",
                nodes_of=cluster_arn,
                cluster=eks.cluster,
                namespaces=[GUARD],
                service_account=GUARD,
            )
            Manifests(self, "Guard", cluster=eks.cluster, manifests=k8s.guard_manifests(plan, bound), after=[guard])
        manifests = Manifests(
            self, "Manifests", cluster=eks.cluster, manifests=k8s.ray_manifests(plan, bound), after=after
        )
        if claimed is not None:
            claimed.ready.node.add_dependency(manifests.resources["PersistentVolumeClaim"])
        self.output(
            "DashboardCommand",
            f"kubectl --namespace {ray.namespace} port-forward service/{ray.cluster_name}-head-svc "
            f"{DASHBOARD_PORT}:{DASHBOARD_PORT}",
            f"dashboard and Jobs API on http://localhost:{DASHBOARD_PORT}",
        )
