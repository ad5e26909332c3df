"""The network: a VPC with one node subnet per availability zone ID, and the security groups in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import CfnResource, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from constructs import Construct
from hyperpod_ray.constructs.logs import named_log_group

LUSTRE_PORTS = (ec2.Port.tcp(988), ec2.Port.tcp_range(1018, 1023))
"""https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html"""


NFS_PORTS = tuple(
    port for of in (ec2.Port.tcp_range, ec2.Port.udp_range) for port in (of(111, 111), of(2049, 2049), of(20001, 20003))
)
"""https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/limit-access-security-groups.html"""


@dataclass(frozen=True, kw_only=True)
class FileSystemAccess:
    """Which file systems nodes mount.

    Args:
        efa: Whether nodes reach the new Lustre file system over EFA, which needs all traffic between the two.
        homes: Whether there is a new OpenZFS file system, which has the security group of the Lustre one.
        existing_lustre: Whether nodes mount a Lustre file system that exists in the VPC. Its security group is its
            own, so nodes and the VPC's addresses exchange Lustre.
        existing_homes: Likewise of an OpenZFS file system, which never calls a node.
    """

    efa: bool = False
    homes: bool = False
    existing_lustre: bool = False
    existing_homes: bool = False


class Network(Construct):
    """What the other constructs need of a network: the VPC, its private subnets and two security groups.

    Creates the security groups of nodes and of the file system (`AWS::EC2::SecurityGroup`). Make one by
    `ClusterNetwork`, or by `ClusterNetwork.from_existing`.
    """

    vpc: ec2.IVpc
    node_subnets: dict[str, ec2.ISubnet]
    """By availability zone ID."""
    control_plane_subnets: list[ec2.ISubnet]
    """The small ones: of the control plane and of interface endpoints. Empty where the cluster has neither."""
    node_security_group: ec2.ISecurityGroup
    file_system_security_group: ec2.SecurityGroup

    def _secure(self, outside_ports: Sequence[int], *, cidr: str, file_systems: FileSystemAccess) -> None:
        nodes = NodeSecurityGroup(
            self, "Nodes", vpc=self.vpc, vpc_cidr=cidr, outside_ports=outside_ports, file_systems=file_systems
        )
        self.node_security_group = nodes.security_group
        self.file_system_security_group = _file_system_security_group(
            self, self.vpc, self.node_security_group, file_systems
        )


class ClusterNetwork(Network):
    """A new VPC for one HyperPod cluster.

    Creates `AWS::EC2::VPC`, per zone a node and a small subnet placed by availability zone **ID**, flow logs,
    and the security groups of nodes and file system; and the function that takes every rule from the VPC's default
    security group, for which CloudFormation has no resource. The way out is `ClusterEgress`.

    The range is laid out for `zone_slots` zones from the start: the address range, logical id and zone of a subnet do
    not depend on how many zones follow it, so that a zone can be added at the end of the list later.

    Args:
        cidr: Range of the VPC.
        zones: Availability zone IDs.
        zone_slots: Zones that the range has room for.
        node_subnet_prefix: Prefix length of each node subnet.
        flow_log_group: Name of the log group of VPC flow logs; None: CloudFormation generates it.
        flow_log_retention_days: How long they are kept.
        flow_log_group_exists: Whether the group is there already: it is used as it is, and stays.
        protected: Keep the flow logs when the network is destroyed.
        outside_ports: TCP ports of destinations outside the cluster.
        file_systems: Which file systems nodes mount. Default: a new Lustre file system, without EFA.
        small_subnets: Name of the small subnets, which hold a control plane or interface endpoints. None: there are
            none, and their range stays free.
        keep_zone: Zone whose file system outlives destroy: VPC, its node subnet and the file system's security group
            then stay behind, as their deletion would fail; they cost nothing. None: destroy takes everything.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cidr: str,
        zones: Sequence[str],
        zone_slots: int,
        node_subnet_prefix: int,
        flow_log_group: str | None,
        flow_log_retention_days: int,
        flow_log_group_exists: bool = False,
        protected: bool = False,
        outside_ports: Sequence[int] = (),
        file_systems: FileSystemAccess = FileSystemAccess(),
        small_subnets: str | None = "ControlPlane",
        keep_zone: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        # Isolated for this class, which would make NAT gateways here otherwise: they are in ClusterEgress.
        private = ec2.SubnetType.PRIVATE_ISOLATED
        # The node subnets come first so that their addresses do not depend on the small subnets behind them.
        subnets = [
            ec2.SubnetConfiguration(name="Nodes", subnet_type=private, cidr_mask=node_subnet_prefix),
        ]
        if small_subnets is not None:
            subnets.append(ec2.SubnetConfiguration(name=small_subnets, subnet_type=private, cidr_mask=27))
        vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(cidr),
            availability_zones=list(zones),
            # their ranges stay free, at the end of each kind of subnet
            reserved_azs=zone_slots - len(zones),
            nat_gateways=0,
            subnet_configuration=subnets,
            restrict_default_security_group=True,
        )
        keep_closed(vpc)
        place_by_zone_id(vpc.isolated_subnets)
        self.vpc = vpc
        self.node_subnets = {
            subnet.availability_zone: subnet for subnet in vpc.select_subnets(subnet_group_name="Nodes").subnets
        }
        self.control_plane_subnets = []
        if small_subnets is not None:
            self.control_plane_subnets = vpc.select_subnets(subnet_group_name=small_subnets).subnets
        group = named_log_group(
            self,
            "FlowLogs",
            name=flow_log_group,
            retention_days=flow_log_retention_days,
            protected=protected,
            exists=flow_log_group_exists,
        )
        role = iam.Role(self, "FlowLogsRole", assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"))
        vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group, role))
        self._secure(outside_ports, cidr=cidr, file_systems=file_systems)
        if keep_zone is not None:
            # a file system that stays keeps its network interfaces: CloudFormation could delete none of the three
            # under them
            for home in (self.vpc, self.node_subnets[keep_zone], self.file_system_security_group):
                resource = home.node.default_child
                assert isinstance(resource, CfnResource)  # noqa: S101  (narrowing only)
                resource.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)

    @staticmethod
    def from_existing(
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        vpc_cidr: str,
        zones: Sequence[str],
        node_subnet_ids: Mapping[str, str],
        control_plane_subnet_ids: Sequence[str],
        outside_ports: Sequence[int] = (),
        file_systems: FileSystemAccess = FileSystemAccess(),
    ) -> Network:
        """A network in a VPC that exists; only the security groups are created.

        Args:
            scope: Parent of the construct.
            construct_id: Its id.
            vpc_id: The VPC.
            vpc_cidr: Its range.
            zones: Availability zone IDs.
            node_subnet_ids: Private subnet of each zone that holds nodes.
            control_plane_subnet_ids: Private subnets in the first zones, in their order.
            outside_ports: TCP ports of destinations outside the cluster.
            file_systems: Which file systems nodes mount. Default: a new Lustre file system, without EFA.
        """
        network = Network(scope, construct_id)
        network.vpc = ec2.Vpc.from_vpc_attributes(
            network, "Vpc", vpc_id=vpc_id, vpc_cidr_block=vpc_cidr, availability_zones=list(zones)
        )
        network.node_subnets = {
            zone: ec2.Subnet.from_subnet_attributes(
                network, f"Nodes-{zone}", subnet_id=node_subnet_ids[zone], availability_zone=zone
            )
            for zone in sorted(node_subnet_ids)
        }
        network.control_plane_subnets = [
            ec2.Subnet.from_subnet_attributes(
                network, f"ControlPlane{index}", subnet_id=subnet_id, availability_zone=zone
            )
            for index, (subnet_id, zone) in enumerate(zip(control_plane_subnet_ids, zones, strict=False), start=1)
        ]
        network._secure(outside_ports, cidr=vpc_cidr, file_systems=file_systems)
        return network


class NodeSecurityGroup(Construct):
    """The security group of HyperPod nodes (`AWS::EC2::SecurityGroup`).

    All traffic among members in **both** directions, which EFA requires; HTTPS to anywhere, and the ports of
    destinations that the environment names outside the cluster; nothing else comes in, but Lustre's answers of a file
    system that exists.
    The rules are resources of their own: next to `allow_all_outbound=True` CDK silently drops the egress one.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html#efa-start-security
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        vpc_cidr: str = "",
        outside_ports: Sequence[int] = (),
        file_systems: FileSystemAccess = FileSystemAccess(),
    ) -> None:
        super().__init__(scope, construct_id)
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="HyperPod nodes", allow_all_outbound=False
        )
        group.connections.allow_internally(ec2.Port.all_traffic(), "EFA and node to node")
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS services and registries")
        for port in outside_ports:
            group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(port), "named in the environment file")
        # the range itself: of a reference nobody can say that it is not the whole internet
        inside = ec2.Peer.ipv4(vpc_cidr or vpc.vpc_cidr_block)
        for lustre in LUSTRE_PORTS if file_systems.existing_lustre else ():
            group.add_egress_rule(inside, lustre, "Lustre to the existing file system")
            group.add_ingress_rule(inside, lustre, "Lustre from the existing file system")
        for nfs in NFS_PORTS if file_systems.existing_homes else ():
            group.add_egress_rule(inside, nfs, "NFS to the existing home folders")
        self.security_group = group


def _file_system_security_group(
    scope: Construct, vpc: ec2.IVpc, nodes: ec2.ISecurityGroup, file_systems: FileSystemAccess
) -> ec2.SecurityGroup:
    """Security group of the new file systems: Lustre from the nodes and among its own servers, NFS from the nodes.

    EFA is no TCP and has no ports: with it, all traffic between the same two.
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
    """
    group = ec2.SecurityGroup(scope, "FileSystem", vpc=vpc, description="FSx for Lustre", allow_all_outbound=False)
    for port in [ec2.Port.all_traffic()] if file_systems.efa else LUSTRE_PORTS:
        group.connections.allow_internally(port, "Lustre among its servers")
        group.connections.allow_from(nodes, port, "Lustre from the nodes")
        group.connections.allow_to(nodes, port, "Lustre to the nodes")
    for port in NFS_PORTS if file_systems.homes else ():
        group.connections.allow_from(nodes, port, "NFS from the nodes")
    return group


def keep_closed(vpc: ec2.Vpc) -> None:
    """Let the function that closes a VPC's default security group never open it again, and have no right to.

    The CDK's function gives the group its rules back when its stack goes: a VPC that is kept would be open again, and
    the deletion fails where someone added one of them. A group needs no rules to be deleted with its VPC.
    """
    restriction = vpc.node.find_child("RestrictDefaultSecurityGroupCustomResource").node.default_child
    assert isinstance(restriction, CfnResource)  # noqa: S101  (narrowing only)
    restriction.apply_removal_policy(RemovalPolicy.RETAIN)
    role = Stack.of(vpc).node.find_child("Custom::VpcRestrictDefaultSGCustomResourceProvider").node.find_child("Role")
    assert isinstance(role, CfnResource)  # noqa: S101  (narrowing only)
    role.add_property_override(
        "Policies.0.PolicyDocument.Statement.0.Action",
        ["ec2:RevokeSecurityGroupIngress", "ec2:RevokeSecurityGroupEgress"],
    )


def place_by_zone_id(subnets: Sequence[ec2.ISubnet]) -> None:
    """Place subnets by zone ID: names mean different zones in different accounts, and capacity is sold by zone."""
    for subnet in subnets:
        resource = subnet.node.default_child
        assert isinstance(resource, ec2.CfnSubnet)  # noqa: S101  (narrowing only)
        resource.availability_zone_id = subnet.availability_zone
        resource.availability_zone = None
