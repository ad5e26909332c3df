"""VPC, subnets and security groups, and what the control plane stands on."""

from __future__ import annotations

from constructs import Construct
from hyperpod_ray.constructs.cluster import ControlPlanePrerequisites
from hyperpod_ray.constructs.egress import ClusterEgress
from hyperpod_ray.constructs.endpoints import EndpointCall
from hyperpod_ray.constructs.network import ClusterNetwork, FileSystemAccess, Network
from hyperpod_ray.core import names, needs, outbound
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.model import ExistingNodeNetwork, ExistingVpc, NewNetwork
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.bindings import bucket_access


class NetworkStack(EnvironmentStack):
    """The network of one environment; beside it the control plane's role, key and log group."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: CommonPlan) -> None:
        super().__init__(scope, construct_id, plan=plan, description="network of Ray on HyperPod")
        self.network = _network(self, plan)
        self.prerequisites = None
        if (created := plan.new_eks) is not None:
            self.prerequisites = ControlPlanePrerequisites(
                self,
                "ControlPlane",
                cluster_name=plan.eks_cluster_name,
                vpc=self.network.vpc,
                log_retention_days=created.log_retention_days,
                protected=plan.settings.protected,
                log_group_exists=created.log_group_exists,
            )

    def open(self, plan: CommonPlan) -> ClusterEgress | None:
        """The way out, in this stack: for an orchestrator without a control plane to stand beside.

        None for an existing VPC, which has its own.
        """
        return egress(self, plan, self.network)


def egress(scope: Construct, plan: CommonPlan, network: Network) -> ClusterEgress | None:
    """The way out of a new VPC: NAT gateways, or the endpoints of a closed network. None for an existing VPC."""
    planned = plan.new_network
    if planned is None:
        return None
    return ClusterEgress(
        scope,
        "Egress",
        vpc=network.vpc,
        cidr=planned.cidr,
        zones=planned.availability_zone_ids,
        nat_gateways=0 if planned.closed else planned.nat_gateways,
        private_subnets=[list(network.node_subnets.values()), network.control_plane_subnets],
        public_cidrs=plan.public_subnet_cidrs,
        endpoint_subnets=network.control_plane_subnets,
        calls=[
            EndpointCall(endpoint=call.endpoint, actions=call.actions, resource=call.resource)
            for call in needs.calls(plan)
        ],
        access=[bucket_access(grant) for grant in plan.bucket_access],
    )


def _file_systems(plan: CommonPlan) -> FileSystemAccess:
    return FileSystemAccess(
        efa=plan.efa_storage,
        homes=plan.new_homes is not None,
        existing_lustre=plan.existing_file_system is not None,
        existing_homes=plan.existing_homes is not None,
    )


def _network(scope: Construct, plan: CommonPlan) -> Network:
    settings, ports = plan.settings.network, _ports(plan)
    if isinstance(settings, ExistingNodeNetwork):
        existing = settings.existing
        control_plane = existing.control_plane_subnet_ids if isinstance(existing, ExistingVpc) else []
        return ClusterNetwork.from_existing(
            scope,
            "Network",
            vpc_id=existing.vpc_id,
            vpc_cidr=existing.vpc_cidr,
            zones=settings.availability_zone_ids,
            node_subnet_ids=existing.node_subnet_ids,
            control_plane_subnet_ids=control_plane,
            outside_ports=ports,
            file_systems=_file_systems(plan),
        )
    assert isinstance(settings, NewNetwork)  # noqa: S101  (narrowing only)
    return ClusterNetwork(
        scope,
        "Network",
        cidr=settings.cidr,
        zones=settings.availability_zone_ids,
        zone_slots=settings.zone_slots,
        node_subnet_prefix=plan.node_subnet_prefix,
        flow_log_group=names.flow_log_group(plan.name) if plan.fixed_log_groups else None,
        flow_log_retention_days=settings.flow_log_retention_days,
        flow_log_group_exists=settings.flow_log_group_exists,
        protected=plan.settings.protected,
        outside_ports=ports,
        file_systems=_file_systems(plan),
        small_subnets=plan.small_subnets,
        keep_zone=plan.storage_zone if plan.network_outlives_destroy else None,
    )


def _ports(plan: CommonPlan) -> list[int]:
    """TCP ports that nodes reach outside the VPC, but 443 which is always open."""
    proxy = outbound.port(plan)
    return sorted({*needs.outside_ports(plan), *([proxy] if proxy else [])} - {443})
