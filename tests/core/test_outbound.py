"""What goes past a proxy, and its variables."""

from __future__ import annotations

import pytest

from hyperpod_ray.core import outbound
from tests.core.environment_files import plan

PROXY = {"url": "http://proxy.example.com:3128", "no_proxy": ["models.example.com", "127.0.0.1"]}
WITH = {"network/proxy": PROXY}
INSIDE = {"url": "http://10.0.9.9:3128"}
"""A closed network takes a proxy in its own VPC alone."""


def test_without_a_proxy_nothing_is_said() -> None:
    assert outbound.variables(plan()) == {}
    assert outbound.port(plan()) is None


def test_both_spellings_say_the_same_and_curl_reads_the_small_one() -> None:
    said = outbound.variables(plan(WITH))
    assert said["HTTPS_PROXY"] == said["http_proxy"] == PROXY["url"]
    assert {name.lower() for name in said} == {name for name in said if name.islower()}
    assert said["NO_PROXY"].split(",") == outbound.no_proxy(plan(WITH))
    assert outbound.port(plan(WITH)) == 3128


def test_the_machine_the_vpc_the_cluster_and_the_files_own_hosts_go_past_it() -> None:
    past = outbound.no_proxy(plan(WITH))
    assert {"localhost", "169.254.169.254", "169.254.170.23", ".svc", "172.20.0.0/16", "models.example.com"} <= set(
        past
    )
    assert ".us-west-2.compute.internal" in past and "s3.us-west-2.amazonaws.com" in past
    assert len(past) == len(set(past)), "what the file repeats is there once"
    network = plan(WITH).new_network
    assert network is not None
    assert network.cidr in past


def test_a_closed_network_has_the_names_of_its_endpoints() -> None:
    closed = outbound.no_proxy(
        plan({"network/proxy": INSIDE, "network/egress": "closed", "registries": {"mirror": True}})
    )
    assert {
        "api.ecr.us-west-2.amazonaws.com",
        ".dkr.ecr.us-west-2.amazonaws.com",
        "sts.us-west-2.amazonaws.com",
    } <= set(closed)
    assert "sts.us-west-2.amazonaws.com" not in outbound.no_proxy(plan(WITH))


@pytest.mark.parametrize("host", outbound.AGENTS)
def test_agents_of_the_own_node_are_never_asked_through_it(host: str) -> None:
    assert host in outbound.no_proxy(plan(WITH))


@pytest.mark.parametrize(
    ("region", "zone", "suffix"),
    [("us-west-2", "usw2", ".us-west-2.compute.internal"), ("us-east-1", "use1", ".ec2.internal")],
)
def test_names_of_nodes_go_past_it(region: str, zone: str, suffix: str) -> None:
    """EC2's private names have a suffix of their own in us-east-1.

    https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html#vpc-dns-hostnames
    """
    there = plan({**WITH, "region": region, "network/availability_zone_ids": [f"{zone}-az1", f"{zone}-az2"]})
    assert [host for host in outbound.no_proxy(there) if host.endswith(".internal")] == [suffix]
