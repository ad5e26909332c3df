"""What HyperPod refuses of a training plan for an instance group: its target, type, zone, count and dates.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/reserve-capacity-with-training-plans.html and the answer of
DescribeTrainingPlan, https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingPlan.html
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from hyperpod_ray_rules import data
from hyperpod_ray_rules.refusal import Json, Refusal

TARGET = "hyperpod-cluster"
USABLE = ("Active", "Scheduled")


def type_is_sold(instance_type: str) -> Iterator[Refusal]:
    """Training plans exist for some instance types (enum ReservedCapacityInstanceType)."""
    sold = data.training_plan_types()
    if instance_type not in sold:
        message = f"training plans do not exist for {instance_type}"
        yield Refusal(rule="type_is_sold", message=message, expected=f"one of {', '.join(sold)}", member="InstanceType")


def fits(plan: Json, *, instance_type: str, zone: str, count: int, now: datetime) -> Iterator[Refusal]:
    """What of a plan (the answer of DescribeTrainingPlan) does not fit a group.

    Args:
        plan: The answer. `AvailabilityZone` of its parts is a zone's ID or has one beside it.
        instance_type: The group's type.
        zone: Availability Zone ID of the group; empty: not known.
        count: Instances that groups ask of the plan together.
        now: The time.
    """
    if plan["Status"] not in USABLE:
        yield Refusal(
            rule="plan_is_usable", message=f"it is {plan['Status']}", expected="Active or Scheduled", member="Status"
        )
    if plan.get("TargetResources") and TARGET not in plan["TargetResources"]:
        message = f"it is for {', '.join(plan['TargetResources'])}, not for HyperPod"
        yield Refusal(rule="plan_is_for_hyperpod", message=message, expected=TARGET, member="TargetResources")
    parts = plan.get("ReservedCapacitySummaries") or []
    types = sorted({part["InstanceType"] for part in parts})
    if parts and instance_type not in types:
        message = f"it reserves {', '.join(types)}"
        yield Refusal(rule="plan_has_the_type", message=message, expected=instance_type, member="InstanceType")
    places = {part.get("AvailabilityZoneId") or part.get("AvailabilityZone") or "" for part in parts} - {""}
    if places and zone and zone not in places:
        message, expected = f"it is in {', '.join(sorted(places))}", f"{zone}, the zone of the group"
        yield Refusal(rule="plan_is_in_the_zone", message=message, expected=expected, member="AvailabilityZone")
    total = plan.get("TotalInstanceCount")
    if total is not None and total < count:
        message = f"it reserves {total} instances"
        yield Refusal(
            rule="plan_is_large_enough", message=message, expected=f"{count} or more", member="TotalInstanceCount"
        )
    ends = plan.get("EndTime")
    if isinstance(ends, datetime) and ends < now:
        message = f"it ended at {ends:%Y-%m-%d %H:%M UTC}"
        yield Refusal(rule="plan_goes_on", message=message, expected="a plan that has not ended", member="EndTime")


def can_be_extended(plan: Json) -> Iterator[Refusal]:
    """Only a plan that runs, or has not begun, is extended.

    https://docs.aws.amazon.com/sagemaker/latest/dg/search-extension-offerings-api-cli-sdk.html
    """
    if plan["Status"] not in USABLE:
        yield Refusal(
            rule="plan_can_be_extended", message=f"the training plan is {plan['Status']}",
            expected="Active or Scheduled", member="TrainingPlanArn",
        )  # fmt: skip


def extension_hours(hours: int) -> int | None:
    """How long an extension is for what is asked: whole days up to 14, whole weeks up to 26, or None.

    https://docs.aws.amazon.com/sagemaker/latest/dg/training-plan-extension.html
    """
    days = -(-hours // 24)
    days = days if days <= 14 else 7 * -(-days // 7)
    return 24 * days if days <= 182 else None
