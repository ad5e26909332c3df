"""VPC, subnets and security groups, and what the control plane stands on."""

from __future__ import annotations

from constructs import Construct
from core import names, needs
from core.model import ExistingNetwork, NewEks
from core.plan import Plan
from hyperpod_ray.cluster import ControlPlaneGround
from hyperpod_ray.network import ClusterNetwork, Network
from stacks.base import EnvironmentStack


class NetworkStack(EnvironmentStack):
    """The network of one environment; beside it the control plane's role, key and log group."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan) -> None:
        super().__init__(scope, construct_id, plan=plan, description="network of Ray on HyperPod")
        self.network = _network(self, plan)
        self.ground = None
        if isinstance(plan.settings.eks, NewEks):
            self.ground = ControlPlaneGround(
                self,
                "ControlPlane",
                cluster_name=plan.eks_cluster_name,
                vpc=self.network.vpc,
                log_retention_days=plan.settings.eks.log_retention_days,
                protected=plan.settings.protected,
                log_group_exists=plan.settings.eks.log_group_exists,
            )


def _network(scope: Construct, plan: Plan) -> Network:
    settings, ports = plan.settings.network, needs.outside_ports(plan)
    if isinstance(settings, ExistingNetwork):
        existing = settings.existing
        return ClusterNetwork.from_existing(
            scope,
            "Network",
            vpc_id=existing.vpc_id,
            vpc_cidr=existing.vpc_cidr,
            zones=settings.availability_zone_ids,
            node_subnet_ids=existing.node_subnet_ids,
            control_plane_subnet_ids=existing.control_plane_subnet_ids,
            outside_ports=ports,
            efa_file_system=plan.efa_storage,
        )
    return ClusterNetwork(
        scope,
        "Network",
        cidr=settings.cidr,
        zones=settings.availability_zone_ids,
        zone_slots=settings.zone_slots,
        node_subnet_prefix=plan.node_subnet_prefix,
        flow_log_group=names.flow_log_group(plan.name),
        flow_log_retention_days=settings.flow_log_retention_days,
        flow_log_group_exists=settings.flow_log_group_exists,
        protected=plan.settings.protected,
        outside_ports=ports,
        efa_file_system=plan.efa_storage,
        keep_zone=plan.storage_zone if plan.network_outlives_destroy else None,
    )
