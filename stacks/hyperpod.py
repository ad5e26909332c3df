"""The HyperPod cluster."""

from __future__ import annotations

from constructs import Construct
from core.plan import Plan
from hyperpod_ray.hyperpod import HyperPodCluster
from hyperpod_ray.network import ClusterNetwork
from stacks.base import EnvironmentStack
from stacks.eks import EksStack


class HyperPodStack(EnvironmentStack):
    """The cluster: it takes longest, so it is alone here."""

    def __init__(
        self, scope: Construct, construct_id: str, *, plan: Plan, network: ClusterNetwork, control: EksStack
    ) -> None:
        super().__init__(scope, construct_id, plan=plan, description="HyperPod cluster")
        self.hyperpod = HyperPodCluster(
            self,
            "HyperPod",
            plan=plan,
            eks_cluster=control.eks.cluster,
            execution_role=control.execution.role,
            lifecycle_uri=control.scripts.source_s3_uri,
            subnets=network.node_subnets,
            security_group=network.node_security_group,
        )
        self.say("ClusterName", plan.settings.hyperpod.cluster_name, "HyperPod cluster")
        self.say("ClusterArn", self.hyperpod.cluster.attr_cluster_arn, "HyperPod cluster")
