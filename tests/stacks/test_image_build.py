"""An image build inside a closed network: what its role may do, where it runs, what its commands are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws.emulator.build_requests import requests_of
from tests.stacks.assembled import Assembly
from tests.stacks.image_build_helpers import ACCOUNT, REGION, SHA256
from tests.support.iam import Request, allows, statements_of
from tests.support.references import References

CODEARTIFACT = "arn:aws:codeartifact:us-west-2:777788889999"


@pytest.fixture(scope="module")
def statements(closed: Assembly, project: dict[str, Any]) -> list[Any]:
    """Of the build's role."""
    references = References(closed.templates, account=ACCOUNT, region=REGION)
    name = project["ServiceRole"].rpartition("/")[2]
    found = []
    for key, policy in closed.of_type("AWS::IAM::Policy").items():
        properties = references.resolve(key.partition("/")[0], policy["Properties"])
        if name in {role.rpartition("/")[2] for role in properties["Roles"]}:
            found += statements_of(properties["PolicyDocument"])
    return found


@pytest.mark.parametrize(
    ("action", "resource", "context", "allowed"),
    [
        ("codeartifact:GetAuthorizationToken", f"{CODEARTIFACT}:domain/ml", {}, True),
        ("codeartifact:GetAuthorizationToken", f"{CODEARTIFACT}:domain/other", {}, False),
        ("codeartifact:ReadFromRepository", f"{CODEARTIFACT}:repository/ml/pypi-copy", {}, True),
        ("codeartifact:ReadFromRepository", f"{CODEARTIFACT}:repository/ml/other", {}, False),
        ("codeartifact:PublishPackageVersion", f"{CODEARTIFACT}:package/ml/pypi-copy/pypi//x", {}, False),
        ("sts:GetServiceBearerToken", "*", {"sts:AWSServiceName": "codeartifact.amazonaws.com"}, True),
        ("sts:GetServiceBearerToken", "*", {"sts:AWSServiceName": "other.amazonaws.com"}, False),
        ("ecr:BatchGetImage", "arn:aws:ecr:us-west-2:444455556666:repository/copies/ray", {}, True),
        ("ecr:PutImage", "arn:aws:ecr:us-west-2:444455556666:repository/copies/ray", {}, False),
        ("ecr:BatchGetImage", "arn:aws:ecr:us-west-2:444455556666:repository/copies/other", {}, False),
        ("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:us-west-2:111122223333:secret:x-AbCdEf", {}, False),
        ("ec2:CreateNetworkInterface", "*", {}, True),
        ("ec2:RunInstances", "*", {}, False),
    ],
)
def test_the_build_may_do_what_it_needs(
    statements: list[Any], action: str, resource: str, context: dict[str, str | list[str]], allowed: bool
) -> None:
    assert allows(statements, Request(action=action, resource=resource, context=context)) is allowed


@pytest.mark.parametrize(
    ("service", "subnet", "allowed"),
    [("codebuild.amazonaws.com", 0, True), ("ec2.amazonaws.com", 0, False), ("codebuild.amazonaws.com", None, False)],
)
def test_codebuild_gets_interfaces_in_its_own_subnets_only(
    statements: list[Any], project: dict[str, Any], service: str, subnet: int | None, allowed: bool
) -> None:
    """https://docs.aws.amazon.com/codebuild/latest/userguide/vpc-support.html"""
    arn = f"arn:aws:ec2:{REGION}:{ACCOUNT}"
    named = project["VpcConfig"]["Subnets"][subnet] if subnet is not None else "subnet-0"
    context: dict[str, str | list[str]] = {"ec2:AuthorizedService": service, "ec2:Subnet": f"{arn}:subnet/{named}"}
    asked = Request(
        action="ec2:CreateNetworkInterfacePermission", resource=f"{arn}:network-interface/eni-0", context=context
    )
    assert allows(statements, asked) is allowed


def test_it_runs_in_the_node_subnets_behind_a_group_without_a_way_in(closed: Assembly, project: dict[str, Any]) -> None:
    assert len(set(project["VpcConfig"]["Subnets"])) == 2
    (group,) = [
        one["Properties"]
        for one in closed.of_type("AWS::EC2::SecurityGroup").values()
        if one["Properties"]["GroupDescription"] == "image builds"
    ]
    assert "SecurityGroupIngress" not in group
    (rule,) = group["SecurityGroupEgress"]
    assert (rule["FromPort"], rule["ToPort"], rule["IpProtocol"]) == (443, 443, "tcp")
    assert "closed-build-Network" in closed.before("closed-build-Image"), "the endpoints are there first"
    (key,) = closed.of_type("AWS::CodeBuild::Project")
    resource = closed.of_type("AWS::CodeBuild::Project")[key]
    policies = [name for name in resource["DependsOn"] if "BuildInVpc" in name]
    assert policies, "CodeBuild looks at the role when it creates the project"


def test_the_password_is_written_before_the_build_and_given_as_a_secret(
    closed: Assembly, project: dict[str, Any]
) -> None:
    commands = json.loads(project["Source"]["BuildSpec"])["phases"]["build"]["commands"]
    position = {
        word: [word in command for command in commands].index(True) for word in ("codeartifact", "eval ", "temp.zip")
    }
    assert position["temp.zip"] < position["codeartifact"] < position["eval "]
    logins = [command for command in commands if "docker login" in command]
    assert not any("public.ecr.aws" in login for login in logins), "it has an API in us-east-1 only"
    assert any("444455556666.dkr.ecr.us-west-2.amazonaws.com" in login for login in logins)
    build = closed.one("Custom::CDKContainerImageBuild")["buildCommand"]
    assert "--secret id=netrc,src=/tmp/netrc" in build
    assert "--build-arg BASE_DIGEST=sha256:aaaa" in build
    assert f"--build-arg EFA_SHA256={SHA256}" in build
    url = "https://ml-777788889999.d.codeartifact.us-west-2.amazonaws.com/pypi/pypi-copy/simple/"
    assert f"--build-arg PIP_INDEX_URL={url} " in build
    assert "NotDeployable" not in json.dumps(closed.templates["closed-build-Image"]), (
        "the base has its digest from the file"
    )


def test_the_templates_pass_cloudformation_s_schemas(closed: Assembly) -> None:
    assert closed.lint_errors() == []


def test_the_sandbox_judges_what_the_commands_ask_for(
    closed: Assembly, project: dict[str, Any], statements: list[Any]
) -> None:
    """Its build refuses a role that lacks one of these; the template's role has them all."""
    command = closed.one("Custom::CDKContainerImageBuild")["buildCommand"]
    asked = requests_of(project["Source"]["BuildSpec"], command)
    assert {one.action for one in asked} == {
        "codeartifact:GetAuthorizationToken", "codeartifact:ReadFromRepository", "sts:GetServiceBearerToken",
        "ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer",
    }  # fmt: skip
    for one in asked:
        request = Request(action=one.action, resource=one.resource, context=dict(one.keys))
        assert allows(statements, request), one


def test_a_build_has_the_disk_of_a_large_image_and_ends_before_cloudformation_gives_up(project: dict[str, Any]) -> None:
    assert project["Environment"]["ComputeType"] == "BUILD_GENERAL1_LARGE"
    assert project["TimeoutInMinutes"] < 60
