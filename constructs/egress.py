"""The network's way out: NAT gateways, or the interface endpoints of a closed network."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2

from constructs import Construct
from hyperpod_ray.constructs.access import BucketAccess
from hyperpod_ray.constructs.endpoints import (
    SERVICES,
    EndpointCall,
    gateway_policy,
    interface_policy,
    interface_services,
)
from hyperpod_ray.constructs.network import place_by_zone_id


class ClusterEgress(Construct):
    """How nodes and the deployment's functions leave the subnets of a new VPC.

    Creates the internet gateway, a public `AWS::EC2::Subnet` per zone, `AWS::EC2::NatGateway` in the first of them and
    a default route per private subnet, or the `AWS::EC2::VPCEndpoint` interfaces of a closed network; in both cases
    the S3 gateway endpoint. The EKS control plane needs none of it: make it beside the control plane, and before
    whatever runs in the subnets.

    Args:
        vpc: The new VPC.
        cidr: Its range.
        zones: Its availability zone IDs.
        nat_gateways: One in each of the first public subnets; 0 closes the network: interface endpoints instead.
        private_subnets: Node and control-plane subnets; each list in the order of the zones.
        public_cidrs: Range of each zone's public subnet; empty in a closed network.
        endpoint_subnets: Where interface endpoints have their addresses.
        calls: AWS calls from inside the VPC, for the endpoints of a closed network.
        access: Buckets that Ray's pods may use, for the S3 endpoint's policy in a closed network.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        cidr: str,
        zones: Sequence[str],
        nat_gateways: int,
        private_subnets: Sequence[Sequence[ec2.ISubnet]],
        public_cidrs: Sequence[str],
        endpoint_subnets: Sequence[ec2.ISubnet],
        calls: Sequence[EndpointCall],
        access: Sequence[BucketAccess] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        every = [subnet for tier in private_subnets for subnet in tier]
        gateway = ec2.GatewayVpcEndpoint(
            self,
            "S3",
            vpc=vpc,
            service=ec2.GatewayVpcEndpointAwsService.S3,
            subnets=[ec2.SubnetSelection(subnets=every)],
        )
        if not nat_gateways:
            self._endpoints(vpc, cidr, endpoint_subnets, calls)
            # beside a NAT gateway a policy would limit nothing: S3 is reachable through that, too
            for statement in gateway_policy(self, access=access):
                gateway.add_to_policy(statement)
        else:
            self._nat(nat_gateways, private_subnets, self._public(vpc, zones, public_cidrs))

    def _public(self, vpc: ec2.IVpc, zones: Sequence[str], cidrs: Sequence[str]) -> list[ec2.PublicSubnet]:
        """Subnets with a route to the internet, for NAT gateways alone: no node and no pod is in them."""
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "Attachment", vpc_id=vpc.vpc_id, internet_gateway_id=gateway.attr_internet_gateway_id
        )
        subnets = []
        for index, (zone, cidr) in enumerate(zip(zones, cidrs, strict=True), start=1):
            subnet = ec2.PublicSubnet(
                self,
                f"Public{index}",
                vpc_id=vpc.vpc_id,
                availability_zone=zone,
                cidr_block=cidr,
                map_public_ip_on_launch=False,
            )
            subnet.add_default_internet_route(gateway.attr_internet_gateway_id, attachment)
            subnets.append(subnet)
        place_by_zone_id(subnets)
        return subnets

    def _nat(self, count: int, private: Sequence[Sequence[ec2.ISubnet]], public: Sequence[ec2.PublicSubnet]) -> None:
        gateways = []
        for index, subnet in enumerate(public[:count], start=1):
            address = ec2.CfnEIP(self, f"Address{index}", domain="vpc")
            gateway = ec2.CfnNatGateway(
                self, f"NatGateway{index}", subnet_id=subnet.subnet_id, allocation_id=address.attr_allocation_id
            )
            gateway.node.add_dependency(subnet.internet_connectivity_established)
            gateways.append(gateway)
        for tier in private:
            for index, private_subnet in enumerate(tier):
                ec2.CfnRoute(
                    self,
                    f"{private_subnet.node.id}Route",
                    route_table_id=private_subnet.route_table.route_table_id,
                    destination_cidr_block="0.0.0.0/0",
                    nat_gateway_id=gateways[index % len(gateways)].attr_nat_gateway_id,
                )

    def _endpoints(
        self, vpc: ec2.IVpc, cidr: str, subnets: Sequence[ec2.ISubnet], calls: Sequence[EndpointCall]
    ) -> None:
        allowed = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=vpc,
            description="interface endpoints of the closed network",
            allow_all_outbound=False,
        )
        allowed.add_ingress_rule(ec2.Peer.ipv4(cidr), ec2.Port.tcp(443), "HTTPS from inside the VPC")
        for service in interface_services(calls):
            name, aws_service = SERVICES[service]
            endpoint = ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=aws_service,
                private_dns_enabled=True,
                open=False,
                security_groups=[allowed],
                subnets=ec2.SubnetSelection(subnets=list(subnets)),
            )
            for statement in interface_policy(self, service, calls):
                endpoint.add_to_policy(statement)
