"""Rules about zones and the VPC as the account has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import needs
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, warning
from hyperpod_ray.core.model import ExistingSubnets, ExistingVpc
from hyperpod_ray.core.yaml_source import Path

Json = dict[str, Any]
LEAST_FREE = 6
"""Free addresses that EKS requires in each subnet of its control plane (16 are better).
https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html#network-requirements-subnets"""
VPC = ("network", "existing", "vpc_id")
CONTROL_PLANE = ("network", "existing", "control_plane_subnet_ids")


def zone_ids(account: Account) -> dict[str, str]:
    """Zone name to zone ID, which differs between accounts: zones that this account can use."""
    answer = account.call("ec2", "describe_availability_zones")
    return {
        zone["ZoneName"]: zone["ZoneId"]
        for zone in answer["AvailabilityZones"]
        if zone.get("State", "available") == "available" and zone.get("OptInStatus") != "not-opted-in"
    }


@rule("network", "region", needs="account", title="zones")
def zones_exist(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """Every Availability Zone ID of the file is one that the account can use.

    https://docs.aws.amazon.com/ram/latest/userguide/working-with-az-ids.html
    """
    offered = set(zone_ids(account).values())
    planned = plan.settings.network.availability_zone_ids
    listed = account.call("ec2", "describe_availability_zones")["AvailabilityZones"]
    states = {zone["ZoneId"]: zone.get("State", "") for zone in listed if zone.get("OptInStatus") != "not-opted-in"}
    impaired = [zone for zone in planned if zone not in offered and zone in states]
    for zone in impaired:
        index = planned.index(zone)
        yield warning(
            "network",
            "availability_zone_ids",
            index,
            what=f"{zone} is {states[zone]} at this moment",
            expected="an available zone",
            fix="wait (https://health.aws.amazon.com), or name another zone",
        )
    offered |= set(impaired)
    absent = [(index, zone) for index, zone in enumerate(planned) if zone not in offered]
    for index, zone in absent:
        yield error(
            "network",
            "availability_zone_ids",
            index,
            what=f"{zone}: not a zone of this account in {plan.settings.region}",
            expected=", ".join(sorted(offered)),
            fix="correct network.availability_zone_ids",
        )
    if not absent:
        yield fine("network", what=", ".join(planned))


@rule("network", needs="account", title="VPC")
def vpc_exists(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """The VPC that the file names is there, has that range, and resolves names as EKS's private endpoint needs.

    https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html#network-requirements-vpc
    """
    existing = plan.existing_vpc
    if existing is None:
        yield skipped("the Network stack creates it")
        return
    answer = found(account, "ec2", "describe_vpcs", VpcIds=[existing.vpc_id])
    if answer is None or not answer["Vpcs"]:
        message = f"{existing.vpc_id}: no such VPC in {plan.settings.account}, {plan.settings.region}"
        yield error(
            *VPC,
            what=message,
            expected="a VPC of this account and Region",
            fix="correct network.existing.vpc_id, region or account",
        )
        return
    vpc, findings = answer["Vpcs"][0], []
    if vpc.get("State", "available") != "available":
        findings.append(
            error(
                *VPC,
                what=f"{existing.vpc_id} is {vpc['State']}",
                expected="available",
                fix="wait until it is available",
            )
        )
    if vpc["CidrBlock"] != existing.vpc_cidr:
        fix = f"set network.existing.vpc_cidr: {vpc['CidrBlock']}"
        findings.append(
            error(
                "network",
                "existing",
                "vpc_cidr",
                what=f"{existing.vpc_id} has {vpc['CidrBlock']}",
                expected=f"{existing.vpc_cidr}, as the file has it",
                fix=fix,
            )
        )
    for attribute, member in (("enableDnsSupport", "EnableDnsSupport"), ("enableDnsHostnames", "EnableDnsHostnames")):
        described = account.call("ec2", "describe_vpc_attribute", VpcId=existing.vpc_id, Attribute=attribute)
        if not described[member]["Value"]:
            option = "--enable-dns-support" if member == "EnableDnsSupport" else "--enable-dns-hostnames"
            fix = f"aws ec2 modify-vpc-attribute --vpc-id {existing.vpc_id} {option}"
            findings.append(
                error(
                    *VPC,
                    what=f"{member} of {existing.vpc_id} is off",
                    expected="it on: EKS's private endpoint and FSx need it",
                    fix=fix,
                )
            )
    yield from findings or [fine(*VPC, what=f"{existing.vpc_id}, {vpc['CidrBlock']}")]


@rule("network", "hyperpod", "instance_types", eks=("ray", "eks"), needs="account", title="subnets")
def subnets_exist(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """Subnets of both kinds are there: in the VPC, the zone and the range that the file gives, with free addresses.

    https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
    """
    existing = plan.existing_vpc
    if existing is None:
        yield skipped("the Network stack creates them")
        return
    control_plane = existing.control_plane_subnet_ids if isinstance(existing, ExistingVpc) else []
    subnet_ids = [*existing.node_subnet_ids.values(), *control_plane]
    # by a filter: with SubnetIds one missing subnet hides the others
    listed = account.pages("ec2", "describe_subnets", "Subnets", Filters=[{"Name": "subnet-id", "Values": subnet_ids}])
    subnets = {subnet["SubnetId"]: subnet for subnet in listed}
    for zone, identifier in existing.node_subnet_ids.items():
        path: Path = ("network", "existing", "node_subnet_ids", zone)
        findings = list(_place(plan, existing, path, identifier, subnets.get(identifier), zone=zone))
        if (subnet := subnets.get(identifier)) is None or findings:
            yield from findings
            continue
        cidr = existing.node_subnet_cidrs.get(zone, "")
        if subnet["CidrBlock"] != cidr:
            fix = f"set network.existing.node_subnet_cidrs.{zone}: {subnet['CidrBlock']}"
            yield error(
                "network",
                "existing",
                "node_subnet_cidrs",
                zone,
                what=f"{identifier} has {subnet['CidrBlock']}",
                expected=f"{cidr}, as the file has it",
                fix=fix,
            )
        needed, free = plan.node_addresses(zone), subnet["AvailableIpAddressCount"]
        message = f"{identifier} in {zone}: {needed} addresses needed, {free} free"
        if needed <= free:
            yield fine(*path, what=message)
        elif _deployed_here(plan, account):
            yield fine(*path, what=f"{message}, which counts the nodes that are there")
        else:
            yield error(*path, what=message, expected=f"{needed} free", fix="use a larger subnet, or fewer nodes")
    if isinstance(existing, ExistingVpc):
        yield from _control_plane(plan, account, existing, subnets)


def _control_plane(
    plan: CommonPlan, account: Account, existing: ExistingVpc, subnets: dict[str, Json]
) -> Iterator[Finding]:
    """Subnets of the control plane, which stand in the first zones; rules of files judge the zones themselves."""
    zones = plan.settings.network.availability_zone_ids
    for index, (zone, identifier) in enumerate(zip(zones, existing.control_plane_subnet_ids, strict=False)):
        path: Path = (*CONTROL_PLANE, index)
        findings = list(_place(plan, existing, path, identifier, subnets.get(identifier), zone=zone))
        yield from findings
        if not findings:
            subnet = subnets[identifier]
            if subnet["AvailableIpAddressCount"] < LEAST_FREE and not _deployed_here(plan, account):
                yield error(
                    *path,
                    what=f"{identifier} has {subnet['AvailableIpAddressCount']} free addresses",
                    expected=f"{LEAST_FREE} for EKS's interfaces",
                    fix="use a larger subnet",
                )
            else:
                yield fine(*path, what=f"{identifier} in {zone}")


def _place(
    plan: CommonPlan, existing: ExistingSubnets, path: Path, identifier: str, subnet: Json | None, *, zone: str
) -> Iterator[Finding]:
    """What is wrong with where a subnet is."""
    setting = ".".join(str(part) for part in path if not isinstance(part, int))
    if subnet is None:
        message = f"{identifier}: no such subnet in {plan.settings.account}, {plan.settings.region}"
        yield error(*path, what=message, expected="a subnet of this account and Region", fix=f"correct {setting}")
        return
    if subnet["VpcId"] != existing.vpc_id:
        yield error(
            *path,
            what=f"{identifier} is in {subnet['VpcId']}",
            expected=f"{existing.vpc_id}, as the file has it",
            fix=f"correct {setting} or network.existing.vpc_id",
        )
    actual = subnet.get("AvailabilityZoneId", zone)
    if actual != zone:
        yield error(
            *path, what=f"{identifier} is in {actual}", expected=f"{zone}, as the file has it", fix=f"correct {setting}"
        )
    if subnet.get("State", "available") != "available":
        yield error(
            *path, what=f"{identifier} is {subnet['State']}", expected="available", fix="wait until it is available"
        )


@rule("network", needs="account", title="routes")
def nodes_have_a_way_out(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """Nodes have no public address: they need a NAT gateway or endpoints, and an internet gateway is neither.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html#sagemaker-hyperpod-prerequisites-optional-vpc
    """
    existing = plan.existing_vpc
    if existing is None:
        yield skipped("the Network stack creates them")
        return
    filters = [{"Name": "vpc-id", "Values": [existing.vpc_id]}]
    tables = account.pages("ec2", "describe_route_tables", "RouteTables", Filters=filters)
    by_subnet = {link["SubnetId"]: table for table in tables for link in table["Associations"] if link.get("SubnetId")}
    main = next((table for table in tables if any(link.get("Main") for link in table["Associations"])), None)
    for zone, identifier in existing.node_subnet_ids.items():
        path = ("network", "existing", "node_subnet_ids", zone)
        table = by_subnet.get(identifier, main)
        if table is None:
            continue  # the subnet is not of this VPC: another rule says so
        out = [route for route in table["Routes"] if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
        if any(str(route.get("GatewayId", "")).startswith("igw-") for route in out):
            yield error(
                *path,
                what=f"{identifier} routes to an internet gateway, and nodes have no public address",
                expected="a private subnet",
                fix="name a private subnet, with a NAT gateway or VPC endpoints",
            )
        elif any(route.get("State") == "blackhole" for route in out):
            yield error(
                *path,
                what=f"the default route of {identifier} leads nowhere",
                expected="a target that is there",
                fix="repair its route table",
            )
        elif not out and _only_local(table) and (missing := _without_endpoint(plan, account, existing)):
            yield error(
                *path,
                what=f"{identifier} has no route out, and {existing.vpc_id} has no endpoint for {', '.join(missing)}",
                expected="a way to every AWS service that nodes call",
                fix=f"create the endpoints (`hyperpod-ray env needs {plan.name}` lists them), or a default route",
            )
        elif not out:
            yield warning(
                *path,
                what=f"{identifier} has no default route",
                expected="one, or a VPC endpoint for each service that nodes call",
                fix=f"create endpoints for what `hyperpod-ray env needs {plan.name}` lists, or a default route",
            )
        else:
            yield fine(*path, what=f"{identifier} has a default route")


def _only_local(table: Json) -> bool:
    """Whether a route table leads nowhere but through the VPC itself and its gateway endpoints."""
    return all(str(route.get("GatewayId", "")).startswith(("local", "vpce-")) for route in table["Routes"])


def _without_endpoint(plan: CommonPlan, account: Account, existing: ExistingSubnets) -> list[str]:
    """Services that nodes call and that the VPC has no endpoint for."""
    filters = [{"Name": "vpc-id", "Values": [existing.vpc_id]}]
    listed = account.pages("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=filters)
    endpoints = {endpoint["ServiceName"].partition(f".{plan.settings.region}.")[2] for endpoint in listed}
    return sorted({call.endpoint for call in needs.calls(plan)} - endpoints)


def _deployed_here(plan: CommonPlan, account: Account) -> bool:
    """Whether the environment's own nodes take addresses of these subnets already."""
    cluster = found(account, "sagemaker", "describe_cluster", ClusterName=plan.settings.hyperpod.cluster_name)
    subnets = ((cluster or {}).get("VpcConfig") or {}).get("Subnets", [])
    existing = plan.existing_vpc
    return existing is not None and bool(set(subnets) & set(existing.node_subnet_ids.values()))
