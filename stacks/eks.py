"""The EKS control plane."""

from __future__ import annotations

from constructs import Construct
from core.plan import Plan
from hyperpod_ray.cluster import EksCluster
from hyperpod_ray.network import ClusterNetwork
from k8s.names import user_groups
from stacks.base import EnvironmentStack


class EksStack(EnvironmentStack):
    """The EKS cluster of one environment."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, network: ClusterNetwork) -> None:
        super().__init__(scope, construct_id, plan=plan, description="EKS control plane of HyperPod")
        self.eks = EksCluster(
            self,
            "Eks",
            settings=plan.settings.eks,
            cluster_name=plan.eks_cluster_name,
            vpc=network.vpc,
            subnets=network.control_plane_subnets,
            node_security_group=network.node_security_group,
            ray_user_groups={user.role_arn: user_groups(user) for user in plan.settings.eks.ray_users},
            protected=plan.settings.protected,
        )
        name, region = plan.eks_cluster_name, plan.settings.region
        self.say(
            "KubectlCommand", f"aws eks update-kubeconfig --name {name} --region {region}", "makes kubectl talk to it"
        )
