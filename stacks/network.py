"""VPC, subnets and security groups, and what the control plane stands on."""

from __future__ import annotations

from constructs import Construct
from core import needs
from core.model import NewEks
from core.plan import Plan
from hyperpod_ray.cluster import ControlPlaneGround
from hyperpod_ray.network import ClusterNetwork
from stacks.base import EnvironmentStack


class NetworkStack(EnvironmentStack):
    """The network of one environment; beside it the control plane's role, key and log group."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan) -> None:
        super().__init__(scope, construct_id, plan=plan, description="network of Ray on HyperPod")
        self.network = ClusterNetwork(
            self,
            "Network",
            settings=plan.settings.network,
            node_subnet_prefix=plan.node_subnet_prefix,
            outside_ports=needs.outside_ports(plan),
            keep_zone=plan.storage_zone if plan.network_outlives_destroy else None,
        )
        self.ground = None
        if isinstance(plan.settings.eks, NewEks):
            self.ground = ControlPlaneGround(
                self,
                "ControlPlane",
                settings=plan.settings.eks,
                cluster_name=plan.eks_cluster_name,
                vpc=self.network.vpc,
                protected=plan.settings.protected,
            )
