"""Rules about service quotas: what the file asks, with what others of the account use, against what is allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import names, needs
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, unknown
from hyperpod_ray.core.plan import Plan, read_data
from hyperpod_ray.core.requests import read_cache_gib
from hyperpod_ray_rules import fsx

Json = dict[str, Any]


@rule("hyperpod", needs="account", title="quotas")
def hyperpod_quotas_suffice(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """HyperPod's quotas: instances by type, per cluster and in all, and the size of volumes.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html#sagemaker-hyperpod-prerequisites-quotas
    """
    groups = plan.settings.hyperpod.instance_groups
    listed, values = read_data("quotas.yaml")["sagemaker"], quota_values(account, "sagemaker")
    used = _instances_elsewhere(plan, account)
    # a training plan brings its own capacity
    unreserved = [group for group in groups if group.training_plan_arn is None]
    on_demand: Counter[str] = Counter()
    spot: Counter[str] = Counter()
    for group in unreserved:
        for name in group.types:  # each may have to carry the group alone
            (spot if group.capacity == "spot" else on_demand)[name] += plan.most_nodes(group)
    for instance_type in sorted(on_demand):
        yield enough(
            values, listed["instances"].format(type=instance_type), on_demand[instance_type], used[instance_type]
        )
    for instance_type in sorted(spot):
        yield enough(values, listed["spot_instances"].format(type=instance_type), spot[instance_type], 0)
    total = sum(plan.most_nodes(group) for group in groups)
    yield enough(values, listed["cluster"], total, 0)
    yield enough(values, listed["clusters"], total, used.total())
    if spot:
        most = sum(plan.most_nodes(group) for group in unreserved if group.capacity == "spot")
        yield enough(values, listed["spot_clusters"], most, 0)
    if volume := max((group.data_volume_gib or 0 for group in groups), default=0):
        yield enough(values, listed["volume"], volume, 0)


@rule("network", "hyperpod", needs="account", title="network quotas")
def network_quotas_suffice(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """VPCs, Elastic IP addresses, NAT gateways and interface endpoints of a new network.

    https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
    """
    network = plan.new_network
    if network is None:
        yield skipped("the network exists")
        return
    listed, values = read_data("quotas.yaml"), quota_values(account, "vpc")
    vpcs = _others(plan, account.pages("ec2", "describe_vpcs", "Vpcs"))
    yield enough(values, listed["vpc"]["vpcs"], 1, len(vpcs))
    kept = [{"Name": "vpc-endpoint-type", "Values": ["Gateway"]}]
    gateways = _others(plan, account.pages("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=kept))
    yield enough(values, listed["vpc"]["gateway_endpoints"], 1, len(gateways))
    if network.closed:
        endpoints = len({call.endpoint for call in needs.calls(plan) if call.endpoint != "s3"})
        yield enough(values, listed["vpc"]["endpoints"], endpoints, 0)
        return
    internet = _others(plan, account.pages("ec2", "describe_internet_gateways", "InternetGateways"))
    yield enough(values, listed["vpc"]["internet_gateways"], 1, len(internet))
    addresses = _others(plan, account.call("ec2", "describe_addresses")["Addresses"])
    yield enough(quota_values(account, "ec2"), listed["ec2"]["addresses"], network.nat_gateways, len(addresses))
    state_filter = [{"Name": "state", "Values": ["pending", "available"]}]
    gateways = _others(plan, account.pages("ec2", "describe_nat_gateways", "NatGateways", Filter=state_filter))
    # which zone a gateway is in, its subnet says; the fullest zone decides
    subnets = sorted({gateway["SubnetId"] for gateway in gateways})
    zones: Counter[str] = Counter()
    if subnets:
        filters = [{"Name": "subnet-id", "Values": subnets}]
        answer = account.call("ec2", "describe_subnets", Filters=filters)["Subnets"]
        zone_of = {subnet["SubnetId"]: subnet.get("AvailabilityZoneId", "") for subnet in answer}
        zones.update(zone_of.get(gateway["SubnetId"], "") for gateway in gateways)
    used = max((zones[zone] for zone in network.availability_zone_ids[: network.nat_gateways]), default=0)
    yield enough(values, listed["vpc"]["nat_gateways"], 1, used)


@rule("eks", needs="account", title="EKS quotas")
def eks_quotas_suffice(plan: Plan, account: Account) -> Iterator[Finding]:
    """EKS clusters of the Region.

    https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
    """
    if plan.existing_eks is not None:
        yield skipped("the cluster exists")
        return
    clusters = account.pages("eks", "list_clusters", "clusters")
    used = sum(1 for name in clusters if str(name) != plan.eks_cluster_name)
    yield enough(quota_values(account, "eks"), read_data("quotas.yaml")["eks"]["clusters"], 1, used)


@rule("storage", needs="account", title="FSx quotas")
def fsx_quotas_suffice(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """Lustre file systems of the Region and their capacity together; of elastic ones throughput and read cache.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/limits.html
    """
    file_system = plan.new_file_system
    if plan.new_homes is not None:
        yield unknown(
            what="quotas of FSx for OpenZFS are not compared",
            expected="room for the home folders",
            fix="look in the Service Quotas console",
        )
    if file_system is None:
        if plan.new_homes is None:
            yield skipped("the file system exists")
        return
    listed, values = read_data("quotas.yaml")["fsx"], quota_values(account, "fsx")
    other_systems = [
        system
        for system in _others(plan, account.pages("fsx", "describe_file_systems", "FileSystems"))
        if (system.get("LustreConfiguration") or {}).get("DeploymentType") == "PERSISTENT_2"
    ]
    if plan.ssd_file_system is not None:
        used = sum(system.get("StorageCapacity", 0) for system in other_systems)
        yield enough(values, listed["capacity"], plan.ssd_file_system.capacity_gib, used)
    if plan.elastic_file_system is not None:
        others = [
            system["LustreConfiguration"]
            for system in other_systems
            if system.get("StorageType") == fsx.INTELLIGENT_TIERING
        ]
        throughput = sum(lustre.get("ThroughputCapacity", 0) for lustre in others)
        yield enough(values, listed["elastic_throughput"], plan.elastic_file_system.throughput_mbs, throughput)
        if cache := read_cache_gib(plan):
            yield enough(values, listed["elastic_read_cache"], cache, sum(map(fsx.read_cache_gib, others)))
    yield enough(values, listed["file_systems"], 1, len(other_systems))


def _others(plan: CommonPlan, items: list[Json]) -> list[Json]:
    """What does not carry the environment's tag: its own is counted with what the file asks."""
    return [
        resource
        for resource in items
        if {tag["Key"]: tag["Value"] for tag in resource.get("Tags", [])}.get(names.ENVIRONMENT_TAG) != plan.name
    ]


def quota_values(account: Account, service: str) -> dict[str, float]:
    """Quotas by name: as applied to the account, else AWS's default."""
    values: dict[str, float] = {}
    for operation in ("list_aws_default_service_quotas", "list_service_quotas"):
        for quota in account.pages("service-quotas", operation, "Quotas", ServiceCode=service):
            values[quota["QuotaName"]] = quota["Value"]
    return values


def _instances_elsewhere(plan: CommonPlan, account: Account) -> Counter[str]:
    """Instances by type that other HyperPod clusters of the Region have: they share the quota."""
    used: Counter[str] = Counter()
    for cluster in account.pages("sagemaker", "list_clusters", "ClusterSummaries"):
        if cluster["ClusterName"] == plan.settings.hyperpod.cluster_name:
            continue
        nodes = account.pages(
            "sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=cluster["ClusterName"]
        )
        used.update(node["InstanceType"] for node in nodes)
    return used


def enough(values: dict[str, float], name: str, demand: float, used: float) -> Finding:
    """Whether a quota covers what is asked beside what is used."""
    if name not in values:
        fix = "look in the Service Quotas console"
        return unknown(what=f"no quota is called '{name}'", expected="a quota of that name", fix=fix)
    quota = values[name]
    text = f"{name}: {demand:g} asked" + (f" and {used:g} used by others" if used else "") + f", {quota:g} allowed"
    if demand + used > quota:
        fix = (
            f"ask for {demand + used:g} in the Service Quotas console (days for accelerated types), or lower the count"
        )
        return error(what=text, expected=f"at most {quota:g}", fix=fix)
    return fine(what=text)
