"""A zone can be added to a running environment: no subnet moves, and none is replaced."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core import load
from tests.stacks.conftest import Assembly, synthesize

ZONES = ["usw2-az1", "usw2-az2", "usw2-az3", "usw2-az4"]
CREATE_ONLY = ("AvailabilityZoneId", "AvailabilityZone", "CidrBlock", "VpcId", "Ipv6Native", "OutpostArn")
ENVIRONMENT: dict[str, Any] = {
    "account": "111122223333",
    "region": "us-west-2",
    "hyperpod": {
        "cluster_name": "ray-zones",
        "instance_groups": [
            {"name": "head", "type": "ml.m5.2xlarge", "count": 2},
            {"name": "workers", "type": "ml.g5.48xlarge", "count": 2},
        ],
    },
    "ray": {
        "head": {"instance_group": "head"},
        "workers": [{"name": "gpu", "instance_group": "workers", "replicas": 2}],
    },
}


def file(folder: Path, name: str, *, zones: int, egress: str) -> None:
    network = {"availability_zone_ids": ZONES[:zones], "egress": egress}
    settings = {**ENVIRONMENT, "network": network, "registries": {"mirror": egress == "closed"}}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))


@pytest.fixture(scope="module", params=["nat", "closed"])
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Assembly]:
    """One environment with two, three and four zones; its name is the same, as stack names are part of templates."""
    made = {}
    for zones in (2, 3, 4):
        folder = tmp_path_factory.mktemp(f"{request.param}-{zones}")
        file(folder, "zones", zones=zones, egress=request.param)
        # validated with two zones in every shipped environment
        made[zones] = synthesize("zones", folder=folder)
    return made


def create_only(assembly: Assembly) -> dict[str, dict[str, Any]]:
    return {
        name: {key: subnet["Properties"].get(key) for key in CREATE_ONLY}
        for name, subnet in assembly.of_type("AWS::EC2::Subnet").items()
    }


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


def test_the_checks_count_the_addresses_that_the_template_has(grown: dict[int, Assembly], tmp_path: Path) -> None:
    file(tmp_path, "zones", zones=4, egress="nat")
    plan = load("zones", folder=tmp_path).plan
    ranges = [ipaddress.IPv4Network(subnet["CidrBlock"]) for subnet in create_only(grown[4]).values()]
    nodes = [one for one in ranges if one.prefixlen == plan.node_subnet_prefix]
    assert len(nodes) == 4
    if len(ranges) == 12:  # with the public subnets of NAT gateways
        assert sum(one.num_addresses for one in ranges) == plan.vpc_addresses_needed
        assert {str(one) for one in ranges} >= set(plan.public_subnet_cidrs)


def test_a_route_of_a_zone_stays_at_its_gateway(grown: dict[int, Assembly]) -> None:
    routes = [
        {name: route["Properties"] for name, route in grown[zones].of_type("AWS::EC2::Route").items()}
        for zones in (2, 4)
    ]
    assert {name: routes[1].get(name) for name in routes[0]} == routes[0]
