from __future__ import annotations

import ipaddress

from tests.stacks.assembled import Assembly
from tests.stacks.zones_helpers import create_only


def test_no_subnet_is_moved_or_replaced(grown: dict[int, Assembly]) -> None:
    for fewer, more in ((2, 3), (3, 4), (2, 4)):
        before, after = create_only(grown[fewer]), create_only(grown[more])
        assert {name: after.get(name) for name in before} == before
        assert len(after) > len(before)


def test_every_subnet_has_addresses_of_its_own(grown: dict[int, Assembly]) -> None:
    for assembly in grown.values():
        ranges = [ipaddress.IPv4Network(subnet["CidrBlock"]) for subnet in create_only(assembly).values()]
        vpc = ipaddress.IPv4Network(assembly.one("AWS::EC2::VPC")["CidrBlock"])
        assert all(one.subnet_of(vpc) for one in ranges)
        assert not any(one.overlaps(other) for place, one in enumerate(ranges) for other in ranges[:place])
