"""Where packets of a subnet get to: the internet by its routes, AWS services by the endpoints of its VPC.

Judged from what EC2 holds: route tables, gateways, endpoints with their policies and security groups. Network ACLs and
DNS settings of the VPC are not judged.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.hooks import Hooks
from hyperpod_ray_sandbox.aws.emulator.roles import Roles

Json = dict[str, Any]
HTTPS = 443
EVERYWHERE = "0.0.0.0/0"
WAYS_OUT = (
    "GatewayId",
    "NatGatewayId",
    "TransitGatewayId",
    "NetworkInterfaceId",
    "InstanceId",
    "VpcPeeringConnectionId",
)


class Reach:
    """Answers for one subnet and the security groups of what is in it."""

    def __init__(self, hooks: Hooks, roles: Roles, *, subnet: str, groups: list[str]) -> None:
        self._ec2, self._hooks, self._roles = hooks.ec2, hooks, roles
        self._subnet = self._ec2._subnets.get(subnet)
        self._groups = groups
        self._table = self._route_table(subnet) if self._subnet else None

    @property
    def known(self) -> bool:
        """Whether the subnet is one of this account; a service's own VPC reaches everything."""
        return self._subnet is not None

    def internet(self) -> bool:
        """Whether HTTPS gets to any public address."""
        if not self.known:
            return True
        routes = (self._table or {}).get("Routes", [])
        default = [route for route in routes if route.get("DestinationCidrBlock") == EVERYWHERE]
        return any(self._leads(route) for route in default) and self._leaves(None)

    def service(self, name: str, action: str, resource: str, *, account: str) -> bool:
        """Whether a call gets to a service of this region: by an endpoint that admits it, else by the internet."""
        if not self.known:
            return True
        endpoint = self._endpoint(name)
        if endpoint is None:
            return self.internet()
        return self._roles.admits(endpoint.get("PolicyDocument"), action, resource, account=account)

    def endpoint(self, name: str) -> bool:
        """Whether calls to a service go through an endpoint."""
        return self._endpoint(name) is not None

    # --- inside ------------------------------------------------------------------------------------------------------

    def _route_table(self, subnet: str) -> Json | None:
        main = None
        for table in self._ec2._route_tables.values():
            for association in table.get("Associations", []):
                if association.get("SubnetId") == subnet:
                    return dict(table)
                if association.get("Main") and table.get("VpcId") == (self._subnet or {}).get("VpcId"):
                    main = dict(table)
        return main

    def _leads(self, route: Json) -> bool:
        if route.get("State", "active") != "active":
            return False
        nat = route.get("NatGatewayId")
        if nat:
            return bool(self._ec2._nat_gateways.get(nat, {}).get("State") == "available")
        return any(route.get(way) for way in WAYS_OUT)

    def _endpoint(self, name: str) -> Json | None:
        """The endpoint that a call to the service's own name takes."""
        subnet = self._subnet or {}
        service_name = f"com.amazonaws.{self._hooks.region()}.{name}"
        for endpoint in self._ec2._vpc_endpoints.values():
            if endpoint["ServiceName"] != service_name or endpoint["VpcId"] != subnet.get("VpcId"):
                continue
            if endpoint.get("VpcEndpointType") == "Interface":
                named = str(endpoint.get("PrivateDnsEnabled", False)).lower() == "true"
                if named and self._enters(endpoint.get("SecurityGroupIds", [])) and self._leaves(endpoint):
                    return dict(endpoint)
            elif (self._table or {}).get("RouteTableId") in endpoint.get("RouteTableIds", []) and self._leaves(None):
                return dict(endpoint)
        return None

    def _enters(self, groups: list[str]) -> bool:
        """Whether an endpoint's security groups let HTTPS from here in."""
        cidr = ipaddress.IPv4Network((self._subnet or {}).get("CidrBlock", "10.0.0.0/16"))
        return not groups or any(
            _covers(rule)
            and (
                any(cidr.subnet_of(_net(r["CidrIp"])) for r in rule.get("IpRanges", []))
                or any(pair.get("GroupId") in self._groups for pair in rule.get("UserIdGroupPairs", []))
            )
            for group in groups
            for rule in self._ec2._security_groups.get(group, {}).get("IpPermissions", [])
        )

    def _leaves(self, endpoint: Json | None) -> bool:
        """Whether the security groups here let HTTPS out: to everywhere, or to an endpoint's subnets or groups."""
        subnets = [self._ec2._subnets.get(s, {}) for s in (endpoint or {}).get("SubnetIds", [])]
        networks = [_net(s["CidrBlock"]) for s in subnets if s.get("CidrBlock")]
        beside = set((endpoint or {}).get("SecurityGroupIds", []))
        return not self._groups or any(
            _covers(rule)
            and (
                any(
                    r["CidrIp"] == EVERYWHERE or any(t.subnet_of(_net(r["CidrIp"])) for t in networks)
                    for r in rule.get("IpRanges", [])
                )
                or any(pair.get("GroupId") in beside for pair in rule.get("UserIdGroupPairs", []))
                or (endpoint is None and bool(rule.get("PrefixListIds")))
            )
            for group in self._groups
            for rule in self._ec2._security_groups.get(group, {}).get("IpPermissionsEgress", [])
        )


def _covers(rule: Json) -> bool:
    protocol = str(rule.get("IpProtocol"))
    if protocol == "-1":
        return True
    return protocol in ("tcp", "6") and int(rule.get("FromPort", 0)) <= HTTPS <= int(rule.get("ToPort", 65535))


def _net(cidr: str) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(cidr)
