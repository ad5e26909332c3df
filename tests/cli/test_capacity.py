"""`capacity`: training plans that AWS offers for the groups, answered in botocore's shapes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.slurm_account import NAME, SlurmAccount

PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/block"


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmAccount:
    return SlurmAccount(folder=tmp_path, monkeypatch=monkeypatch).install()


def test_an_offer_is_listed_with_zone_days_and_fee(account: SlurmAccount) -> None:
    shown = account.run("capacity", NAME, "--hours", "48", "--after", "2026-12-01", "--before", "2027-01-01")
    assert shown.code == 0, shown.err
    assert all(word in shown.out for word in ("tpo-1", "usw2-az2", "123.45 USD", "4 × ml.p5.48xlarge"))
    assert "create-training-plan --training-plan-name NAME --training-plan-offering-id OFFER" in shown.err
    (asked,) = account.asked("SearchTrainingPlanOfferings")
    assert asked == {
        "InstanceType": "ml.p5.48xlarge", "InstanceCount": 4, "DurationHours": 48,
        "TargetResources": ["hyperpod-cluster"], "StartTimeAfter": datetime(2026, 12, 1, tzinfo=UTC),
        "EndTimeBefore": datetime(2027, 1, 1, tzinfo=UTC),
    }  # fmt: skip


def test_an_offer_in_another_zone_is_none_for_the_group(account: SlurmAccount) -> None:
    account.offers["TrainingPlanOfferings"][0]["ReservedCapacityOfferings"][0]["AvailabilityZone"] = "us-west-2a"
    shown = account.run("capacity", NAME)
    assert (shown.code, "usw2-az1: not the group's" in shown.out) == (3, True)
    assert "no offer for group 'workers' in usw2-az2" in shown.err
    assert "buy one" not in shown.err


def test_no_offer_at_all_is_said(account: SlurmAccount) -> None:
    account.offers = {"TrainingPlanOfferings": []}
    found = account.run("capacity", NAME, "-o", "json")
    assert (found.code, found.json["offers"], found.json["without"]) == (3, [], ["workers"])


def test_a_plan_that_a_group_has_is_extended(account: SlurmAccount) -> None:
    text = (account.environments / f"{NAME}.yaml").read_text("utf-8")
    account.environments = account.folder / "environments"
    account.environments.mkdir()
    planned = text.replace("type: ml.p5.48xlarge\n", f"type: ml.p5.48xlarge\n      training_plan_arn: {PLAN}\n")
    (account.environments / f"{NAME}.yaml").write_text(planned, "utf-8")
    extension: dict[str, Any] = {
        "TrainingPlanExtensionOfferingId": "ext-1", "AvailabilityZone": "us-west-2b", "DurationHours": 24,
        "StartDate": datetime(2026, 12, 1, tzinfo=UTC), "EndDate": datetime(2026, 12, 2, tzinfo=UTC),
        "UpfrontFee": "9", "CurrencyCode": "USD",
    }  # fmt: skip
    account.offers = {"TrainingPlanOfferings": [], "TrainingPlanExtensionOfferings": [extension]}
    shown = account.run("capacity", NAME)
    assert shown.code == 0, shown.err
    assert "extension ext-1" in shown.out
    assert "extend-training-plan --training-plan-extension-offering-id OFFER" in shown.err
    assert account.run("capacity", NAME, "--hours", "336").code == 0
    asked = {"TrainingPlanArn": PLAN}
    assert account.asked("SearchTrainingPlanOfferings") == [asked, {**asked, "DurationHours": 336}]


@pytest.mark.parametrize(("group", "says"), [("login", "no instances that a training plan"), ("worker", "workers")])
def test_a_group_that_no_plan_can_have_is_refused(account: SlurmAccount, group: str, says: str) -> None:
    refused = account.run("capacity", NAME, "--group", group)
    assert (refused.code, says in refused.err) == (2, True)
    assert account.asked("SearchTrainingPlanOfferings") == []
