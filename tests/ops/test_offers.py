"""`capacity`: what is asked of SageMaker for each group, and how its answer reads. Shapes are those of botocore."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.preflight import offers
from hyperpod_ray.ops.preflight.offers import Wish
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.ops_node_services_helpers import Aws
from tests.ops.world import environment_text
from tests.support.answers import operation_model

Json = dict[str, Any]
PLAN = "arn:aws:sagemaker:us-west-2:000000000001:training-plan/block"
FILE = environment_text(count=4).replace("ml.g5.8xlarge", "ml.p5.48xlarge")
EXTENDED = FILE.replace("ml.p5.48xlarge, count", f"ml.p5.48xlarge, training_plan_arn: '{PLAN}', count")
ZONES = {
    "AvailabilityZones": [
        {"ZoneName": f"us-west-2{letter}", "ZoneId": zone} for letter, zone in (("a", "usw2-az2"), ("b", "usw2-az1"))
    ]
}


def day(number: int) -> datetime:
    return datetime(2026, 12, number, 11, 30, tzinfo=UTC)


def part(zone: str, *, count: int = 4, start: int = 1, end: int = 3) -> Json:
    return {
        "InstanceType": "ml.p5.48xlarge", "InstanceCount": count, "AvailabilityZone": zone, "StartTime": day(start),
        "EndTime": day(end),
    }  # fmt: skip


def offering(name: str, *parts: Json, **more: Any) -> Json:
    usual: Json = {"TrainingPlanOfferingId": name, "TargetResources": ["hyperpod-cluster"], "DurationHours": 48}
    return {**usual, "UpfrontFee": "123.45", "CurrencyCode": "USD", "ReservedCapacityOfferings": [*parts], **more}


def extension(name: str, **more: Any) -> Json:
    usual: Json = {"TrainingPlanExtensionOfferingId": name, "AvailabilityZone": "us-west-2b", "DurationHours": 24}
    return {**usual, "StartDate": day(4), "EndDate": day(5), "UpfrontFee": "9", "CurrencyCode": "USD", **more}


def environment(text: str, **answer: Any) -> tuple[Target, Aws]:
    target = Target(parse(text, name="demo", path=Path("demo.yaml")))
    answers = {"TrainingPlanOfferings": [], **answer}
    account = Aws(describe_availability_zones=ZONES, search_training_plan_offerings=answers)
    target.aws = account  # type: ignore[assignment]
    return target, account


ZONE = environment(FILE)[0].plan.zone(environment(FILE)[0].plan.group("workers"))
HERE, ELSEWHERE = ("us-west-2b", "us-west-2a") if ZONE == "usw2-az1" else ("us-west-2a", "us-west-2b")
OTHER_ZONE = "usw2-az2" if ZONE == "usw2-az1" else "usw2-az1"
BUY = (
    "buy one: aws sagemaker create-training-plan --training-plan-name NAME --training-plan-offering-id OFFER, then set "
    "training_plan_arn of the group"
)
EXTEND = "buy one: aws sagemaker extend-training-plan --training-plan-extension-offering-id OFFER"
NONE = f"no offer for group 'workers' in {ZONE}; search other hours or days"
OFFERS: dict[str, tuple[str, Json, list[list[str]], list[str]]] = {
    "one in the zone": (
        FILE, {"TrainingPlanOfferings": [offering("tpo-1", part(HERE))]},
        [["workers", "tpo-1", "4 × ml.p5.48xlarge", ZONE, "2026-12-01 11:30", "2026-12-03 11:30", "48", "123.45 USD"]],
        [BUY],
    ),
    "two blocks: the least nodes, the first and the last day": (
        FILE, {"TrainingPlanOfferings": [
            offering("tpo-1", part(HERE, start=5, end=9), part(HERE, count=3, start=2, end=4)),
        ]},
        [["workers", "tpo-1", "3 × ml.p5.48xlarge", ZONE, "2026-12-02 11:30", "2026-12-09 11:30", "48", "123.45 USD"]],
        [BUY],
    ),
    "two blocks, one of which is elsewhere": (
        FILE, {"TrainingPlanOfferings": [offering("tpo-1", part(HERE), part(ELSEWHERE))]},
        [["workers", "tpo-1", "4 × ml.p5.48xlarge", f"{ZONE}, {OTHER_ZONE}: not the group's", "2026-12-01 11:30",
          "2026-12-03 11:30", "48", "123.45 USD"]],
        [NONE],
    ),
    "a zone that the account does not list": (
        FILE, {"TrainingPlanOfferings": [offering("tpo-1", part("us-west-2z"))]},
        [["workers", "tpo-1", "4 × ml.p5.48xlarge", "us-west-2z: not the group's", "2026-12-01 11:30",
          "2026-12-03 11:30", "48", "123.45 USD"]],
        [NONE],
    ),
    "one of which little is said": (
        FILE, {"TrainingPlanOfferings": [
            {"TrainingPlanOfferingId": "tpo-1", "TargetResources": ["hyperpod-cluster"]},
        ]},
        [["workers", "tpo-1", "4 × ml.p5.48xlarge", "not said", "0"]],
        [NONE],
    ),
    "none": (FILE, {}, [], [NONE]),
    "an extension": (
        EXTENDED, {"TrainingPlanExtensionOfferings": [extension("ext-1", AvailabilityZone=HERE)]},
        [["workers", "extension ext-1", "4 × ml.p5.48xlarge", ZONE, "2026-12-04 11:30", "2026-12-05 11:30", "24",
          "9 USD"]],
        [EXTEND],
    ),
    "an extension whose zone is not said": (
        EXTENDED, {"TrainingPlanExtensionOfferings": [
            {"TrainingPlanExtensionOfferingId": "ext-1", "UpfrontFee": "9"},
        ]},
        [["workers", "extension ext-1", "4 × ml.p5.48xlarge", "0", "9"]],
        [EXTEND],
    ),
    "an extension elsewhere": (
        EXTENDED, {"TrainingPlanExtensionOfferings": [extension("ext-1", AvailabilityZone=ELSEWHERE)]},
        [["workers", "extension ext-1", "4 × ml.p5.48xlarge", f"{OTHER_ZONE}: not the group's", "2026-12-04 11:30",
          "2026-12-05 11:30", "24", "9 USD"]],
        [NONE],
    ),
    "a plan that cannot be extended": (EXTENDED, {"TrainingPlanOfferings": [offering("x", part(HERE))]}, [], [NONE]),
}  # fmt: skip


@pytest.mark.parametrize("case", OFFERS)
def test_offers_as_they_are_listed(
    case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, answer, rows, said = OFFERS[case]
    target, account = environment(text, **answer)
    monkeypatch.setenv("COLUMNS", "200")
    assert offers.run(target, Wish(hours=48), form=Format.table) == (3 if NONE in said else 0)
    out, err = capsys.readouterr()
    table = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if line.strip("─ ")]
    assert table[0] == ["Group", "Offer", "Instances", "Zone", "From (UTC)", "To (UTC)", "Hours", "Upfront"]
    assert table[1:] == rows
    assert err.splitlines() == said
    (asked,) = account.arguments("search_training_plan_offerings")
    assert asked == (
        {"TrainingPlanArn": PLAN, "DurationHours": 48} if text is EXTENDED else {
            "InstanceType": "ml.p5.48xlarge", "InstanceCount": 4, "DurationHours": 48,
            "TargetResources": ["hyperpod-cluster"],
        }
    )  # fmt: skip


def test_days_are_asked_for_where_they_are_given() -> None:
    for wish, days in (
        (Wish(hours=1, after=day(1)), {"StartTimeAfter": day(1)}),
        (Wish(hours=1, before=day(9)), {"EndTimeBefore": day(9)}),
    ):
        target, account = environment(FILE)
        offers.run(target, wish, form=Format.json)
        (asked,) = account.arguments("search_training_plan_offerings")
        assert asked["DurationHours"] == 1
        assert {key: value for key, value in asked.items() if "Time" in key} == days


def test_a_new_plan_has_hours_and_an_extension_has_any() -> None:
    """`DurationHours` of an extension is optional; AWS rounds it up to days."""
    for text, hours in ((FILE, {"DurationHours": 24}), (EXTENDED, {})):
        target, account = environment(text)
        offers.run(target, Wish(), form=Format.json)
        (asked,) = account.arguments("search_training_plan_offerings")
        assert {key: value for key, value in asked.items() if "Hours" in key} == hours


def test_offers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    target, _ = environment(FILE, TrainingPlanOfferings=[offering("tpo-1", part(HERE)), offering("far", part("x"))])
    assert offers.run(target, Wish(hours=48), group="workers", form=Format.json) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["environment"], document["without"]) == ("capacity", "demo", [])
    first, second = document["offers"]
    assert first == {
        "group": "workers", "id": "tpo-1", "instance_type": "ml.p5.48xlarge", "instances": 4, "zone": ZONE,
        "in_zone": True, "start": output.stamp(day(1)), "end": output.stamp(day(3)), "hours": 48, "fee": "123.45 USD",
        "extends": False,
    }  # fmt: skip
    assert (second["zone"], second["in_zone"]) == ("x", False)


SEARCHED: dict[str, tuple[str, str, list[int] | tuple[str, str, str]]] = {
    "the group that training plans have": (FILE, "", [4]),
    "each of two, the second with as many as one call takes": (
        FILE.replace("storage:", "    - {name: more, type: ml.p5.48xlarge, count: 9}\nstorage:"), "", [4, 9]
    ),
    "the one that is named": (
        FILE.replace("storage:", "    - {name: more, type: ml.p5.48xlarge, count: 2}\nstorage:"), "more", [2]
    ),
    "more than one call takes": (
        FILE.replace("storage:", "    - {name: more, type: ml.p5.48xlarge, count: 10}\nstorage:"), "", [4]
    ),
    "a group without GPUs": (
        FILE, "head",
        ("group 'head': no instances that a training plan can be searched for", "a group with 1 to 9 of ",
         "search for UltraServers and for more instances in the SageMaker console"),
    ),
    "a type that no plan has": (
        environment_text(), "",
        ("demo: no instances that a training plan can be searched for", "a group with 1 to 9 of ",
         "search for UltraServers and for more instances in the SageMaker console"),
    ),
    "a group that is not there": (
        FILE, "worker", ("--group: 'worker'", "one of head, workers", "did you mean 'workers'?"),
    ),
    "a name that is like none": (
        FILE, "x" * 70, (f"--group: '{'x' * 63}'", "one of head, workers", "hyperpod-ray env show demo"),
    ),
}  # fmt: skip


def test_one_call_takes_as_many_nodes_as_the_api_says() -> None:
    counted = operation_model("sagemaker", "search_training_plan_offerings").input_shape.members["InstanceCount"]
    assert counted.metadata["max"] == offers.MOST_INSTANCES


@pytest.mark.parametrize("case", SEARCHED)
def test_which_groups_are_searched_for(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "MOST_INSTANCES", 9)
    text, group, expected = SEARCHED[case]
    target, account = environment(text)
    if isinstance(expected, list):
        assert offers.run(target, Wish(hours=1), group=group, form=Format.json) == 3
        asked = account.arguments("search_training_plan_offerings")
        assert [search["InstanceCount"] for search in asked] == expected
        return
    with pytest.raises(OpsError) as refused:
        offers.run(target, Wish(hours=1), group=group, form=Format.json)
    what, allowed, fix = expected
    assert (refused.value.what, refused.value.fix, refused.value.code) == (what, fix, 2)
    assert refused.value.expected.startswith(allowed)
    assert "ml.u-" not in refused.value.expected and account.asked == []
