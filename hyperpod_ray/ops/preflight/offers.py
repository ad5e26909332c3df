"""`capacity`: what AWS offers of training plans for the groups of an environment, and of extensions of their plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import meant
from hyperpod_ray.core.model import NodeGroup
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray_rules import data, training_plan

MOST_INSTANCES = 256
"""`InstanceCount` of SearchTrainingPlanOfferings at most."""
HOURS = 24
"""`DurationHours` of a new training plan, where none are given."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is searched for: hours, and the days between which they lie. None: any, and `HOURS` of a new plan."""

    hours: int | None = None
    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One offering, or one extension of a training plan that a group has."""

    group: str
    id: str
    instance_type: str
    instances: int
    zone: str
    """Availability Zone ID; as AWS names the zone where the account does not say its ID."""
    in_zone: bool
    """Whether it is in the group's zone."""
    start: datetime | None
    end: datetime | None
    hours: int
    fee: str
    extends: bool


def run(target: AnyTarget, wish: Wish, *, group: str = "", form: Format) -> int:
    """List offers for each group whose type training plans have. Nothing is bought.

    Args:
        target: The environment.
        wish: Hours and days.
        group: Only for this group.
        form: Of the output.

    Returns:
        3 where a group has no offer in its zone.

    Raises:
        OpsError: There is no such group, or none that a training plan can have.
    """
    groups = _groups(target.plan, group)
    zones = {
        zone["ZoneName"]: zone["ZoneId"]
        for zone in target.aws.call("ec2", "describe_availability_zones")["AvailabilityZones"]
    }
    offers = [offer for chosen in groups for offer in _offers(target, chosen, wish, zones)]
    fitting = {offer.group for offer in offers if offer.in_zone}
    without = [chosen.name for chosen in groups if chosen.name not in fitting]
    if form is Format.json:
        output.write_json("capacity", {"environment": target.name, "offers": offers, "without": without})
    else:
        _show(offers, form)
    for chosen in groups:
        if chosen.name in without:
            output.log(f"no offer for group '{chosen.name}' in {target.plan.zone(chosen)}; search other hours or days")
    for extends in sorted({offer.extends for offer in offers if offer.in_zone}):
        output.log(
            "buy one: aws sagemaker extend-training-plan --training-plan-extension-offering-id OFFER"
            if extends
            else "buy one: aws sagemaker create-training-plan --training-plan-name NAME "
            "--training-plan-offering-id OFFER, then set training_plan_arn of the group"
        )
    return CONDITION_FALSE if without else OK


def _groups(plan: CommonPlan, name: str) -> list[NodeGroup]:
    names = [group.name for group in plan.groups]
    if name and name not in names:
        raise OpsError(
            f"--group: '{name[:63]}'",
            expected=f"one of {', '.join(names)}",
            fix=meant(name, names) or f"hyperpod-ray env show {plan.name}",
            code=BAD_USE,
        )
    sold = data.training_plan_types()
    by_server = data.ultraservers()
    chosen = [
        group
        for group in plan.groups
        if group.type in sold
        and group.type not in by_server
        and 0 < group.count <= MOST_INSTANCES
        and name in ("", group.name)
    ]
    if not chosen:
        types = ", ".join(name for name in sold if name not in by_server)
        raise OpsError(
            f"{f'group {name!r}' if name else plan.name}: no instances that a training plan can be searched for",
            expected=f"a group with 1 to {MOST_INSTANCES} of {types}",
            fix="search for UltraServers and for more instances in the SageMaker console",
            code=BAD_USE,
        )
    return chosen


def _offers(target: AnyTarget, group: NodeGroup, wish: Wish, zones: dict[str, str]) -> Iterator[Offer]:
    zone = target.plan.zone(group)
    if group.training_plan_arn:
        # https://docs.aws.amazon.com/sagemaker/latest/dg/search-extension-offerings-api-cli-sdk.html
        asked: dict[str, Any] = {} if wish.hours is None else {"DurationHours": wish.hours}
        answer = target.aws.call(
            "sagemaker", "search_training_plan_offerings", TrainingPlanArn=group.training_plan_arn, **asked
        )
        for extension in answer.get("TrainingPlanExtensionOfferings", []):
            zone_name = extension.get("AvailabilityZone", "")
            zone_id = zones.get(zone_name, zone_name)
            yield Offer(
                group=group.name, id=extension["TrainingPlanExtensionOfferingId"], instance_type=group.type,
                instances=group.count, zone=zone_id, in_zone=zone_id in ("", zone),
                start=extension.get("StartDate"), end=extension.get("EndDate"),
                hours=int(extension.get("DurationHours") or 0), fee=_fee(extension), extends=True,
            )  # fmt: skip
        return
    days: dict[str, Any] = {"StartTimeAfter": wish.after, "EndTimeBefore": wish.before}
    answer = target.aws.call(
        "sagemaker", "search_training_plan_offerings", InstanceType=group.type, InstanceCount=group.count,
        DurationHours=wish.hours or HOURS, TargetResources=[training_plan.TARGET],
        **{name: day for name, day in days.items() if day is not None},
    )  # fmt: skip
    for offering in answer["TrainingPlanOfferings"]:
        parts = offering.get("ReservedCapacityOfferings") or [{}]
        zone_names = [part.get("AvailabilityZone", "") for part in parts]
        located = [zones.get(zone_name, zone_name) for zone_name in zone_names]
        yield Offer(
            group=group.name, id=offering["TrainingPlanOfferingId"],
            instance_type=parts[0].get("InstanceType", group.type),
            instances=min(int(part.get("InstanceCount", group.count)) for part in parts),
            zone=", ".join(dict.fromkeys(located)), in_zone=all(zone_name == zone for zone_name in located),
            start=min((part["StartTime"] for part in parts if part.get("StartTime")), default=None),
            end=max((part["EndTime"] for part in parts if part.get("EndTime")), default=None),
            hours=int(offering.get("DurationHours") or 0), fee=_fee(offering), extends=False,
        )  # fmt: skip


def _fee(offering: dict[str, Any]) -> str:
    return f"{offering['UpfrontFee']} {offering.get('CurrencyCode', '')}".strip() if "UpfrontFee" in offering else ""


def _show(offers: list[Offer], form: Format) -> None:
    table = output.table("Group", "Offer", ">Instances", "Zone", "=From (UTC)", "=To (UTC)", ">Hours", ">Upfront")
    for offer in offers:
        table.add_row(
            offer.group, ("extension " if offer.extends else "") + offer.id,
            f"{offer.instances} × {offer.instance_type}",
            offer.zone if offer.in_zone else f"{offer.zone}: not the group's" if offer.zone else "not said",
            *(f"{day:%Y-%m-%d %H:%M}" if day else "" for day in (offer.start, offer.end)), str(offer.hours), offer.fee,
        )  # fmt: skip
    output.console(form).print(table)
