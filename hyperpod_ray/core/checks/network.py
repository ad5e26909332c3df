"""Rules about the VPC, its zones and its addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from hyperpod_ray.core import regions
from hyperpod_ray.core.checks.lookup import GROUPS, groups, known_groups
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.errors import Message
from hyperpod_ray.core.findings import Finding, error, meant, rule, warning
from hyperpod_ray.core.model import ExistingNodeNetwork, NewNetwork
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.service_limits import platform, zone_prefix_of
from hyperpod_ray_rules.eks import control_plane_zones

PRIVATE_RANGES = tuple(
    ipaddress.IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)
"""RFC 1918, and the shared range of RFC 6598 that AWS also allows."""
RESERVED_ADDRESSES = 5
"""AWS keeps the first four addresses and the last of every subnet."""


def _range(cidr: str) -> ipaddress.IPv4Network | Message:
    """The range, or what is wrong with it."""
    try:
        return ipaddress.IPv4Network(cidr)
    except ValueError:
        pass
    try:
        loose = ipaddress.IPv4Network(cidr, strict=False)
    except ipaddress.AddressValueError:
        return Message(f"'{cidr}' is no IPv4 range", expected="four numbers from 0 to 255", fix="correct it")
    except ValueError:
        return Message(f"'{cidr}' is no IPv4 range", expected="a prefix length from 0 to 32", fix="correct it")
    problem = f"'{cidr}' has bits set beyond its prefix"
    return Message(problem, expected="an address that begins the range", fix=f"did you mean '{loose}'?")


def _cidrs(plan: CommonPlan) -> Iterator[tuple[tuple[str, ...], str]]:
    network = plan.settings.network
    if isinstance(network, NewNetwork):
        yield ("network", "cidr"), network.cidr
    elif isinstance(network, ExistingNodeNetwork):
        yield ("network", "existing", "vpc_cidr"), network.existing.vpc_cidr
        for zone, cidr in network.existing.node_subnet_cidrs.items():
            yield ("network", "existing", "node_subnet_cidrs", zone), cidr


@rule("network")
def ranges_exist(plan: CommonPlan) -> Iterator[Finding]:
    """Ranges are ranges: numbers to 255, a prefix to 32, no bits beyond it.

    VPCs and subnets are /16 to /28.
    https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html
    """
    for path, cidr in _cidrs(plan):
        parsed = _range(cidr)
        if isinstance(parsed, Message):
            yield error(*path, what=parsed.what, expected=parsed.expected, fix=parsed.fix)
        elif path == ("network", "cidr") and not 16 <= parsed.prefixlen <= 20:
            yield error(
                *path,
                what=f"/{parsed.prefixlen} for a new VPC",
                expected="/16 to /20",
                fix="choose a range of that size",
            )
        elif not 16 <= parsed.prefixlen <= 28:
            yield error(
                *path,
                what=f"/{parsed.prefixlen} is no size of a VPC or subnet",
                expected="/16 to /28",
                fix="correct the range",
            )


@rule("network")
def range_is_private(plan: CommonPlan) -> Iterator[Finding]:
    """A VPC in public address space hides that part of the internet from its nodes.

    172.17.0.0/16 is where container runtimes and some AWS services put their bridge.
    https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html
    """
    network = plan.new_network
    parsed = _range(network.cidr) if network else None
    if network is None or parsed is None or isinstance(parsed, Message):
        return
    if not any(parsed.subnet_of(private) for private in PRIVATE_RANGES):
        yield error(
            "network",
            "cidr",
            what=f"'{network.cidr}' is not private",
            expected="a range within 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10",
            fix="choose a private range",
        )
    elif parsed.overlaps(ipaddress.IPv4Network("172.17.0.0/16")):
        yield warning(
            "network",
            "cidr",
            what="overlaps 172.17.0.0/16, the usual bridge network of container runtimes and AWS services",
            expected="a range apart from it",
            fix="choose another range, for example 10.0.0.0/16",
        )


@rule("network")
def subnets_lie_in_the_vpc(plan: CommonPlan) -> Iterator[Finding]:
    """Existing node subnets are inside the VPC's range and apart from each other."""
    existing = plan.existing_vpc
    if existing is None:
        return
    vpc = _range(existing.vpc_cidr)
    subnet_ranges: dict[str, ipaddress.IPv4Network] = {}
    for zone, cidr in existing.node_subnet_cidrs.items():
        parsed = _range(cidr)
        if isinstance(parsed, Message):
            continue
        path = ("network", "existing", "node_subnet_cidrs", zone)
        if not isinstance(vpc, Message) and not parsed.subnet_of(vpc):
            yield warning(
                *path,
                what=f"{cidr} is outside vpc_cidr {vpc}",
                expected="a subnet inside it, or a secondary range of the VPC",
                fix="correct the range, or make sure that the VPC has a secondary one",
            )
        for other_zone, taken in subnet_ranges.items():
            if parsed.overlaps(taken):
                yield error(
                    *path,
                    what=f"{cidr} overlaps {taken}, the subnet of {other_zone}",
                    expected="subnets that lie apart",
                    fix="correct one of the two",
                )
        subnet_ranges[zone] = parsed


@rule("network")
def existing_subnets_are_described(plan: CommonPlan) -> Iterator[Finding]:
    """Every zone with an ID has a CIDR, every zone of the network a node subnet.

    A CIDR belongs to a zone with an ID.
    """
    network = plan.settings.network
    existing = plan.existing_vpc
    if existing is None:
        return
    ids, cidrs = existing.node_subnet_ids, existing.node_subnet_cidrs
    for zone in ids:
        if zone not in cidrs:
            yield error(
                "network",
                "existing",
                "node_subnet_ids",
                zone,
                what="has no entry in node_subnet_cidrs",
                expected="a CIDR for each node subnet",
                fix="add its CIDR",
            )
    for zone in cidrs:
        if zone not in ids:
            yield error(
                "network",
                "existing",
                "node_subnet_cidrs",
                zone,
                what="has no entry in node_subnet_ids",
                expected="a subnet for each CIDR",
                fix="add its subnet",
            )
    for zone in ids:
        if zone not in network.availability_zone_ids:
            yield error(
                "network",
                "existing",
                "node_subnet_ids",
                zone,
                what="is not one of network.availability_zone_ids",
                expected=f"one of {', '.join(network.availability_zone_ids)}",
                fix="correct the zone of the subnet, or add it there",
            )
    for zone, subnet in ids.items():
        if list(ids.values()).count(subnet) > 1:
            yield error(
                "network",
                "existing",
                "node_subnet_ids",
                zone,
                what=f"'{subnet}' stands for more than one zone",
                expected="a subnet for each zone",
                fix="correct the IDs",
            )


@rule("network", orchestrator="eks")
def control_plane_subnets_are_described(plan: Plan) -> Iterator[Finding]:
    """The control plane's subnets are different ones, at most one for each zone."""
    network, existing = plan.settings.network, plan.existing_vpc
    if existing is None:
        return
    for index, subnet in enumerate(existing.control_plane_subnet_ids):
        if subnet in existing.control_plane_subnet_ids[:index]:
            yield error(
                "network",
                "existing",
                "control_plane_subnet_ids",
                index,
                what=f"'{subnet}' is named twice",
                expected="each subnet once",
                fix="name another subnet",
            )
    if len(existing.control_plane_subnet_ids) > len(network.availability_zone_ids):
        yield error(
            "network",
            "existing",
            "control_plane_subnet_ids",
            what=f"{len(existing.control_plane_subnet_ids)} subnets for {len(network.availability_zone_ids)} zones",
            expected="one per zone, in the order of network.availability_zone_ids",
            fix="remove what is too much",
        )


@rule("network", orchestrator="eks")
def control_plane_has_its_own_subnets(plan: Plan) -> Iterator[Finding]:
    """EKS keeps addresses free in its subnets, and nodes take all that they find.

    https://docs.aws.amazon.com/eks/latest/best-practices/subnets.html
    """
    existing = plan.existing_vpc
    for index, subnet in enumerate(existing.control_plane_subnet_ids if existing else []):
        if existing and subnet in existing.node_subnet_ids.values():
            yield warning(
                "network",
                "existing",
                "control_plane_subnet_ids",
                index,
                what=(
                    f"'{subnet}' also carries nodes, which can take all of its addresses; EKS then updates no "
                    "control plane"
                ),
                expected="subnets of its own for the control plane",
                fix="name another subnet (/28 is enough)",
            )


@rule("network")
def zones_differ(plan: CommonPlan) -> Iterator[Finding]:
    """Zones are named once; EKS needs subnets in two different ones."""
    zones = plan.settings.network.availability_zone_ids
    for index, zone in enumerate(zones):
        if zone in zones[:index]:
            yield error(
                "network",
                "availability_zone_ids",
                index,
                what=f"'{zone}' is named twice",
                expected="two different zones",
                fix="name another zone",
            )


@rule("network", "region")
def zones_belong_to_the_region(plan: CommonPlan) -> Iterator[Finding]:
    """Zone IDs begin with their region's short form (`usw2` for us-west-2).

    https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html
    """
    region = plan.settings.region
    if region not in platform().regions:
        return  # the region is what is wrong
    prefix = zone_prefix_of(region)
    for index, zone in enumerate(plan.settings.network.availability_zone_ids):
        if zone.rpartition("-")[0] != prefix:
            yield error(
                "network",
                "availability_zone_ids",
                index,
                what=f"'{zone}' is not in {region}",
                expected=f"zone IDs that begin with {prefix}-",
                fix=f"did you mean '{prefix}-{zone.rpartition('-')[2]}'?",
            )


@rule("network", "eks")
def control_plane_zones_are_accepted(plan: Plan) -> Iterator[Finding]:
    """EKS takes no subnet for the control plane in a few zones.

    A new network has one in each of its zones; in an existing one those subnets stand in the first zones, in their
    order, and a later zone may hold nodes.
    https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html#cluster-subnets
    """
    if plan.existing_eks is not None:
        return
    network, refused = plan.settings.network, platform().refused_zone_ids
    zones = network.availability_zone_ids
    existing = plan.existing_vpc
    taken = zones if existing is None else zones[: len(existing.control_plane_subnet_ids)]
    for refusal in control_plane_zones(taken):
        if refusal.index is not None:
            index, zone = refusal.index, zones[refusal.index]
            advice = (
                "choose another zone of the Region"
                if existing is None
                else "name zones that have a control-plane subnet first, and use a subnet of another zone in "
                "network.existing.control_plane_subnet_ids"
            )
            yield error(
                "network",
                "availability_zone_ids",
                index,
                what=f"EKS takes no control-plane subnet in {zone}",
                expected=f"a zone other than {', '.join(refused)}",
                fix=advice,
            )


@rule("region")
def region_is_known(plan: CommonPlan) -> Iterator[Finding]:
    """A Region that botocore does not list is misspelled, or newer than this release and its instance types.

    https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html
    """
    region = plan.settings.region
    if region not in platform().regions:
        yield error(
            "region",
            what=f"'{region}' is no AWS Region known here",
            expected="a Region that botocore lists",
            fix=(
                f"{meant(region, platform().regions) or 'correct it.'} A Region that AWS has added since needs a newer "
                "release of this project"
            ),
        )


MOST_ZONES = {"us-east-1": 6, "us-west-2": 4, "ap-northeast-1": 4, "ap-northeast-2": 4, "ca-central-1": 4}
"""Highest number in the zone IDs of a Region, 3 in the others.
https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html"""
MOST_ANYWHERE = 6


@rule("network", "region")
def zones_exist_somewhere(plan: CommonPlan) -> Iterator[Finding]:
    """Zone IDs are numbered from 1; no Region has more than six, and most have three.

    https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html
    """
    region = plan.settings.region
    zone_count = MOST_ZONES.get(region, 3)
    for index, zone in enumerate(plan.settings.network.availability_zone_ids):
        number = int(zone.rpartition("az")[2])
        if not 1 <= number <= zone_count:
            report = warning if 1 <= number <= MOST_ANYWHERE else error
            yield report(
                "network",
                "availability_zone_ids",
                index,
                what=f"'{zone}' is not known in {region}",
                expected=f"az1 to az{zone_count}",
                fix="correct it; `aws ec2 describe-availability-zones` lists them",
            )


@rule("region")
def region_has_clusters(plan: CommonPlan) -> Iterator[Finding]:
    """Synth refuses `AWS::SageMaker::Cluster` in a region where its data does not have the resource type.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-sagemaker-cluster.html
    """
    region = plan.settings.region
    if region in regions.without_cluster():
        yield error(
            "region",
            what=f"CloudFormation has no HyperPod clusters (AWS::SageMaker::Cluster) in {region}",
            expected=f"one of {', '.join(regions.regions())}",
            fix="choose one of them",
        )


@rule("network", "hyperpod")
def groups_stand_in_our_zones(plan: CommonPlan) -> Iterator[Finding]:
    """A group's zone is one that the network has a node subnet in (`OverrideVpcConfig` needs one)."""
    network = plan.settings.network
    zones = list(plan.existing_vpc.node_subnet_ids) if plan.existing_vpc else network.availability_zone_ids
    for index, group in groups(plan):
        if plan.zone(group) in zones:
            continue
        where = "network.existing.node_subnet_ids" if plan.existing_vpc else "network.availability_zone_ids"
        if group.availability_zone_id:
            yield error(
                *GROUPS,
                index,
                "availability_zone_id",
                what=f"'{group.availability_zone_id}' is not one of {where}",
                expected=f"one of {', '.join(zones)}",
                fix=meant(group.availability_zone_id, zones) or f"choose one of them, or add the zone to {where}",
            )
        else:
            yield error(
                *GROUPS,
                index,
                what=f"stands in the network's first zone, {plan.zone(group)}, which has no entry in {where}",
                expected=f"one of {', '.join(zones)}",
                fix="set availability_zone_id to one of them",
            )


@rule("network", "hyperpod", "instance_types", "ray")
def addresses_fit(plan: Plan) -> Iterator[Finding]:
    """Every node takes its pods' addresses from its subnet (81 for a P5), so a subnet bounds the number of nodes.

    A replacement starts before the lost node's addresses are free: leave room for one more node per group
    (warning).
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html
    """
    yield from addresses(plan)


def addresses(plan: CommonPlan) -> Iterator[Finding]:
    """Subnets that are too small for their nodes, or for one more of each group."""
    for zone, (prefix, room, path) in _rooms(plan).items():
        zone_groups = [(index, group) for index, group in known_groups(plan) if plan.zone(group) == zone]
        nodes = {index: plan.most_nodes(group) for index, group in zone_groups}
        need = sum(nodes[index] * plan.addresses(group) for index, group in zone_groups)
        spare = sum(plan.addresses(group) for index, group in zone_groups if nodes[index])
        if not zone_groups or need + spare <= room:
            continue
        index, largest = max(zone_groups, key=lambda pair: nodes[pair[0]] * plan.addresses(pair[1]))
        per_node, many = plan.addresses(largest), nodes[index]
        by = " by max_replicas" if largest in plan.scaled_groups else ""
        says = f"the nodes in {zone} take {need:,} addresses ({many} × {per_node} of {largest.type}{by}"
        says += (
            f" and {len(zone_groups) - 1} more group{'s' if len(zone_groups) > 2 else ''})"
            if len(zone_groups) > 1
            else ")"
        )
        has = f"the subnet there, a /{prefix}, has {room:,}"
        if need > room:
            fewer = max(0, (room - (need - many * per_node)) // per_node)
            fewer_nodes = "lower max_replicas of its workers" if largest in plan.scaled_groups else "lower count"
            fix = fewer_nodes if plan.existing_vpc else f"{fewer_nodes}, widen network.cidr or lower node_subnet_prefix"
            yield error(
                *GROUPS, index, "count", what=f"{says}; {has}", expected=f"at most {fewer} nodes of this group", fix=fix
            )
        else:
            yield warning(
                *path,
                what=f"{says}; {has}",
                expected=f"{spare} more, for one replacement per group before a lost node's addresses are free",
                fix="use a larger subnet, or fewer nodes",
            )


def _rooms(plan: CommonPlan) -> dict[str, tuple[int, int, tuple[str, ...]]]:
    """Prefix length and free addresses of each zone's node subnet, and the setting that decides them."""
    network = plan.settings.network
    if isinstance(network, ExistingNodeNetwork):
        rooms: dict[str, tuple[int, int, tuple[str, ...]]] = {}
        for zone, cidr in network.existing.node_subnet_cidrs.items():
            parsed = _range(cidr)
            if not isinstance(parsed, Message):
                size = max(0, parsed.num_addresses - RESERVED_ADDRESSES)
                rooms[zone] = (parsed.prefixlen, size, ("network", "existing", "node_subnet_cidrs", zone))
        return rooms
    assert isinstance(network, NewNetwork)  # noqa: S101  (narrowing only)
    parsed = _range(network.cidr)
    if isinstance(parsed, Message) or not 16 <= parsed.prefixlen <= 20:
        return {}
    prefix = plan.node_subnet_prefix
    path = ("network", "node_subnet_prefix" if network.node_subnet_prefix else "cidr")
    return dict.fromkeys(network.availability_zone_ids, (prefix, 2 ** (32 - prefix) - RESERVED_ADDRESSES, path))


@rule("network")
def subnets_fit_the_vpc(plan: CommonPlan) -> Iterator[Finding]:
    """The subnets of every slot are within the VPC, also those of zones that you add later.

    A slot has one node subnet, one for the control plane and, with NAT gateways, a public one.
    """
    network = plan.new_network
    parsed = _range(network.cidr) if network else None
    if network is None or parsed is None or isinstance(parsed, Message) or not 16 <= parsed.prefixlen <= 20:
        return
    if plan.vpc_addresses_needed > parsed.num_addresses:
        fits = next(p for p in range(17, 33) if network.zone_slots * (2 ** (32 - p) + 64) <= parsed.num_addresses)
        yield error(
            "network",
            "node_subnet_prefix",
            what=(
                f"{network.zone_slots} node subnets (zone_slots) of /{plan.node_subnet_prefix} and the small ones "
                f"beside them need {plan.vpc_addresses_needed:,} addresses"
            ),
            expected=f"at most the {parsed.num_addresses:,} of {network.cidr}",
            fix=f"set node_subnet_prefix: {fits}, the largest that fits",
        )


@rule("network")
def zones_have_slots(plan: CommonPlan) -> Iterator[Finding]:
    """Every zone takes a slot of the VPC's range."""
    network = plan.new_network
    if network is not None and len(network.availability_zone_ids) > network.zone_slots:
        yield error(
            "network",
            "zone_slots",
            what=f"{network.zone_slots} slots for {len(network.availability_zone_ids)} zones",
            expected=f"{len(network.availability_zone_ids)} to 4",
            fix="raise it in a new environment. The subnets of a deployed one move with it: remove a zone instead",
        )


@rule("network")
def nat_gateways_have_zones(plan: CommonPlan) -> Iterator[Finding]:
    """One NAT gateway per zone is the most that helps; a closed network has none."""
    network = plan.settings.network
    if (
        isinstance(network, NewNetwork)
        and not network.closed
        and network.nat_gateways > len(network.availability_zone_ids)
    ):
        yield error(
            "network",
            "nat_gateways",
            what=f"{network.nat_gateways} gateways for {len(network.availability_zone_ids)} zones",
            expected="at most one per zone",
            fix=f"set {len(network.availability_zone_ids)}",
        )


@rule("network")
def settings_have_effect(plan: CommonPlan) -> Iterator[Finding]:
    """Settings of the new VPC that a closed one makes void."""
    network = plan.settings.network
    written = network.model_fields_set
    if network.closed and "nat_gateways" in written:
        yield warning(
            "network",
            "nat_gateways",
            what="has no effect with egress 'closed', which creates no NAT gateway",
            expected="egress 'nat', or no nat_gateways",
            fix="remove nat_gateways",
        )
