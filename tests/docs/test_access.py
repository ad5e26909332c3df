"""The pages made from code are fresh: IAM policies, whose actions exist, and the rules of environment files."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.iam import Request, allows, statements_of

PROJECT = Path(__file__).resolve().parents[2]


def loaded(name: str) -> ModuleType:
    """A script of `docs/`, imported."""
    spec = importlib.util.spec_from_file_location(name, PROJECT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return loaded("access_page")


def test_the_page_of_rules_is_fresh() -> None:
    from hyperpod_ray.core.findings import RULES

    rules = loaded("rules_page")
    text = rules.PAGE.read_text("utf-8")
    assert text == rules.page(), "run .venv/bin/python docs/rules_page.py"
    assert text.count("\n| `") == len(RULES)


def test_the_page_of_limits_is_fresh() -> None:
    limits = loaded("limits_page")
    assert limits.PAGE.read_text("utf-8") == limits.page(), "run .venv/bin/python docs/limits_page.py"


def test_the_page_is_fresh(page: ModuleType) -> None:
    assert page.PAGE.read_text("utf-8") == page.page(), "run .venv/bin/python docs/access_page.py"


@pytest.mark.parametrize("role", ["researcher", "operator", "pipeline"])
def test_every_action_is_one_that_iam_knows(page: ModuleType, role: str) -> None:
    """By the list of services and actions that cfn-lint carries."""
    import cfnlint

    known = json.loads((Path(cfnlint.__file__).parent / "data/AdditionalSpecs/Policies.json").read_text())
    (calls, *_) = json.loads(page.policy(role))["Statement"]
    assert len(calls["Action"]) > 8
    unknown = [
        action
        for action in calls["Action"]
        if action.partition(":")[2].lower() not in known[action.partition(":")[0]]["Actions"]
    ]
    assert unknown == []


def test_roles_differ_where_they_must(page: ModuleType) -> None:
    def actions(role: str) -> set[str]:
        return set(json.loads(page.policy(role))["Statement"][0]["Action"])

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
    page: ModuleType, action: str, resource: str, context: dict[str, str], allowed: bool
) -> None:
    """As IAM decides; `me` is the caller's user ID."""
    text = page.policy("researcher").replace("REGION:ACCOUNT", "us-west-2:111122223333").replace("REGION", "us-west-2")
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
def test_who_works_on_slurm_opens_shells_on_one_cluster(
    page: ModuleType, action: str, resource: str, allowed: bool
) -> None:
    text = page.slurm_policy().replace("REGION:ACCOUNT", "us-west-2:111122223333").replace("REGION", "us-west-2")
    text = text.replace("CLUSTER-ID", "abcdefghij12").replace("${aws:userid}", "me")
    statements = statements_of(json.loads(text))
    context = CHECKED if action == "ssm:StartSession" else {}
    assert allows(statements, Request(action=action, resource=resource, context=context)) is allowed
