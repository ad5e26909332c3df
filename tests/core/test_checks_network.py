"""Rules of `hyperpod_ray/core/checks/network.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import (
    BURST,
    CLOSED,
    EAST,
    EXISTING,
    GROUPS,
    HEAD,
    SUBNETS,
    WORKER,
    WORKERS,
    assert_named_rule,
    assert_rule,
    case_id,
    worker,
)

CASES = [
    Case("addresses_fit", {"network/node_subnet_prefix": 24, f"{HEAD}/count": 3, f"{WORKERS}/network_interface": "efa"}, "hyperpod.instance_groups[1].count", "4 × 81 of ml.p5.48xlarge", {"network/node_subnet_prefix": 24, f"{HEAD}/availability_zone_id": "usw2-az2", f"{WORKERS}/network_interface": "efa-only"}),
    Case("ranges_exist", {"network/cidr": "10.0.0.0/99"}, "network.cidr", "Expected a prefix length from 0 to 32", {"network/cidr": "10.0.0.0/16"}),
    Case("ranges_exist", {"network/cidr": "10.0.300.0/16"}, "network.cidr", "0 to 255", {"network/cidr": "10.255.0.0/16"}),
    Case("ranges_exist", {"network/cidr": "10.0.0.1/16"}, "network.cidr", "did you mean '10.0.0.0/16'?", {"network/cidr": "10.0.0.0/16"}),
    Case("ranges_exist", {"network/cidr": "10.0.0.0/21"}, "network.cidr", "Expected /16 to /20", {"network/cidr": "10.0.0.0/20"}),
    Case("ranges_exist", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.0.16.0/29"}, "network.existing.node_subnet_cidrs.usw2-az2", "Expected /16 to /28", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.0.16.0/28"}),
    Case("range_is_private", {"network/cidr": "11.0.0.0/16"}, "network.cidr", "is not private", {"network/cidr": "172.31.0.0/16"}),
    Case("range_is_private", {"network/cidr": "172.17.0.0/16"}, "network.cidr", "bridge network", {"network/cidr": "172.18.0.0/16"}, "warning"),
    Case("subnets_lie_in_the_vpc", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.0.8.0/21"}, "network.existing.node_subnet_cidrs.usw2-az2", "overlaps 10.0.0.0/20", EXISTING),
    Case("subnets_lie_in_the_vpc", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.1.0.0/20"}, "network.existing.node_subnet_cidrs.usw2-az2", "outside vpc_cidr", EXISTING, "warning"),
    Case("existing_subnets_are_described", {**EXISTING, "network/existing/node_subnet_cidrs": {"usw2-az1": "10.0.0.0/20"}}, "network.existing.node_subnet_ids.usw2-az2", "has no entry in node_subnet_cidrs", EXISTING),
    Case("existing_subnets_are_described", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az3": "10.0.32.0/20"}, "network.existing.node_subnet_cidrs.usw2-az3", "has no entry in node_subnet_ids", EXISTING),
    Case("existing_subnets_are_described", {**EXISTING, "network/existing/node_subnet_ids/usw2-az3": "subnet-0123456789abcdef9", "network/existing/node_subnet_cidrs/usw2-az3": "10.0.32.0/20"}, "network.existing.node_subnet_ids.usw2-az3", "is not one of network.availability_zone_ids", EXISTING),
    Case("control_plane_subnets_are_described", {**EXISTING, "network/existing/control_plane_subnet_ids": ["subnet-0123456789abcdef2"] * 2}, "network.existing.control_plane_subnet_ids[1]", "named twice", EXISTING),
    Case("control_plane_subnets_are_described", {**EXISTING, "network/existing/control_plane_subnet_ids/2": "subnet-0123456789abcdef4"}, "network.existing.control_plane_subnet_ids", "3 subnets for 2 zones", EXISTING),
    Case("zones_differ", {"network/availability_zone_ids": ["usw2-az1", "usw2-az1"]}, "network.availability_zone_ids[1]", "named twice", {"network/availability_zone_ids": ["usw2-az1", "usw2-az3"]}),
    Case("region_has_clusters", {"region": "eu-west-3", "network/availability_zone_ids": ["euw3-az1", "euw3-az2"]}, "region", "no HyperPod clusters", {"region": "eu-west-1", "network/availability_zone_ids": ["euw1-az1", "euw1-az2"]}),
    Case("control_plane_zones_are_accepted", {"region": "us-east-1", "network/availability_zone_ids": ["use1-az1", "use1-az3"]}, "network.availability_zone_ids[1]", "EKS takes no control-plane subnet in use1-az3", {"region": "us-east-1", "network/availability_zone_ids": ["use1-az1", "use1-az2"]}),
    Case("control_plane_zones_are_accepted", {**EAST, "network/availability_zone_ids": ["use1-az1", "use1-az3", "use1-az2"]}, "network.availability_zone_ids[1]", "name zones that have a control-plane subnet first", {**EAST, "network/availability_zone_ids": ["use1-az1", "use1-az2", "use1-az3"]}),
    Case("zones_belong_to_the_region", {"network/availability_zone_ids": ["usw2-az1", "use2-az2"]}, "network.availability_zone_ids[1]", "did you mean 'usw2-az2'?", {"region": "ap-southeast-2", "network/availability_zone_ids": ["apse2-az1", "apse2-az3"]}),
    Case("region_is_known", {"region": "us-west-9", "network/availability_zone_ids": ["usw9-az1", "usw9-az2"]}, "region", "no AWS Region known here. Expected a Region that botocore lists. Fix: did you mean 'us-west-2'?", {}),
    Case("zones_exist_somewhere", {"network/availability_zone_ids": ["usw2-az1", "usw2-az9"]}, "network.availability_zone_ids[1]", "Expected az1 to az4", {"network/availability_zone_ids": ["usw2-az1", "usw2-az4"]}),
    Case("zones_exist_somewhere", {"network/availability_zone_ids": ["usw2-az1", "usw2-az5"]}, "network.availability_zone_ids[1]", "Expected az1 to az4", {"network/availability_zone_ids": ["usw2-az1", "usw2-az4"]}, "warning"),
    Case("control_plane_has_its_own_subnets", {**EXISTING, "network/existing/control_plane_subnet_ids": ["subnet-0123456789abcdef2", "subnet-0123456789abcdef1"]}, "network.existing.control_plane_subnet_ids[1]", "also carries nodes", EXISTING, "warning"),
    Case("groups_stand_in_our_zones", {f"{HEAD}/availability_zone_id": "usw2-az4"}, "hyperpod.instance_groups[0].availability_zone_id", "is not one of network.availability_zone_ids", {f"{HEAD}/availability_zone_id": "usw2-az2"}),
    Case("groups_stand_in_our_zones", {"network/existing": {**SUBNETS, "node_subnet_ids": {"usw2-az2": "subnet-0123456789abcdef1"}, "node_subnet_cidrs": {"usw2-az2": "10.0.16.0/20"}}, f"{WORKERS}/availability_zone_id": "usw2-az2"}, "hyperpod.instance_groups[0]", "no entry in network.existing.node_subnet_ids", EXISTING),
    Case("addresses_fit", {"network/node_subnet_prefix": 24, f"{HEAD}/count": 3}, "hyperpod.instance_groups[1].count", "Expected at most 2 nodes of this group", {"network/node_subnet_prefix": 23, f"{HEAD}/count": 3}),
    Case("addresses_fit", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az1": "10.0.0.0/24", f"{HEAD}/availability_zone_id": "usw2-az2"}, "hyperpod.instance_groups[1].count", "4 × 81 of ml.p5.48xlarge", EXISTING),
    Case("addresses_fit", {"network/node_subnet_prefix": 24, f"{HEAD}/availability_zone_id": "usw2-az2", f"{WORKERS}/count": 3, f"{WORKER}/replicas": 3}, "network.node_subnet_prefix", "Expected 81 more, for one replacement per group", {"network/node_subnet_prefix": 24, f"{HEAD}/availability_zone_id": "usw2-az2", f"{WORKERS}/count": 2, f"{WORKER}/replicas": 2}, "warning"),
    Case("subnets_fit_the_vpc", {"network/node_subnet_prefix": 18}, "network.node_subnet_prefix", "set node_subnet_prefix: 19", {"network/node_subnet_prefix": 18, "network/zone_slots": 3}),
    Case("zones_have_slots", {"network/zone_slots": 2, "network/availability_zone_ids": ["usw2-az1", "usw2-az2", "usw2-az3"]}, "network.zone_slots", "2 slots for 3 zones", {"network/zone_slots": 3, "network/availability_zone_ids": ["usw2-az1", "usw2-az2", "usw2-az3"]}),
    Case("nat_gateways_have_zones", {"network/nat_gateways": 3}, "network.nat_gateways", "at most one per zone", {"network/nat_gateways": 2}),
    Case("settings_have_effect", {**CLOSED, "network/nat_gateways": 2}, "network.nat_gateways", "creates no NAT gateway", CLOSED, "warning"),
    Case("addresses_fit", {"hyperpod/managed_autoscaling": True, "ray/autoscaling": True, f"{GROUPS}/2": BURST, "ray/workers/1": worker(name="burst", instance_group="burst", replicas=0, max_replicas=9), "network/node_subnet_prefix": 23}, "hyperpod.instance_groups[2].count", "9 × 81 of ml.p5.48xlarge by max_replicas", {"hyperpod/managed_autoscaling": True, "ray/autoscaling": True, f"{GROUPS}/2": BURST, "ray/workers/1": worker(name="burst", instance_group="burst", replicas=0, max_replicas=1), "network/node_subnet_prefix": 23}),
    Case("existing_subnets_are_described", {**EXISTING, "network/existing/node_subnet_ids/usw2-az2": "subnet-0123456789abcdef0"}, "network.existing.node_subnet_ids.usw2-az1", "stands for more than one zone", EXISTING, beside=("network.existing.node_subnet_ids.usw2-az2",)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
