from __future__ import annotations

import ipaddress
import re

import pytest

from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.core.service_limits import platform
from tests.core.environment_files import plan

PODS_OF_THE_GUIDE = {
    "ml.p4d.24xlarge": 49, "ml.p4de.24xlarge": 49, "ml.p5.48xlarge": 49, "ml.p5e.48xlarge": 49, "ml.trn1.32xlarge": 49,
    "ml.g5.xlarge": 14, "ml.g5.2xlarge": 14, "ml.g5.4xlarge": 29, "ml.g5.8xlarge": 29, "ml.g5.16xlarge": 29,
    "ml.g5.12xlarge": 49, "ml.g5.24xlarge": 49, "ml.g5.48xlarge": 49, "ml.m5.large": 9, "ml.m5.xlarge": 14,
    "ml.m5.2xlarge": 14, "ml.m5.4xlarge": 29, "ml.m5.8xlarge": 29, "ml.m5.12xlarge": 29, "ml.m5.16xlarge": 49,
    "ml.m5.24xlarge": 49, "ml.c5.large": 9, "ml.t3.medium": 5,
}  # fmt: skip
"""Pods per node as the SageMaker guide lists them, written down by hand."""


@pytest.mark.parametrize(("name", "pods"), PODS_OF_THE_GUIDE.items())
def test_pods_are_the_guides(name: str, pods: int) -> None:
    assert catalogue()[name].pods == pods


@pytest.mark.parametrize("name", ["ml.p5.48xlarge", "ml.p5e.48xlarge"])
def test_a_p5_takes_81_addresses(name: str) -> None:
    assert catalogue()[name].ips == 81


def test_figures_are_of_types_that_exist_and_miss_one() -> None:
    assert platform().instance_types - set(catalogue()) == {"ml.p6e-gb200.36xlarge"}
    assert set(catalogue()) <= platform().instance_types


@pytest.mark.parametrize("name", catalogue())
def test_specs_agree(name: str) -> None:
    figures = catalogue()[name]
    assert (figures.accelerator == "none") == (figures.accelerators == 0)
    assert figures.pods < figures.ips
    assert figures.vcpus % figures.threads == 0
    gpus = re.match(r"ml\.(p|g|gr)\d", name)
    assert (figures.accelerator == "nvidia") == bool(gpus)
    assert (figures.accelerator == "neuron") == name.startswith("ml.trn")
    assert (figures.architecture == "arm64") == bool(re.match(r"ml\.[cmr]\dg\.", name))


def test_unknown_types_are_a_key_error() -> None:
    with pytest.raises(KeyError):
        plan().type_spec("ml.none.large")
    assert "ml.none.large" not in catalogue()


@pytest.mark.parametrize("zone", [0, 1, 2])
def test_the_range_of_nodes_is_that_of_their_zones_slot(zone: int) -> None:
    """The VPC is laid out zone by zone: nodes of the last zone are in its slot, though the first ones are empty.

    https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.aws_ec2.Vpc.html (availabilityZones, ipAddresses)
    """
    zones = ["usw2-az1", "usw2-az2", "usw2-az3"]
    edits = {f"hyperpod/instance_groups/{group}/availability_zone_id": zones[zone] for group in (0, 1)}
    settled = plan({"network/availability_zone_ids": zones, **edits})
    assert settled.new_network is not None
    whole = ipaddress.ip_network(settled.new_network.cidr)
    slots = list(whole.subnets(new_prefix=settled.node_subnet_prefix))
    assert settled.node_subnet_cidrs == [str(slots[zone])]
