"""Rules of `hyperpod_ray/core/checks/account/capacity.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import GONE, NEW
from tests.core.account.sabotage import Sabotage, assert_named_rules, assert_sabotage, case_id

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("no training plan", {"training_plans > spring": GONE}, (("training plans", "error", "no such training plan"),)),
    Sabotage("expired plan", {"training_plans > spring > Status": "Expired"}, (("training plans", "error", "it is Expired"),)),
    Sabotage("plan of another type", {"training_plans > spring > ReservedCapacitySummaries > 0 > InstanceType": "ml.p5e.48xlarge"}, (("training plans", "error", "it reserves ml.p5e.48xlarge. Expected ml.p5.48xlarge"),)),
    Sabotage("plan of another zone", {"training_plans > spring > ReservedCapacitySummaries > 0 > AvailabilityZone": "us-west-2c"}, (("training plans", "error", "it is in usw2-az3. Expected usw2-az1"),)),
    Sabotage("small plan", {"training_plans > spring": {"TotalInstanceCount": 2, "AvailableInstanceCount": 2}}, (("training plans", "error", "it reserves 2 instances. Expected 4 or more"),)),
    Sabotage("plan that others use", {"training_plans > spring > AvailableInstanceCount": 1}, (("training plans", "error", "1 of its 8 instances are free"),)),
    Sabotage("plan for training jobs", {"training_plans > spring > TargetResources": ["training-job"]}, (("training plans", "error", "not for HyperPod"),)),
    Sabotage("type is not in the zone", {"offerings > p5.48xlarge": ["usw2-az3"]}, (("instance types", "error", "use usw2-az3"),), file=NEW),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
