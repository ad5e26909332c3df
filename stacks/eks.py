"""The EKS control plane, and beside it what the first node needs."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_ecr as ecr

import k8s
from constructs import Construct
from core import needs
from core.plan import Plan
from core.plan_names import user_groups
from hyperpod_ray.cluster import ControlPlaneGround, EksCluster
from hyperpod_ray.egress import ClusterEgress
from hyperpod_ray.execution_role import ExecutionRole
from hyperpod_ray.kubernetes import HelmRelease, Manifests
from hyperpod_ray.lifecycle import LifecycleScripts
from hyperpod_ray.network import ClusterNetwork
from hyperpod_ray.storage import FsxCsiRole
from stacks.base import EnvironmentStack
from stacks.bindings import chart_folder


class EksStack(EnvironmentStack):
    """The control plane; beside it the network's way out, the nodes' role and scripts.

    The dependencies chart, the system's network policies and the Ray namespaces come last: the function that makes
    them needs the control plane and the way out.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        network: ClusterNetwork,
        ground: ControlPlaneGround | None,
        project: Path,
    ) -> None:
        super().__init__(scope, construct_id, plan=plan, description="EKS control plane, and what the first node needs")
        settings = plan.settings
        egress = None
        if plan.new_network is not None:
            egress = ClusterEgress(
                self,
                "Egress",
                settings=plan.new_network,
                vpc=network.vpc,
                private_subnets=[list(network.node_subnets.values()), network.control_plane_subnets],
                public_cidrs=plan.public_subnet_cidrs,
                endpoint_subnets=network.control_plane_subnets,
                calls=needs.calls(plan),
                access=plan.bucket_access,
            )
        self.eks = EksCluster(
            self,
            "Eks",
            settings=settings.eks,
            cluster_name=plan.eks_cluster_name,
            vpc=network.vpc,
            subnets=network.control_plane_subnets,
            node_security_group=network.node_security_group,
            ray_user_groups={user.role_arn: user_groups(user) for user in settings.eks.ray_users},
            ground=ground,
        )
        release = k8s.hyperpod_dependencies(plan)
        chart = HelmRelease(
            self,
            "Dependencies",
            cluster=self.eks.cluster,
            release=release,
            chart=chart_folder(release),
            after=[egress] if egress else [],
        )
        Manifests(
            self,
            "Namespaces",
            cluster=self.eks.cluster,
            manifests=k8s.namespace_manifests(plan),
            after=[egress] if egress else [],
        )
        # in mode strict a pod that no policy selects is cut off: they come before the first node, and their second
        # namespace comes with the chart
        Manifests(self, "Policies", cluster=self.eks.cluster, manifests=k8s.system_manifests(plan), after=[chart])
        self.driver_role = FsxCsiRole(
            self,
            "FsxCsi",
            settings=settings.storage,
            environment_name=plan.name,
            oidc_provider=self.eks.oidc_provider,
            oidc_issuer=self.eks.oidc_issuer,
        )
        self.scripts = LifecycleScripts(
            self, "Lifecycle", bucket_name=plan.lifecycle_bucket_name, folder=project / "lifecycle"
        )
        # by name: the control plane does not wait for the image's stack
        repository = None
        if plan.built_image is not None:
            repository = ecr.Repository.from_repository_name(self, "Repository", plan.built_image.repository_name)
        self.execution = ExecutionRole(
            self,
            "Execution",
            cluster=self.eks.cluster,
            vpc_id=network.vpc.vpc_id,
            lifecycle=self.scripts.bucket,
            repository=repository,
            pull_from=needs.repositories(plan),
            caches=needs.cache_repositories(plan),
        )
        name, region = plan.eks_cluster_name, settings.region
        self.say(
            "KubectlCommand", f"aws eks update-kubeconfig --name {name} --region {region}", "makes kubectl talk to it"
        )
