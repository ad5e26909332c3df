"""Rules of `hyperpod_ray/core/checks/account/network.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import CONTROL_1, CONTROL_2, GONE, NEW, NODES_1, NODES_2, VPC
from tests.core.account.sabotage import Sabotage, assert_named_rules, assert_sabotage, case_id

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("no VPC", {"vpcs > " + VPC: GONE}, (("VPC", "error", f"{VPC}: no such VPC"),)),
    Sabotage("another range of the VPC", {f"vpcs > {VPC} > CidrBlock": "10.1.0.0/16"}, (("VPC", "error", "set network.existing.vpc_cidr: 10.1.0.0/16"),)),
    Sabotage("no names in the VPC", {f"vpcs > {VPC} > enableDnsHostnames": False}, (("VPC", "error", "EnableDnsHostnames"),)),
    Sabotage("no node subnet", {f"subnets > {NODES_2}": GONE}, (("subnets", "error", f"{NODES_2}: no such subnet"),)),
    Sabotage("no control-plane subnet", {f"subnets > {CONTROL_2}": GONE}, (("subnets", "error", f"{CONTROL_2}: no such subnet"),)),
    Sabotage("node subnet of another VPC", {f"subnets > {NODES_1} > VpcId": "vpc-0aaaaaaaaaaaaaaaa"}, (("subnets", "error", f"{NODES_1} is in vpc-0aaaaaaaaaaaaaaaa"),)),
    Sabotage("control-plane subnet of another VPC", {f"subnets > {CONTROL_1} > VpcId": "vpc-0aaaaaaaaaaaaaaaa"}, (("subnets", "error", f"{CONTROL_1} is in vpc-0aaaaaaaaaaaaaaaa"),)),
    Sabotage("node subnet in another zone", {f"subnets > {NODES_2} > AvailabilityZoneId": "usw2-az3"}, (("subnets", "error", f"{NODES_2} is in usw2-az3. Expected usw2-az2"),)),
    Sabotage("control-plane subnets in one zone", {f"subnets > {CONTROL_2} > AvailabilityZoneId": "usw2-az1"}, (("subnets", "error", f"{CONTROL_2} is in usw2-az1. Expected usw2-az2"),)),
    Sabotage("another range of a subnet", {f"subnets > {NODES_1} > CidrBlock": "10.0.0.0/24"}, (("subnets", "error", "set network.existing.node_subnet_cidrs.usw2-az1: 10.0.0.0/24"),)),
    Sabotage("full subnet", {f"subnets > {NODES_1} > AvailableIpAddressCount": 100}, (("subnets", "error", "100 free"),)),
    Sabotage("full control-plane subnet", {f"subnets > {CONTROL_1} > AvailableIpAddressCount": 3}, (("subnets", "error", "3 free addresses. Expected 6"),)),
    Sabotage("public node subnets", {"route_tables > 0 > Routes": [{"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-0123", "State": "active"}]}, (("routes", "error", f"{NODES_1} routes to an internet gateway"), ("routes", "error", f"{NODES_2} routes to an internet gateway"))),
    Sabotage("NAT gateway that is gone", {"route_tables > 0 > Routes > 0 > State": "blackhole"}, (("routes", "error", f"{NODES_1} leads nowhere"), ("routes", "error", f"{NODES_2} leads nowhere"))),
    Sabotage("no way out", {"route_tables > 0 > Routes": []}, (("routes", "error", f"{NODES_1} has no route out"), ("routes", "error", f"{NODES_2} has no route out"))),
    Sabotage("a way to other networks alone", {"route_tables > 0 > Routes": [{"DestinationCidrBlock": "10.0.0.0/8", "TransitGatewayId": "tgw-0123", "State": "active"}]}, (("routes", "warning", f"{NODES_1} has no default route"), ("routes", "warning", f"{NODES_2} has no default route"))),
    Sabotage("no such zone", {"zones > us-west-2a": {"OptInStatus": "not-opted-in"}}, (("zones", "error", "usw2-az2: not a zone"),), file=NEW),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
