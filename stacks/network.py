"""VPC, subnets and security groups."""

from __future__ import annotations

from constructs import Construct
from core import needs
from core.plan import Plan
from hyperpod_ray.network import ClusterNetwork
from stacks.base import EnvironmentStack


class NetworkStack(EnvironmentStack):
    """The network of one environment."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan) -> None:
        super().__init__(scope, construct_id, plan=plan, description="network of Ray on HyperPod")
        self.network = ClusterNetwork(
            self,
            "Network",
            settings=plan.settings.network,
            node_subnet_prefix=plan.node_subnet_prefix,
            calls=needs.calls(plan),
            outside_ports=needs.outside_ports(plan),
            access=plan.settings.ray.access.s3 if plan.settings.ray.access else [],
            keep_zone=plan.storage_zone if plan.network_outlives_destroy else None,
        )
