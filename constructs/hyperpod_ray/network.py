"""The network: a VPC with one node subnet per availability zone ID, and the nodes' security group."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnResource, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs

from constructs import Construct
from core.model import ExistingNetwork, Network, NewNetwork, S3Access
from core.needs import Call
from hyperpod_ray.endpoints import SERVICES, gateway_policy, interface_policy, interface_services
from hyperpod_ray.logs import retention

LUSTRE_PORTS = (ec2.Port.tcp(988), ec2.Port.tcp_range(1018, 1023))
"""https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html"""


class ClusterNetwork(Construct):
    """A VPC for one HyperPod cluster, new or existing.

    Creates `AWS::EC2::VPC`, per zone a node and a control-plane subnet placed by availability zone **ID**, NAT gateways
    with public subnets or the interface endpoints of a closed network, an S3 gateway endpoint, flow logs, and the
    security groups of nodes and file system. With an existing VPC only the security groups are created.

    :param settings: the `network` section.
    :param node_subnet_prefix: prefix length of each node subnet; `Plan.node_subnet_prefix`.
    :param calls: AWS calls from inside the VPC, for the endpoints of a closed network; `core.needs.calls`.
    :param outside_ports: TCP ports of destinations outside the cluster; `core.needs.outside_ports`.
    :param access: buckets that Ray's pods may use, for the S3 endpoint's policy in a closed network; `ray.access.s3`.
    :param keep_zone: zone whose file system outlives destroy: VPC, its node subnet and the file system's security group
        then stay behind, as their deletion would fail; they cost nothing. None: destroy takes everything.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Network,
        node_subnet_prefix: int,
        calls: Sequence[Call],
        outside_ports: Sequence[int] = (),
        access: Sequence[S3Access] = (),
        keep_zone: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if isinstance(settings, NewNetwork):
            self._create(settings, node_subnet_prefix, calls, access)
        else:
            self._import(settings)
        nodes = NodeSecurityGroup(self, "Nodes", vpc=self.vpc, outside_ports=outside_ports)
        self.node_security_group = nodes.security_group
        self.file_system_security_group = _file_system_security_group(self, self.vpc, self.node_security_group)
        if keep_zone is not None:
            for home in (self.vpc, self.node_subnets[keep_zone], self.file_system_security_group):
                resource = home.node.default_child
                assert isinstance(resource, CfnResource)  # noqa: S101  (narrowing only)
                resource.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)

    vpc: ec2.IVpc
    node_subnets: dict[str, ec2.ISubnet]
    control_plane_subnets: list[ec2.ISubnet]

    def _create(
        self, settings: NewNetwork, node_subnet_prefix: int, calls: Sequence[Call], access: Sequence[S3Access]
    ) -> None:
        zones = settings.availability_zone_ids
        closed = settings.closed
        private = ec2.SubnetType.PRIVATE_ISOLATED if closed else ec2.SubnetType.PRIVATE_WITH_EGRESS
        # The node subnets come first so that their addresses do not depend on the small subnets behind them.
        subnets = [
            ec2.SubnetConfiguration(name="Nodes", subnet_type=private, cidr_mask=node_subnet_prefix),
            ec2.SubnetConfiguration(name="ControlPlane", subnet_type=private, cidr_mask=27),
        ]
        if not closed:
            subnets.append(
                ec2.SubnetConfiguration(
                    name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=27, map_public_ip_on_launch=False
                )
            )
        vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(settings.cidr),
            availability_zones=zones,
            nat_gateways=0 if closed else min(settings.nat_gateways, len(zones)),
            subnet_configuration=subnets,
            gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
            restrict_default_security_group=False,
        )
        _place_by_zone_id([*vpc.public_subnets, *vpc.private_subnets, *vpc.isolated_subnets])
        self.vpc = vpc
        self.node_subnets = {
            subnet.availability_zone: subnet for subnet in vpc.select_subnets(subnet_group_name="Nodes").subnets
        }
        self.control_plane_subnets = vpc.select_subnets(subnet_group_name="ControlPlane").subnets
        self._flow_logs(vpc, settings)
        if closed:
            self._endpoints(vpc, settings, calls, access)

    def _import(self, settings: ExistingNetwork) -> None:
        existing = settings.existing
        zones = sorted(existing.node_subnet_ids)
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=existing.vpc_id,
            vpc_cidr_block=existing.vpc_cidr,
            availability_zones=settings.availability_zone_ids,
        )
        self.node_subnets = {
            zone: ec2.Subnet.from_subnet_attributes(
                self, f"Nodes-{zone}", subnet_id=existing.node_subnet_ids[zone], availability_zone=zone
            )
            for zone in zones
        }
        self.control_plane_subnets = [
            ec2.Subnet.from_subnet_attributes(self, f"ControlPlane{index}", subnet_id=subnet_id, availability_zone=zone)
            for index, (subnet_id, zone) in enumerate(
                zip(existing.control_plane_subnet_ids, settings.availability_zone_ids, strict=False), start=1
            )
        ]

    def _flow_logs(self, vpc: ec2.Vpc, settings: NewNetwork) -> None:
        group = logs.LogGroup(
            self,
            "FlowLogs",
            retention=retention(settings.flow_log_retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = iam.Role(self, "FlowLogsRole", assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"))
        vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group, role))

    def _endpoints(self, vpc: ec2.Vpc, settings: NewNetwork, calls: Sequence[Call], access: Sequence[S3Access]) -> None:
        allowed = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=vpc,
            description="interface endpoints of the closed network",
            allow_all_outbound=False,
        )
        allowed.add_ingress_rule(ec2.Peer.ipv4(settings.cidr), ec2.Port.tcp(443), "HTTPS from inside the VPC")
        for service in interface_services(calls):
            name, aws_service = SERVICES[service]
            endpoint = vpc.add_interface_endpoint(
                name,
                service=aws_service,
                private_dns_enabled=True,
                open=False,
                security_groups=[allowed],
                subnets=ec2.SubnetSelection(subnets=self.control_plane_subnets),
            )
            for statement in interface_policy(self, service, calls):
                endpoint.add_to_policy(statement)
        # beside a NAT gateway a policy would limit nothing: S3 is reachable through that, too
        gateway = vpc.node.find_child("S3")
        assert isinstance(gateway, ec2.GatewayVpcEndpoint)  # noqa: S101  (narrowing only)
        for statement in gateway_policy(self, access=access):
            gateway.add_to_policy(statement)


class NodeSecurityGroup(Construct):
    """The security group of HyperPod nodes (`AWS::EC2::SecurityGroup`).

    All traffic among members in **both** directions, which EFA requires; HTTPS to anywhere, and the ports of
    destinations that the environment names outside the cluster; nothing else comes in.
    The rules are resources of their own: next to `allow_all_outbound=True` CDK silently drops the egress one.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html#efa-start-security
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, vpc: ec2.IVpc, outside_ports: Sequence[int] = ()
    ) -> None:
        super().__init__(scope, construct_id)
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="HyperPod nodes", allow_all_outbound=False
        )
        group.connections.allow_internally(ec2.Port.all_traffic(), "EFA and node to node")
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS services and registries")
        for port in outside_ports:
            group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(port), "named in the environment file")
        self.security_group = group


def _file_system_security_group(scope: Construct, vpc: ec2.IVpc, nodes: ec2.ISecurityGroup) -> ec2.SecurityGroup:
    """Security group of the file system: Lustre from the nodes and among its own servers, nothing else."""
    group = ec2.SecurityGroup(scope, "FileSystem", vpc=vpc, description="FSx for Lustre", allow_all_outbound=False)
    for port in LUSTRE_PORTS:
        group.connections.allow_internally(port, "Lustre among its servers")
        group.connections.allow_from(nodes, port, "Lustre from the nodes")
        group.connections.allow_to(nodes, port, "Lustre to the nodes")
    return group


def _place_by_zone_id(subnets: Sequence[ec2.ISubnet]) -> None:
    """Place subnets by zone ID: names mean different zones in different accounts, and capacity is sold by zone."""
    for subnet in subnets:
        resource = subnet.node.default_child
        assert isinstance(resource, ec2.CfnSubnet)  # noqa: S101  (narrowing only)
        resource.availability_zone_id = subnet.availability_zone
        resource.availability_zone = None
