"""A zone can be added to a running environment: no subnet moves, and none is replaced."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from hyperpod_ray.core import load
from tests.stacks.assembled import Assembly
from tests.stacks.zones_helpers import create_only, file


def test_the_checks_count_the_addresses_that_the_template_has(grown: dict[int, Assembly], tmp_path: Path) -> None:
    file(tmp_path, "zones", zones=4, egress="nat")
    plan = load("zones", folder=tmp_path).plan
    ranges = [ipaddress.IPv4Network(subnet["CidrBlock"]) for subnet in create_only(grown[4]).values()]
    nodes = [one for one in ranges if one.prefixlen == plan.node_subnet_prefix]
    assert len(nodes) == 4
    if len(ranges) == 12:  # with the public subnets of NAT gateways
        assert sum(one.num_addresses for one in ranges) == plan.vpc_addresses_needed
        assert {str(one) for one in ranges} >= set(plan.public_subnet_cidrs)
