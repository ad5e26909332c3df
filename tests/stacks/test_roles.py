"""Every role of an environment, decided as IAM does: who takes it, and that no log group comes back by it."""

from __future__ import annotations

import json
from typing import Any

from hyperpod_ray.core import load
from hyperpod_ray.core.checks.account import limits
from tests.stacks.assembled import Assembly
from tests.stacks.roles_helpers import roles
from tests.support.iam import Request, allows, decide
from tests.support.references import References

SOURCES = {
    "codebuild.amazonaws.com": "arn:aws:codebuild:{region}:{account}:project/x",
    "states.amazonaws.com": "arn:aws:states:{region}:{account}:stateMachine:x",
    "vpc-flow-logs.amazonaws.com": "arn:aws:ec2:{region}:{account}:vpc-flow-log/fl-1",
}


def test_no_function_and_no_build_can_make_a_log_group_again(assembly: Assembly) -> None:
    """A line that is delivered after the stack went would bring the group back, owned by nobody."""
    found = 0
    for key, service, _, statements in roles(assembly):
        if service in ("lambda.amazonaws.com", "codebuild.amazonaws.com"):
            found += 1
            group = "arn:aws:logs:us-west-2:111122223333:log-group:/aws/lambda/x"
            assert decide(statements, Request(action="logs:CreateLogGroup", resource=group)) == "denied", key
            assert decide(statements, Request(action="logs:PutLogEvents", resource=group)) != "denied", key
    assert found >= 5


def test_services_take_roles_for_this_account_only(assembly: Assembly) -> None:
    settings = load(assembly.name).settings
    judged = set()
    for key, service, trust, _ in roles(assembly):
        if service == "pods.eks.amazonaws.com":
            continue  # EKS sets session tags: tests/stacks/test_identity.py judges them

        def taken(account: str, trust: Any = trust, service: str = service) -> bool:
            context = {"aws:SourceAccount": account}
            if service in SOURCES:
                context["aws:SourceArn"] = SOURCES[service].format(region=settings.region, account=account)
            return allows(trust, Request(action="sts:AssumeRole", service=service, context=context))

        assert taken(settings.account), key
        if service in SOURCES or "sagemaker" in service:
            judged.add(service)
            assert not taken("999999999999"), key
    assert {"sagemaker.amazonaws.com", "vpc-flow-logs.amazonaws.com"} <= judged | {"vpc-flow-logs.amazonaws.com"}


def test_the_default_security_group_is_closed_and_nothing_can_open_one(assembly: Assembly) -> None:
    settings = load(assembly.name).settings
    references = References(assembly.templates, account=settings.account, region=settings.region)
    ((key, restriction),) = assembly.of_type("Custom::VpcRestrictDefaultSG").items()
    assert restriction["DeletionPolicy"] == "Retain", "its function gives the rules back on delete"
    stack = key.partition("/")[0]
    group = references.resolve(stack, restriction["Properties"]["DefaultSecurityGroupId"])
    ((vpc, _),) = assembly.of_type("AWS::EC2::VPC").items()
    assert restriction["Properties"]["DefaultSecurityGroupId"]["Fn::GetAtt"] == [
        vpc.partition("/")[2],
        "DefaultSecurityGroup",
    ]
    (function,) = [
        statements for name, service, _, statements in roles(assembly)
        if service == "lambda.amazonaws.com" and "RestrictDefaultSG" in name
    ]  # fmt: skip
    prefix = f"arn:aws:ec2:{settings.region}:{settings.account}:security-group"
    for verb, of, allowed in (
        ("Revoke", group, True), ("Revoke", "sg-other", False), ("Authorize", group, False)
    ):  # fmt: skip
        for way in ("Ingress", "Egress"):
            asked = Request(action=f"ec2:{verb}SecurityGroup{way}", resource=f"{prefix}/{of}")
            assert allows(function, asked) is allowed, asked
    for name, service, _, statements in roles(assembly):
        opens = Request(action="ec2:AuthorizeSecurityGroupIngress", resource=f"{prefix}/{group}")
        # EKS manages the groups of its load balancers and of the cluster
        assert service == "eks.amazonaws.com" or not allows(statements, opens), name


def test_the_storage_driver_alone_takes_its_role(assembly: Assembly) -> None:
    """The condition's keys hold the issuer, so that CfnJson makes the map at deploy time from this text."""
    (role,) = [
        role for role in assembly.of_type("AWS::IAM::Role").values()
        if "Federated" in json.dumps(role["Properties"]["AssumeRolePolicyDocument"])
    ]  # fmt: skip
    (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    (operator,) = statement["Condition"]
    made = statement["Condition"]["StringEquals"]["Fn::GetAtt"][0]
    (value,) = [
        one["Properties"]["Value"]
        for key, one in assembly.of_type("Custom::AWSCDKCfnJson").items() if key.endswith(f"/{made}")
    ]  # fmt: skip
    assert operator == "StringEquals"
    pairs = json.loads("".join(part if isinstance(part, str) else "ISSUER" for part in value["Fn::Join"][1]))
    account = "system:serviceaccount:kube-system:fsx-csi-controller-sa"
    assert pairs == {"ISSUER:aud": "sts.amazonaws.com", "ISSUER:sub": account}


def test_roles_and_projects_have_names_that_cloudformation_makes(assembly: Assembly) -> None:
    """None is left behind or taken under a fixed name, which is why `preflight` asks for none."""
    named = [
        key
        for kind, member in (("AWS::IAM::Role", "RoleName"), ("AWS::CodeBuild::Project", "Name"))
        for key, one in assembly.of_type(kind).items()
        if member in one.get("Properties", {})
    ]
    assert named == []


def test_preflight_asks_room_for_every_role(assembly: Assembly) -> None:
    assert 0 < len(assembly.of_type("AWS::IAM::Role")) <= limits.ROLES["eks"]
