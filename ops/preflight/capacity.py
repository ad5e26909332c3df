"""Checks of capacity: zones, instance types, quotas, training plans."""

from __future__ import annotations

from collections import Counter
from typing import Any

from core import names
from core.plan import read_data
from ops.clients import Json, Target
from ops.output import clock, now
from ops.preflight.check import Outcome, failed, ok, skipped, unknown, warning


def zones(target: Target) -> list[Outcome]:
    """Every availability zone ID of the file exists in this account's region."""
    known = set(_zone_ids(target).values())
    wanted = target.plan.settings.network.availability_zone_ids
    wrong = [zone for zone in wanted if zone not in known]
    if wrong:
        return [
            failed(
                f"{', '.join(wrong)} not in this region; it has {', '.join(sorted(known))}",
                "correct network.availability_zone_ids",
            )
        ]
    return [ok(", ".join(wanted))]


def _zone_ids(target: Target) -> dict[str, str]:
    """Zone name to zone ID, which differs between accounts."""
    answer = target.aws.call("ec2", "describe_availability_zones")
    return {zone["ZoneName"]: zone["ZoneId"] for zone in answer["AvailabilityZones"]}


def offered(target: Target) -> list[Outcome]:
    """EC2 offers the underlying instance type in the zone of each group.

    HyperPod has no such listing of its own; a type that EC2 does not have in a zone HyperPod cannot have there either.
    """
    found: list[Outcome] = []
    for kind, zone in sorted({(g.type, target.plan.zone(g)) for g in target.plan.settings.hyperpod.instance_groups}):
        answer = target.aws.call(
            "ec2",
            "describe_instance_type_offerings",
            LocationType="availability-zone-id",
            Filters=[{"Name": "instance-type", "Values": [kind.removeprefix("ml.")]}],
        )
        places = sorted(item["Location"] for item in answer["InstanceTypeOfferings"])
        if zone in places:
            found.append(ok(f"{kind} in {zone}"))
        else:
            found.append(
                failed(
                    f"{kind} is not offered in {zone}",
                    f"use {', '.join(places)}" if places else "use another type or region",
                )
            )
    return found


def quotas(target: Target) -> list[Outcome]:
    """Quotas against what the file asks plus what other clusters have, by their names in `catalogue/quotas.yaml`."""
    plan, groups = target.plan, target.plan.settings.hyperpod.instance_groups
    listed, values = read_data("quotas.yaml"), _values(target, "sagemaker")
    of_sagemaker = listed["sagemaker"]
    used = _used_elsewhere(target)
    # a training plan brings its own capacity
    ours = [group for group in groups if group.training_plan_arn is None]
    asked: Counter[str] = Counter()
    spot: Counter[str] = Counter()
    for group in ours:
        (spot if group.capacity == "spot" else asked)[group.type] += group.count
    found = [
        _enough(values, of_sagemaker["instances"].format(type=kind), asked[kind], used[kind]) for kind in sorted(asked)
    ]
    found += [_enough(values, of_sagemaker["spot_instances"].format(type=kind), spot[kind], 0) for kind in sorted(spot)]
    total = sum(group.count for group in groups)
    found.append(_enough(values, of_sagemaker["cluster"], total, 0))
    found.append(_enough(values, of_sagemaker["clusters"], total, used.total()))
    if spot:
        found.append(_enough(values, of_sagemaker["spot_clusters"], spot.total(), 0))
    volume = max((group.data_volume_gib or 0 for group in groups), default=0)
    if volume:
        found.append(_enough(values, of_sagemaker["volume"], volume, 0))
    if plan.new_file_system is not None:
        capacity = plan.new_file_system.capacity_gib
        found.append(_enough(_values(target, "fsx"), listed["fsx"]["capacity"], capacity, 0, optional=True))
    if plan.new_network is not None:
        vpcs = len(target.aws.pages("ec2", "describe_vpcs", "Vpcs"))
        mine = any(stack.status for stack in [_network_stack(target)])
        found.append(_enough(_values(target, "vpc"), listed["vpc"]["vpcs"], 0 if mine else 1, vpcs, optional=True))
    return found


def _network_stack(target: Target) -> Any:
    from ops.gather import stack

    return stack(target, names.stack_name(target.name, names.NETWORK_STACK))


def _values(target: Target, service: str) -> dict[str, float]:
    """Quotas by name: as applied to the account, else AWS's default."""
    values: dict[str, float] = {}
    for operation in ("list_aws_default_service_quotas", "list_service_quotas"):
        for quota in target.aws.pages("service-quotas", operation, "Quotas", ServiceCode=service):
            values[quota["QuotaName"]] = quota["Value"]
    return values


def _used_elsewhere(target: Target) -> Counter[str]:
    """Instances by type that other HyperPod clusters of the region have: they share the quota."""
    own = target.plan.settings.hyperpod.cluster_name
    used: Counter[str] = Counter()
    for cluster in target.aws.pages("sagemaker", "list_clusters", "ClusterSummaries"):
        if cluster["ClusterName"] == own:
            continue
        nodes = target.aws.pages(
            "sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=cluster["ClusterName"]
        )
        used.update(node["InstanceType"] for node in nodes)
    return used


def _enough(values: dict[str, float], name: str, asked: float, used: float, *, optional: bool = False) -> Outcome:
    if name not in values:
        return (
            skipped(f"no quota is called '{name}'")
            if optional
            else unknown(f"no quota is called '{name}'", "look in the Service Quotas console")
        )
    quota = values[name]
    text = f"{name}: {asked:g} asked" + (f" and {used:g} used by others" if used else "") + f", {quota:g} allowed"
    if asked + used > quota:
        return failed(
            text,
            f"ask for {asked + used:g} in the Service Quotas console (days for accelerated types), or lower the count",
        )
    return ok(text)


def training_plans(target: Target) -> list[Outcome]:
    """Zone, type, count and dates of the training plans that groups draw from."""
    groups = [group for group in target.plan.settings.hyperpod.instance_groups if group.training_plan_arn]
    if not groups:
        return [skipped("no group names one")]
    names = _zone_ids(target)
    found: list[Outcome] = []
    for group in groups:
        plan = target.aws.call(
            "sagemaker", "describe_training_plan", TrainingPlanName=str(group.training_plan_arn).rpartition("/")[2]
        )
        wrong = _training_plan(plan, kind=group.type, zone=target.plan.zone(group), count=group.count, zone_ids=names)
        label = f"group '{group.name}', plan {plan['TrainingPlanName']}"
        found += [failed(f"{label}: {text}", "choose another plan, or change the group to fit it") for text in wrong]
        starts = plan.get("StartTime")
        if not wrong and starts and starts > now():
            found.append(warning(f"{label} begins at {clock(starts)}: nodes come then"))
        elif not wrong:
            found.append(ok(f"{label}: {plan['Status']}"))
    return found


def _training_plan(plan: Json, *, kind: str, zone: str, count: int, zone_ids: dict[str, str]) -> list[str]:
    """What does not fit."""
    wrong = []
    if plan["Status"] not in ("Active", "Scheduled"):
        wrong.append(f"it is {plan['Status']}")
    if plan.get("TargetResources") and "hyperpod-cluster" not in plan["TargetResources"]:
        wrong.append(f"it is for {', '.join(plan['TargetResources'])}, not for HyperPod")
    parts = plan.get("ReservedCapacitySummaries", [])
    if parts and not any(part["InstanceType"] == kind for part in parts):
        wrong.append(f"it holds {', '.join(sorted({part['InstanceType'] for part in parts}))}, not {kind}")
    places = {zone_ids.get(part.get("AvailabilityZone", ""), part.get("AvailabilityZone", "")) for part in parts} - {""}
    if places and zone not in places:
        wrong.append(f"it is in {', '.join(sorted(places))}, the group in {zone}")
    total = plan.get("TotalInstanceCount")
    if total is not None and total < count:
        wrong.append(f"it holds {total} instances, the group asks for {count}")
    ends = plan.get("EndTime")
    if ends and ends < now():
        wrong.append(f"it ended at {clock(ends)}")
    return wrong
