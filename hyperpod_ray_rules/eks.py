"""What Amazon EKS refuses of a new cluster: zones of its subnets, and the ranges that may reach its public endpoint.

Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html and
https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from hyperpod_ray_rules import data
from hyperpod_ray_rules.refusal import Json, Refusal

MOST_CIDRS = 40


def control_plane_zones(zone_ids: Sequence[str]) -> Iterator[Refusal]:
    """Zones of the control plane's subnets: at least two, and none that EKS does not take.

    Args:
        zone_ids: Availability zone ID of each subnet, in their order.
    """
    refused = data.refused_zone_ids()
    for index, zone in enumerate(zone_ids):
        if zone in refused:
            message = f"EKS takes no control-plane subnet in {zone}"
            expected = f"a zone other than {', '.join(refused)}"
            yield Refusal(rule="zone_is_taken", message=message, expected=expected, index=index, member="subnetIds")
    if len(set(zone_ids)) < 2:
        message = "Subnets specified must be in at least two different AZs"
        expected = "subnets in two zones or more"
        yield Refusal(rule="two_zones", message=message, expected=expected, member="subnetIds")


def public_cidrs(cidrs: Sequence[str]) -> Iterator[Refusal]:
    """Ranges that may reach a public endpoint: 40 at most, each a range of public addresses."""
    if len(cidrs) > MOST_CIDRS:
        message, expected = f"{len(cidrs)} ranges", f"at most {MOST_CIDRS}"
        yield Refusal(rule="at_most_forty", message=message, expected=expected, member="publicAccessCidrs")
    for index, cidr in enumerate(cidrs):
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError as bad:
            message = f"'{cidr}' is no range of IPv4 addresses: {str(bad).lower()}"
            yield Refusal(
                rule="cidr_is_a_range",
                message=message,
                expected="a CIDR such as 20.0.0.0/24",
                index=index,
                member="publicAccessCidrs",
            )
            continue
        shared = ipaddress.IPv4Network("100.64.0.0/10")
        category = (
            "private" if network.is_private else "shared address space (RFC 6598)" if network.overlaps(shared) else ""
        )
        category = "multicast" if network.is_multicast else category or ("reserved" if network.is_reserved else "")
        if network.prefixlen and category:
            message, expected = (
                f"'{cidr}' is {category}",
                "public addresses, which is all that the public endpoint sees",
            )
            yield Refusal(
                rule="cidr_is_public", message=message, expected=expected, index=index, member="publicAccessCidrs"
            )


def orchestrator(cluster: Json) -> Iterator[Refusal]:
    """An EKS cluster (the answer of DescribeCluster) as HyperPod's orchestrator: active, and with access entries.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html
    """
    status, name = cluster.get("status", "ACTIVE"), cluster.get("name", "")
    if status != "ACTIVE":
        message = f"EKS cluster {name} is {status}"
        yield Refusal(rule="cluster_is_active", message=message, expected="ACTIVE", member="status")
    mode = (cluster.get("accessConfig") or {}).get("authenticationMode", "API")
    if mode == "CONFIG_MAP":
        message, expected = f"EKS cluster {name} has authentication mode CONFIG_MAP", "API or API_AND_CONFIG_MAP"
        yield Refusal(rule="access_entries", message=message, expected=expected, member="authenticationMode")
    family = (cluster.get("kubernetesNetworkConfig") or {}).get("ipFamily", "ipv4")
    if family != "ipv4":
        message = f"EKS cluster {name} has IP family {family}"
        yield Refusal(rule="cluster_is_ipv4", message=message, expected="ipv4", member="ipFamily")
