"""Rules of `hyperpod_ray/core/checks/account/deployment.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from tests.core.account.good import (
    ACCOUNT,
    EXISTING,
    GONE,
    NEW,
    REGION,
    account,
)
from tests.core.account.recorded import RecordedAccount
from tests.core.account.sabotage import (
    RECORDED,
    TEAMS,
    Sabotage,
    assert_named_rules,
    assert_sabotage,
    case_id,
    judged,
)
from tests.core.environment_files import plan

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("the bootstrap's bucket is gone", {"buckets": {f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}": None}}, (("bootstrap bucket", "error", "no such bucket, and the bootstrap stack says that it is there"),), file=NEW),
    Sabotage("the bootstrap's bucket may not be seen", {"buckets": {f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}": "forbidden"}}, (("bootstrap bucket", "unknown", "may not see it"),), file=NEW),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)


def test_service_linked_roles_are_said() -> None:
    (found,) = judged(NEW, {"roles > AWSServiceRoleForAmazonEKS": GONE})["deployment role"]
    assert (found.severity, "AWSServiceRoleForAmazonEKS will be created" in found.message) == ("fine", True)


@pytest.mark.parametrize("action", ["eks:CreateCluster", "fsx:CreateFileSystem", "ec2:CreateVpc"])
def test_the_deployment_role_creates_only_what_is_new(action: str) -> None:
    (new,) = judged(NEW, {"denied": [action]})["deployment role"]
    (existing,) = judged(EXISTING, {"denied": [action]})["deployment role"]
    assert (new.severity, action in new.what, existing.severity) == ("error", True, "fine")


@pytest.mark.parametrize(
    "action", ["eks:AssociateAccessPolicy", "sagemaker:CreateComputeQuota", "sagemaker:CreateClusterSchedulerConfig"]
)
def test_the_deployment_role_creates_quotas_where_there_are_teams(action: str) -> None:
    (without,) = judged(NEW, {"denied": [action]})["deployment role"]
    (teams,) = judged({**NEW, **TEAMS}, {"denied": [action]})["deployment role"]
    assert (without.severity, teams.severity, action in teams.what) == ("fine", "error", True)


def test_the_deployment_role_creates_an_app_where_one_is_asked_for() -> None:
    edits = {"denied": ["sagemaker:CreateMlflowApp"]}
    (without,) = judged(NEW, edits)["deployment role"]
    (asked,) = judged(RECORDED, edits)["deployment role"]
    assert (without.severity, asked.severity, "sagemaker:CreateMlflowApp" in asked.what) == ("fine", "error", True)


def test_the_deployment_role_is_simulated_on_every_resource() -> None:
    asked = RecordedAccount(account({}))
    (rule,) = [rule for rule in account_rules() if rule.title == "deployment role"]
    list(rule(plan(NEW), Evidence(account=asked)))
    (simulated,) = [arguments for operation, arguments in asked.requests if operation == "simulate_principal_policy"]
    assert simulated["ResourceArns"] == ["*"]
    assert ":role/cdk-hnb659fds-cfn-exec-role-" in simulated["PolicySourceArn"]


def test_who_denies_the_deployment_role_is_said() -> None:
    assert (
        "by a control policy of the organization"
        in judged(NEW, {"denied": ["iam:CreateRole"], "denied_by": "organization"})["deployment role"][0].what
    )
    assert (
        "by a boundary"
        in judged(NEW, {"denied": ["iam:CreateRole"], "denied_by": "boundary"})["deployment role"][0].what
    )
