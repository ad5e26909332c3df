"""The EKS control plane, and beside it what the first node needs."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_ecr as ecr

from constructs import Construct
from hyperpod_ray import k8s
from hyperpod_ray.constructs.cluster import ControlPlane, ControlPlanePrerequisites, EksCluster
from hyperpod_ray.constructs.execution_role import ExecutionRole
from hyperpod_ray.constructs.kubernetes import HelmRelease, Manifests
from hyperpod_ray.constructs.lifecycle import OWN_STEP, LifecycleScripts
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.constructs.storage import FsxCsiRole
from hyperpod_ray.core import needs, outbound
from hyperpod_ray.core import project as places
from hyperpod_ray.core.model import DynamicStorage, ExistingEks
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import user_groups
from hyperpod_ray.core.service_limits import kubectl_for
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.bindings import chart_folder
from hyperpod_ray.stacks.network import egress


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
        network: Network,
        prerequisites: ControlPlanePrerequisites | None,
        project: Path,
    ) -> None:
        super().__init__(scope, construct_id, plan=plan, description="EKS control plane, and what the first node needs")
        settings = plan.settings
        out = egress(self, plan, network)
        self.eks = self._control_plane(plan, network, prerequisites)
        release = k8s.hyperpod_dependencies(plan)
        chart = HelmRelease(
            self,
            "Dependencies",
            cluster=self.eks.cluster,
            release=release,
            chart=chart_folder(release),
            after=[out] if out else [],
        )
        Manifests(
            self,
            "Namespaces",
            cluster=self.eks.cluster,
            manifests=k8s.namespace_manifests(plan),
            after=[out] if out else [],
        )
        # in mode strict a pod that no policy selects is cut off: they come before the first node, and their second
        # namespace comes with the chart
        Manifests(self, "Policies", cluster=self.eks.cluster, manifests=k8s.system_manifests(plan), after=[chart])
        self.driver_role = FsxCsiRole(
            self,
            "FsxCsi",
            creates_file_systems=isinstance(settings.storage, DynamicStorage),
            environment_name=plan.name,
            oidc_provider=self.eks.oidc_provider,
            oidc_issuer=self.eks.oidc_issuer,
        )
        self.scripts = LifecycleScripts(
            self,
            "Lifecycle",
            bucket_name=plan.lifecycle_bucket_name,
            folder=places.file(project, f"{places.LIFECYCLE}/on_create.sh").parent,
            own_step=project / places.LIFECYCLE / OWN_STEP,
            efa_file_system=plan.efa_storage,
            proxy=outbound.variables(plan),
        )
        # by name: the control plane does not wait for the image's stack
        repository = None
        if plan.built_image is not None:
            repository = ecr.Repository.from_repository_name(self, "Repository", plan.image_repository)
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
        self.output(
            "KubectlCommand", f"aws eks update-kubeconfig --name {name} --region {region}", "makes kubectl talk to it"
        )

    def _control_plane(
        self, plan: Plan, network: Network, prerequisites: ControlPlanePrerequisites | None
    ) -> ControlPlane:
        settings = plan.settings.eks
        kubectl_version = kubectl_for(settings.version)
        groups = user_groups(plan)
        if isinstance(settings, ExistingEks):
            existing = settings.existing
            return EksCluster.from_existing(
                self,
                "Eks",
                cluster_name=existing.cluster_name,
                security_group_id=existing.security_group_id,
                oidc_issuer_url=existing.oidc_issuer_url,
                kubectl_role_arn=existing.kubectl_role_arn,
                kubectl_version=kubectl_version,
                vpc=network.vpc,
                subnets=network.control_plane_subnets,
                node_security_group=network.node_security_group,
                admin_role_arns=settings.admin_role_arns,
                ray_user_groups=groups,
            )
        assert prerequisites is not None  # noqa: S101  (narrowing only: a new cluster has one)
        return EksCluster(
            self,
            "Eks",
            cluster_name=plan.eks_cluster_name,
            version=settings.version,
            kubectl_version=kubectl_version,
            vpc=network.vpc,
            subnets=network.control_plane_subnets,
            node_security_group=network.node_security_group,
            prerequisites=prerequisites,
            admin_role_arns=settings.admin_role_arns,
            ray_user_groups=groups,
            public_cidrs=settings.endpoint.public_cidrs if settings.endpoint.public else None,
            network_policy_mode=settings.network_policy_mode,
            deletion_protection=plan.settings.protected,
            support_type=settings.support_type,
        )
