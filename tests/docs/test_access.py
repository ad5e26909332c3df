"""The page of access has policies whose actions exist and allow what the commands call; the page of rules has each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs import access_page, rules_page
from hyperpod_ray.core.findings import RULES
from tests.support.iam import Request, allows, statements_of

PROJECT = Path(__file__).resolve().parents[2]


def test_the_page_of_rules_has_each_rule() -> None:
    text = rules_page.page()  # first: it imports the rules of accounts
    assert text.count("\n| `") == len(RULES)


@pytest.mark.parametrize("role", ["researcher", "operator", "pipeline"])
def test_every_action_is_one_that_iam_knows(role: str) -> None:
    """By the list of services and actions that cfn-lint carries."""
    import cfnlint

    known = json.loads((Path(cfnlint.__file__).parent / "data/AdditionalSpecs/Policies.json").read_text())
    (calls, *_) = json.loads(access_page.policy(role))["Statement"]
    assert len(calls["Action"]) > 8
    unknown = [
        action
        for action in calls["Action"]
        if action.partition(":")[2].lower() not in known[action.partition(":")[0]]["Actions"]
    ]
    assert unknown == []


@pytest.mark.slow
def test_roles_differ_where_they_must() -> None:
    def actions(role: str) -> set[str]:
        return set(json.loads(access_page.policy(role))["Statement"][0]["Action"])

    assert actions("researcher") | actions("pipeline") <= actions("operator")
    writes = {"sagemaker:BatchReplaceClusterNodes", "fsx:DeleteFileSystem", "logs:DeleteLogGroup"}
    assert writes <= actions("operator")
    assert not writes & actions("researcher")
    assert "eks:DescribeCluster" in actions("researcher")
    assert "servicequotas:ListServiceQuotas" in actions("pipeline")


CLUSTER = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghij12"
FORWARD = "arn:aws:ssm:us-west-2::document/AWS-StartPortForwardingSessionToRemoteHost"
SHELL = "arn:aws:ssm:us-west-2:111122223333:document/SSM-SessionManagerRunShell"
CHECKED = {"ssm:SessionDocumentAccessCheck": "true"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "resource", "context", "allowed"),
    [
        ("ssm:StartSession", CLUSTER, CHECKED, True),
        ("ssm:StartSession", FORWARD, CHECKED, True),
        ("ssm:StartSession", SHELL, CHECKED, False),
        ("ssm:StartSession", "arn:aws:ssm:us-west-2::document/AWS-StartSSHSession", CHECKED, False),
        ("ssm:StartSession", CLUSTER, {"ssm:SessionDocumentAccessCheck": "false"}, False),
        ("ssm:StartSession", CLUSTER.replace("abcdefghij12", "another"), CHECKED, False),
        ("ssm:StartSession", "arn:aws:ec2:us-west-2:111122223333:instance/i-0123456789abcdef0", CHECKED, False),
        ("ssm:SendCommand", CLUSTER, CHECKED, False),
        ("ssm:TerminateSession", "arn:aws:ssm:us-west-2:111122223333:session/me-0123456789abcdef0", {}, True),
        ("ssm:TerminateSession", "arn:aws:ssm:us-west-2:111122223333:session/you-0123456789abcdef0", {}, False),
    ],
)
def test_a_researcher_opens_tunnels_and_nothing_else_of_systems_manager(
    action: str, resource: str, context: dict[str, str], allowed: bool
) -> None:
    """As IAM decides; `me` is the caller's user ID."""
    text = (
        access_page.policy("researcher")
        .replace("REGION:ACCOUNT", "us-west-2:111122223333")
        .replace("REGION", "us-west-2")
    )
    text = text.replace("CLUSTER-ID", "abcdefghij12").replace("${aws:userid}", "me")
    statements = statements_of(json.loads(text))
    assert allows(statements, Request(action=action, resource=resource, context=context)) is allowed


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("ssm:StartSession", CLUSTER, True),
        ("ssm:StartSession", SHELL, True),
        ("ssm:StartSession", FORWARD, True),
        ("ssm:StartSession", "arn:aws:ssm:us-west-2::document/AWS-StartNonInteractiveCommand", True),
        ("ssm:StartSession", "arn:aws:ssm:us-west-2::document/AWS-StartSSHSession", False),
        ("ssm:StartSession", CLUSTER.replace("abcdefghij12", "another"), False),
        ("ssm:StartSession", "arn:aws:ec2:us-west-2:111122223333:instance/i-0123456789abcdef0", False),
        ("ssm:SendCommand", CLUSTER, False),
        ("ssm:TerminateSession", "arn:aws:ssm:us-west-2:111122223333:session/you-0123456789abcdef0", False),
        ("ssm:ResumeSession", "arn:aws:ssm:us-west-2:111122223333:session/me-0123456789abcdef0", True),
        ("sagemaker:ListClusterNodes", CLUSTER, True),
        ("sagemaker:BatchReplaceClusterNodes", CLUSTER, False),
        ("eks:DescribeCluster", "*", False),
    ],
)
def test_who_works_on_slurm_opens_shells_on_one_cluster(action: str, resource: str, allowed: bool) -> None:
    text = access_page.slurm_policy().replace("REGION:ACCOUNT", "us-west-2:111122223333").replace("REGION", "us-west-2")
    text = text.replace("CLUSTER-ID", "abcdefghij12").replace("${aws:userid}", "me")
    statements = statements_of(json.loads(text))
    context = CHECKED if action == "ssm:StartSession" else {}
    assert allows(statements, Request(action=action, resource=resource, context=context)) is allowed
