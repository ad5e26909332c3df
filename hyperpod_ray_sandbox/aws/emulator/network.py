"""Network interfaces that services put into the user's subnets, and what AWS therefore refuses to delete."""

from __future__ import annotations

import ipaddress
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.context import hex_id
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.hooks import Hooks

Json = dict[str, Any]
RESERVED = 4  # the first four addresses of a subnet belong to AWS


class Network:
    """Interfaces in MiniStack's EC2 store, with the addresses of their subnets."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._ec2 = hooks.ec2

    def check(self, subnets: list[str], security_groups: list[str]) -> None:
        """Raise where a subnet or security group does not exist."""
        for subnet in subnets:
            if subnet not in self._ec2._subnets:
                raise ServiceError("ValidationException", f"The subnet ID '{subnet}' does not exist")
        for group in security_groups:
            if group not in self._ec2._security_groups:
                raise ServiceError("ValidationException", f"The security group '{group}' does not exist")

    def create_interface(self, subnets: list[str], groups: list[str], description: str) -> tuple[str, str, Json]:
        """Create an interface in the emptiest subnet; return its id, its address and the zone it is in."""
        counts = {s: sum(1 for e in self._interfaces() if e["SubnetId"] == s) for s in subnets}
        subnet_id = min(subnets, key=lambda s: counts[s]) if subnets else ""
        subnet = self._ec2._subnets.get(subnet_id, {})
        zone = subnet.get("AvailabilityZone", f"{self._hooks.region()}a")
        address = self._free_address(subnet.get("CidrBlock", "10.255.0.0/16"), subnet_id)
        interface = hex_id("eni-")
        self._ec2._network_interfaces[interface] = {
            "NetworkInterfaceId": interface,
            "SubnetId": subnet_id,
            "VpcId": subnet.get("VpcId", ""),
            "AvailabilityZone": zone,
            "Description": description,
            "OwnerId": self._hooks.account(),
            "RequesterManaged": True,
            "Status": "in-use",
            "PrivateIpAddress": address,
            "InterfaceType": "interface",
            "SourceDestCheck": True,
            "MacAddress": "02:" + ":".join(interface[4 + i : 6 + i] for i in range(0, 10, 2)),
            "Groups": [
                {"GroupId": g, "GroupName": self._ec2._security_groups.get(g, {}).get("GroupName", g)} for g in groups
            ],
            "Attachment": None,
        }
        placement = {"AvailabilityZone": zone}
        if subnet.get("AvailabilityZoneId"):
            placement["AvailabilityZoneId"] = subnet["AvailabilityZoneId"]
        return interface, address, placement

    def delete_interface(self, interface: str) -> None:
        """Remove an interface; nothing happens where it is gone."""
        self._ec2._network_interfaces.pop(interface, None)

    def blocks_subnet(self, subnet: str) -> str:
        """Return why AWS would not delete a subnet now, or nothing."""
        for interface in self._interfaces():
            if interface["SubnetId"] == subnet:
                return self._dependency(f"The subnet '{subnet}'", interface)
        for nat in self._ec2._nat_gateways.values():
            if nat["SubnetId"] == subnet and nat.get("State") != "deleted":
                gateway = nat["NatGatewayId"]
                return f"The subnet '{subnet}' has dependencies and cannot be deleted. (NAT gateway {gateway})"
        return ""

    def blocks_security_group(self, group: str) -> str:
        """Return why AWS would not delete a security group now, or nothing."""
        for interface in self._interfaces():
            if any(g["GroupId"] == group for g in interface["Groups"]):
                return self._dependency(f"resource {group}", interface)
        for peer in self._ec2._security_groups.values():
            rules = [*peer["IpPermissions"], *peer["IpPermissionsEgress"]]
            if peer["GroupId"] != group and any(
                pair.get("GroupId") == group for rule in rules for pair in rule.get("UserIdGroupPairs", [])
            ):
                return f"resource {group} has a dependent object (a rule of {peer['GroupId']})"
        return ""

    def _dependency(self, resource: str, interface: Json) -> str:
        return (
            f"{resource} has dependencies and cannot be deleted. "
            f"(network interface {interface['NetworkInterfaceId']}: {interface['Description']})"
        )

    def _interfaces(self) -> list[Json]:
        return list(self._ec2._network_interfaces.values())

    def _free_address(self, cidr: str, subnet: str) -> str:
        used = {e["PrivateIpAddress"] for e in self._interfaces() if e["SubnetId"] == subnet}
        network = ipaddress.ip_network(cidr)
        for position in range(RESERVED, network.num_addresses - 1):
            address = str(network[position])
            if address not in used:
                return address
        raise ServiceError("InsufficientFreeAddressesInSubnet", f"no free address is left in {subnet} ({cidr})")
