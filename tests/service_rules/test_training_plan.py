from __future__ import annotations

from hyperpod_ray_rules import data, training_plan


def test_words_of_training_plans_are_those_of_the_service(enumerations: dict[str, set[str]]) -> None:
    assert set(training_plan.USABLE) <= enumerations["TrainingPlanStatus"]
    assert training_plan.TARGET in enumerations["SageMakerResourceName"]
    assert set(data.training_plan_types()) <= enumerations["ReservedCapacityInstanceType"]
