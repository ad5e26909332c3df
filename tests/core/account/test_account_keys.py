"""Rules of `hyperpod_ray/core/checks/account/keys.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.checks.account.keys import trusts
from tests.core.account.good import ACCOUNT, ADMIN, GONE, KEY, NEW
from tests.core.account.sabotage import APP, OUR_STACK, RECORDED, Sabotage, assert_named_rules, assert_sabotage, case_id

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("kubectl role that Lambda may not assume", {"roles > kubectl": {"trust": {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}}]}}}, (("roles", "error", "kubectl does not trust lambda.amazonaws.com"),)),
    Sabotage("no key", {f"keys > {KEY}": GONE}, (("KMS keys", "error", "no such key"),)),
    # https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-cmk.html: the nodes' role creates grants
    Sabotage("key lets the account's roles decrypt alone", {"key_policies": {KEY: {"Statement": [{"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": ["kms:Decrypt", "kms:DescribeKey"], "Resource": "*"}]}}}, (("KMS keys", "warning", "create grants by IAM"),)),
    Sabotage("key is to be deleted", {f"keys > {KEY} > KeyState": "PendingDeletion"}, (("KMS keys", "error", "cancel-key-deletion"),)),
    Sabotage("key is off", {f"keys > {KEY} > KeyState": "Disabled"}, (("KMS keys", "error", "enable-key"),)),
    Sabotage("key signs", {f"keys > {KEY}": {"KeyUsage": "SIGN_VERIFY", "KeySpec": "RSA_2048"}}, (("KMS keys", "error", "RSA_2048 for SIGN_VERIFY"),)),
    Sabotage("no role", {"roles > Admin": GONE}, (("roles", "error", "Admin: no such role"),), file=NEW),
    Sabotage("role of another path", {"roles > Admin > Arn": ADMIN.replace("teams/", "")}, (("roles", "error", "the role Admin is arn:aws:iam::123456789012:role/Admin. Expected"),), file=NEW),
    Sabotage("no alarm", {"alarms": []}, (("alarms", "error", "gpu-errors: no such alarm"),)),
    Sabotage("no MLflow server", {"mlflow": {"team": None}}, (("MLflow", "error", "team: no such server"),)),
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeMlflowTrackingServer.html (TrackingServerStatus)
    Sabotage("MLflow server that failed", {"mlflow": {"team": "CreateFailed"}}, (("MLflow", "error", "team is CreateFailed"),)),
    Sabotage("MLflow server that goes", {"mlflow": {"team": "Deleting"}}, (("MLflow", "error", "team is Deleting"),)),
    Sabotage("MLflow app left behind", {"mlflow_apps": {APP: ("test", "Created")}}, (("MLflow", "warning", f"set ray.access.mlflow_arn: {APP}"),), file=RECORDED),
    Sabotage("MLflow app that failed", {"mlflow_apps": {APP: ("test", "UpdateFailed")}, "stacks > test-Ray": {**OUR_STACK, "resources": [APP]}}, (("MLflow", "error", f"{APP} is UpdateFailed"),), file=RECORDED),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)


LAMBDA = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}


@pytest.mark.parametrize(
    ("statements", "trusted"),
    [
        ([LAMBDA], True),
        (LAMBDA, True),
        ([{**LAMBDA, "Principal": {"Service": ["ec2.amazonaws.com", "lambda.amazonaws.com"]}}], True),
        ([{**LAMBDA, "Principal": {"Service": "ec2.amazonaws.com"}}, LAMBDA], True),
        ([{**LAMBDA, "Principal": {"Service": "ec2.amazonaws.com"}}], False),
        ([{**LAMBDA, "Principal": {"AWS": "lambda.amazonaws.com"}}], False),
        ([{**LAMBDA, "Effect": "Deny"}], False),
        ([], False),
    ],
)
def test_who_a_role_trusts(statements: Any, trusted: bool) -> None:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_effect.html: a Deny lets nobody in."""
    assert trusts({"AssumeRolePolicyDocument": {"Statement": statements}}, "lambda.amazonaws.com") is trusted
