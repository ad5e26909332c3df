"""Rules of `hyperpod_ray/core/checks/access.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import (
    CLOSED,
    DATA,
    KEY_ARN,
    LINKS,
    MLFLOW,
    SCRIPTS,
    SECRET,
    TIER,
    WORKER,
    assert_named_rule,
    assert_rule,
    case_id,
    team,
    teams,
)

CASES = [
    Case("scripts_of_nodes_stay_ours", {"ray/access": {"s3": [{"bucket": SCRIPTS, "mode": "write"}]}}, "ray.access.s3[0].mode", "every node runs as root", {"ray/access": {"s3": [{"bucket": SCRIPTS, "mode": "read"}]}}),
    Case("scripts_of_nodes_stay_ours", {"ray/access": {"s3": [{"bucket": "cdk-hnb659fds-assets-123456789012-us-west-2", "mode": "write"}]}}, "ray.access.s3[0].mode", "what the CDK deploys", {"ray/access": {"s3": [{"bucket": "assets", "mode": "write"}]}}),
    Case("scripts_of_nodes_stay_ours", {TIER: {"memory_percent": 20, "bucket": SCRIPTS}}, "hyperpod.tiered_storage.bucket", "every node runs as root", {TIER: {"memory_percent": 20, "bucket": "checkpoints"}}),
    Case("scripts_of_nodes_stay_ours", teams(team(access={"s3": [{"bucket": SCRIPTS, "mode": "write"}]})), "teams[0].access.s3[0].mode", "every node runs as root", teams(team(access={"s3": [{"bucket": SCRIPTS, "mode": "read"}]}))),
    Case("exports_leave_scripts_alone", {LINKS: [{**DATA, "bucket": SCRIPTS, "auto_export": ["NEW"]}]}, "storage.data_repositories[0].bucket", "every node runs as root", {LINKS: [{**DATA, "bucket": SCRIPTS}]}),
    Case("environment_variables_are_allowed", {"ray/env": {"DATA": "s3://sets/a"}, "ray/access": {"s3": [{"bucket": "sets", "prefix": "b/"}]}}, "ray.env.DATA", "add {bucket: sets, prefix: a/, mode: read} to ray.access.s3", {"ray/env": {"DATA": "s3://sets/a"}, "ray/access": {"s3": [{"bucket": "sets"}]}}),
    Case("environment_variables_are_allowed", {f"{WORKER}/env": {"TIERED_S3_BASE": "s3://runs/a"}, "ray/access": {"s3": [{"bucket": "runs"}]}}, "ray.workers[0].env.TIERED_S3_BASE", "may not write s3://runs/a", {f"{WORKER}/env": {"TIERED_S3_BASE": "s3://runs/a"}, "ray/access": {"s3": [{"bucket": "runs", "mode": "write"}]}}),
    Case("environment_variables_are_allowed", {"ray/head/env": {"MLFLOW_TRACKING_URI": MLFLOW}}, "ray.head.env.MLFLOW_TRACKING_URI", "set ray.access.mlflow_arn", {"ray/head/env": {"MLFLOW_TRACKING_URI": MLFLOW}, "ray/access": {"mlflow_arn": MLFLOW}}),
    Case("secrets_are_reachable", {"ray/access": {"secret_arns": [SECRET]}, **CLOSED}, "ray.access.secret_arns[0]", "no route to AWS Secrets Manager", {"ray/access": {"secret_arns": [SECRET]}}),
    Case("secrets_are_reachable", {"ray/access": {"secret_arns": [SECRET.replace("us-west-2", "us-east-1")]}}, "ray.access.secret_arns[0]", "the secret is in us-east-1", {"ray/access": {"secret_arns": [SECRET]}}),
    Case("mlflow_is_reachable", {"ray/access": {"mlflow_arn": MLFLOW}, **CLOSED}, "ray.access.mlflow_arn", "no route to SageMaker's MLflow", {"ray/access": {"mlflow_arn": MLFLOW}}),
    Case("mlflow_is_reachable", {"ray/access": {"mlflow_arn": MLFLOW.replace("us-west-2", "us-east-1")}}, "ray.access.mlflow_arn", "the server is in us-east-1", {"ray/access": {"mlflow_arn": MLFLOW}}),
    Case("keys_are_regional", {"ray/access": {"s3": [{"bucket": "sets"}], "kms_key_arns": ["arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"]}}, "ray.access.kms_key_arns[0]", "the key is in us-east-1", {"ray/access": {"s3": [{"bucket": "sets"}], "kms_key_arns": ["arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"]}}),
    Case("access_says_something_once", {"ray/access": {}}, "ray.access", "allows nothing", {"ray/access": {"s3": [{"bucket": "sets"}]}}, "warning"),
    Case("access_says_something_once", {"ray/access": {"s3": [{"bucket": "sets"}, {"bucket": "sets", "mode": "write"}]}}, "ray.access.s3[1]", "is already s3[0]", {"ray/access": {"s3": [{"bucket": "sets"}, {"bucket": "sets", "prefix": "a/"}]}}),
    Case("tier_settings_have_effect", {TIER: {"memory_percent": 20, "bucket": "mine", "keep_days": 3}}, "hyperpod.tiered_storage.keep_days", "is of a new bucket, and tiered_storage.bucket names mine", {TIER: {"memory_percent": 20, "bucket": "mine"}}),
    Case("keys_are_regional", {"ray/access": {"s3": [{"bucket": "sets"}], "kms_key_arns": [KEY_ARN.replace("aws", "aws-cn", 1)]}}, "ray.access.kms_key_arns[0]", "in partition aws-cn", {"ray/access": {"s3": [{"bucket": "sets"}], "kms_key_arns": [KEY_ARN]}}),
    Case("mlflow_is_reachable", {"ray/access": {"mlflow_arn": MLFLOW}, "ray/env": {"MLFLOW_TRACKING_URI": "https://mlflow.example.com"}}, "ray.env.MLFLOW_TRACKING_URI", "one MLflow server", {"ray/access": {"mlflow_arn": MLFLOW}, "ray/env": {"MLFLOW_TRACKING_URI": MLFLOW}}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
