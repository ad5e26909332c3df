"""Rules of `hyperpod_ray/core/checks/tracking.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import CLOSED, MLFLOW, assert_named_rule, assert_rule, case_id

CASES = [
    Case("a_tracker_is_named", {"ray/tracking": {}}, "ray.tracking", "no tracker", {"ray/tracking": {}, "ray/access": {"mlflow_arn": MLFLOW}}),
    Case("a_tracker_is_named", {"ray/tracking": {"mlflow": "https://mlflow.example.com"}, "ray/access": {"mlflow_arn": MLFLOW}}, "ray.tracking.mlflow", "a second MLflow server", {"ray/tracking": {"mlflow": "https://mlflow.example.com/base"}}),
    Case("a_tracker_is_named", {"ray/tracking": {"mlflow_app": {}}, "ray/access": {"mlflow_arn": MLFLOW}}, "ray.tracking.mlflow_app", "a second MLflow server", {"ray/tracking": {"mlflow_app": {}}}),
    Case("a_tracker_is_named", {"ray/tracking": {"mlflow_app": {}, "mlflow": "https://mlflow.example.com"}}, "ray.tracking.mlflow_app", "beside https://mlflow.example.com", {"ray/tracking": {"mlflow": "https://mlflow.example.com"}}),
    Case("a_new_mlflow_app_works_here", {"ray/tracking": {"mlflow_app": {}}, **CLOSED}, "ray.tracking.mlflow_app", "no route to mlflow.sagemaker.us-west-2.app.aws", {"ray/tracking": {"mlflow_app": {}}}),
    Case("a_new_mlflow_app_works_here", {"ray/tracking": {"mlflow_app": {}}, "ray/env": {"MLFLOW_TRACKING_URI": "https://mlflow.example.com"}}, "ray.env.MLFLOW_TRACKING_URI", "the pods get the app's ARN", {"ray/tracking": {"mlflow_app": {}}}),
    Case("a_new_mlflow_app_works_here", {"ray/tracking": {"mlflow_app": {}}, "region": "eu-south-2", "network/availability_zone_ids": ["eus2-az1", "eus2-az2"]}, "ray.tracking.mlflow_app", "AWS::SageMaker::MlflowApp is not in eu-south-2", {"ray/tracking": {"mlflow_app": {}}}, beside=("hyperpod.instance_groups[1].type",)),
    Case("a_tracker_is_reachable", {"ray/tracking": {"wandb_project": "mine"}, **CLOSED}, "ray.tracking.wandb_project", "no route to api.wandb.ai", {"ray/tracking": {"wandb_project": "mine"}}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
