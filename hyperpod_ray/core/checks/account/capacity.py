"""Rules about capacity that the account has: instance type offerings and training plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, timedelta
from typing import Any

from hyperpod_ray.core.checks.account.network import zone_ids
from hyperpod_ray.core.checks.lookup import GROUPS, groups
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, warning
from hyperpod_ray.core.today import now
from hyperpod_ray_rules import training_plan

Json = dict[str, Any]
SOON = timedelta(days=1)


@rule("hyperpod", "network", needs="account", title="instance types")
def types_are_offered(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """EC2 offers the instance type of each group in the group's zone.

    HyperPod has no such listing of its own. A type that EC2 does not have in a zone HyperPod cannot have there either.
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
    """
    checked = set()
    located = [
        (index, position, name, plan.zone(group))
        for index, group in groups(plan)
        for position, name in enumerate(group.types)
    ]
    for index, position, instance_type, zone in located:
        place = ("fallback_types", position - 1) if position else ("type",)
        if (instance_type, zone) in checked:
            continue
        checked.add((instance_type, zone))
        offers = account.pages(
            "ec2",
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone-id",
            Filters=[{"Name": "instance-type", "Values": [instance_type.removeprefix("ml.")]}],
        )
        places = sorted(offer["Location"] for offer in offers)
        if zone in places:
            yield fine(*GROUPS, index, *place, what=f"{instance_type} in {zone}")
        else:
            yield error(
                *GROUPS,
                index,
                *place,
                what=f"{instance_type} is not offered in {zone}",
                expected=f"one of {', '.join(places)}" if places else "a type that EC2 offers in this Region",
                fix=f"use {', '.join(places)}" if places else "use another type or Region",
            )


@rule("hyperpod", "network", needs="account", title="training plans")
def training_plans_fit(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """Training plans that groups draw from are there, and have the type, the zone, the instances and the days.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingPlan.html
    """
    drawing = [(index, group) for index, group in groups(plan) if group.training_plan_arn]
    if not drawing:
        yield skipped("no group names one")
        return
    zones = zone_ids(account)
    demands: Counter[str] = Counter()
    for _, group in drawing:
        demands[str(group.training_plan_arn)] += group.count
    for index, group in drawing:
        arn = str(group.training_plan_arn)
        path = (*GROUPS, index, "training_plan_arn")
        name = arn.rpartition("/")[2]
        description = found(account, "sagemaker", "describe_training_plan", TrainingPlanName=name)
        label = f"group '{group.name}', plan {name}"
        if description is None:
            message = f"{label}: no such training plan in {plan.settings.account}, {plan.settings.region}"
            yield error(
                *path,
                what=message,
                expected="a training plan of this account and Region",
                fix="correct training_plan_arn, or create the plan",
            )
            continue
        located = {**description, "ReservedCapacitySummaries": [_located(part, zones) for part in _parts(description)]}
        zone, count = plan.zone(group), demands[arn]
        refusals = list(training_plan.fits(located, instance_type=group.type, zone=zone, count=count, now=now()))
        fix = "choose another plan, or change the group to fit it"
        yield from (
            error(*path, what=f"{label}: {refusal.message}", expected=refusal.expected, fix=fix) for refusal in refusals
        )
        if not refusals:
            yield from _taken(plan, account, path, label=label, description=description, count=count)


def _taken(
    plan: CommonPlan, account: Account, path: tuple[str | int, ...], *, label: str, description: Json, count: int
) -> Iterator[Finding]:
    """A plan that fits: whether others hold its instances, and when it begins."""
    free = description.get("AvailableInstanceCount")
    if free is not None and free < count and not _own(plan, account, str(description["TrainingPlanArn"])):
        yield error(
            *path,
            what=f"{label}: {free} of its {description.get('TotalInstanceCount', '?')} instances are free",
            expected=f"{count} free",
            fix="release them, or choose another plan",
        )
        return
    ends = description.get("EndTime")
    if ends and ends - now() < SOON:
        yield warning(
            *path,
            what=f"{label} ends at {ends.astimezone(UTC):%Y-%m-%d %H:%M UTC}: its nodes are taken away then",
            expected=f"a plan that lasts for {SOON.days} day or more",
            fix="extend the plan, or choose another",
        )
    starts = description.get("StartTime")
    if starts and starts > now():
        yield warning(
            *path,
            what=f"{label} begins at {starts.astimezone(UTC):%Y-%m-%d %H:%M UTC}",
            expected="an active plan; nodes come when it begins",
            fix="wait until then, or choose another plan",
        )
    else:
        yield fine(*path, what=f"{label}: {description['Status']}")


def _own(plan: CommonPlan, account: Account, arn: str) -> bool:
    """Whether the environment's own cluster draws from the plan already."""
    clusters = account.pages("sagemaker", "list_clusters", "ClusterSummaries", TrainingPlanArn=arn)
    return any(cluster["ClusterName"] == plan.settings.hyperpod.cluster_name for cluster in clusters)


def _parts(description: Json) -> list[Json]:
    return description.get("ReservedCapacitySummaries") or []


def _located(part: Json, zones: dict[str, str]) -> Json:
    """A part of a plan with the ID of its zone: older answers have the zone's name only."""
    name = part.get("AvailabilityZone", "")
    return {**part, "AvailabilityZoneId": part.get("AvailabilityZoneId") or zones.get(name, name)}
