"""Rights that roles, pods, nodes and others lose or get, as IAM, EKS, ECR and S3 judge them."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

from pathlib import Path

import pytest

from tests.review.small import BOTH, DENY, ROLE, TLS, Json, allow, compared, document, of, of_role

CODES: dict[str, tuple[Json, Json, str, str]] = {
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
    "a right goes": ({"P": of_role(BOTH), "Role": ROLE}, {"P": of_role(allow("s3:GetObject")), "Role": ROLE}, "right-taken", "interrupts"),
    "another policy of the role has it": (
        {"P": of_role(BOTH), "Q": of_role(allow("a:B")), "Role": ROLE},
        {"P": of_role(allow("s3:GetObject")), "Q": of_role(allow("a:B"), allow("s3:PutObject")), "Role": ROLE}, "", "weakens",
    ),
    "a right is denied": ({"P": of_role(BOTH), "Role": ROLE}, {"P": of_role(BOTH, DENY), "Role": ROLE}, "right-taken", "interrupts"),
    "what it is of goes too": (
        {"P": of_role(allow("s3:GetObject"), {**BOTH, "Resource": {"Fn::GetAtt": ["B", "Arn"]}}), "Role": ROLE, "B": of("S3::Bucket")},
        {"P": of_role(allow("s3:GetObject")), "Role": ROLE}, "", "loses-data",
    ),
    "of something else with a longer name": (
        {"P": of_role(allow("s3:GetObject"), {**BOTH, "Resource": {"Fn::GetAtt": ["B2", "Arn"]}}), "Role": ROLE, "B": of("S3::Bucket"), "B2": of("S3::Bucket")},
        {"P": of_role(allow("s3:GetObject")), "Role": ROLE, "B2": of("S3::Bucket")}, "right-taken", "loses-data",
    ),
    "of a function of the deployment": (
        {"P": of_role(BOTH), "Role": ROLE, "F": of("Lambda::Function", Role={"Fn::GetAtt": ["Role", "Arn"]})},
        {"P": of_role(allow("s3:GetObject")), "Role": ROLE, "F": of("Lambda::Function", Role={"Fn::GetAtt": ["Role", "Arn"]})}, "", "safe",
    ),
    "TLS alone": ({"B": of("S3::BucketPolicy", Bucket="b", PolicyDocument=document())}, {"B": of("S3::BucketPolicy", Bucket="b", PolicyDocument=document(TLS))}, "", "safe"),
    "a service publishes no more": (
        {"T": of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document(allow("sns:Publish", Principal={"Service": "cloudwatch.amazonaws.com"})))},
        {"T": of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document())}, "publisher-taken", "weakens",
    ),
    "an account publishes no more": (
        {"T": of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document(allow("sns:Publish", Principal={"AWS": "arn:aws:iam::1:root"})))},
        {"T": of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document())}, "right-taken", "interrupts",
    ),
    # https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html: without a policy everything passes
    "an endpoint gets its first policy": (
        {"E": of("EC2::VPCEndpoint", VpcId="v", ServiceName="s")},
        {"E": of("EC2::VPCEndpoint", VpcId="v", ServiceName="s", PolicyDocument=document(allow("s3:GetObject", Principal="*")))}, "right-taken", "interrupts",
    ),
    "an endpoint's policy gets narrower": (
        {"E": of("EC2::VPCEndpoint", VpcId="v", ServiceName="s", PolicyDocument=document(allow(["s3:GetObject", "s3:PutObject"], Principal="*")))},
        {"E": of("EC2::VPCEndpoint", VpcId="v", ServiceName="s", PolicyDocument=document(allow("s3:GetObject", Principal="*")))}, "right-taken", "interrupts",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_rights_that_something_loses(name: str, tmp_path: Path) -> None:
    before, after, code, effect = CODES[name]
    environment = compared(tmp_path, before, after)
    taken = {row.code for row in environment.rows} & {"right-taken", "publisher-taken"}
    assert taken == ({code} if code else set()), environment.rows
    assert environment.effect.code == effect, [*environment.rows, *environment.remarks]


@pytest.mark.parametrize(
    ("thing", "effect"),
    [
        # https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html, …/lambda-permissions.html
        (of("Lambda::Url", AuthType="AWS_IAM", TargetFunctionArn="f"), "safe"),
        (of("Lambda::Url", AuthType="NONE", TargetFunctionArn="f"), "weakens"),
        (of("EC2::NetworkAclEntry", RuleAction="allow", RuleNumber=1, NetworkAclId="a", Protocol=-1), "safe"),
        (of("EC2::NetworkAclEntry", RuleAction="deny", RuleNumber=1, NetworkAclId="a", Protocol=-1), "interrupts"),
    ],
    ids=str,
)
def test_something_that_comes(thing: Json, effect: str, tmp_path: Path) -> None:
    stays = {"Topic": of("SNS::Topic")}
    assert compared(tmp_path, stays, {**stays, "New": thing}).effect.code == effect


CLUSTER = of(
    "SageMaker::Cluster", ClusterName="c", Orchestrator={"Eks": {"ClusterArn": "arn:aws:eks:us-west-2:1:cluster/c"}},
    InstanceGroups=[{
        "InstanceGroupName": "g", "InstanceType": "ml.m5.large", "InstanceCount": 1,
        "ExecutionRole": {"Fn::GetAtt": ["Role", "Arn"]}, "LifeCycleConfig": {"SourceS3Uri": "s3://scripts", "OnCreate": "a"},
    }],
)  # fmt: skip
PULL = allow("ecr:BatchGetImage", "arn:aws:ecr:us-west-2:1:repository/team/tools")
ISSUER = {"Federated": "arn:aws:iam::1:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/A"}
TAKES = {"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity", "Principal": ISSUER}


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ([BOTH, PULL], [allow("s3:GetObject"), PULL], {"right-taken"}),
        # https://docs.aws.amazon.com/AmazonECR/latest/userguide/ECR_on_EKS.html
        ([BOTH, PULL], [BOTH], {"pull-taken"}),
        ([BOTH, PULL], [BOTH, PULL, DENY], {"right-taken"}),
        ([BOTH, PULL], [BOTH, PULL, allow("s3:ListBucket")], set()),
        # what every node runs as root
        (
            [allow("s3:GetObject")],
            [allow("s3:GetObject"), allow("s3:PutObject", "arn:aws:s3:::scripts/*")],
            {"scripts-writable"},
        ),
        *(
            ([allow("s3:GetObject")], [allow("s3:GetObject"), allow(action, resource)], {"scripts-writable"})
            # as the CDK and people write an ARN of S3
            for resource in (
                {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::scripts/*"]]},
                {"Fn::Sub": "arn:${AWS::Partition}:s3:::scripts/*"},
                "arn:aws:s3:::script*",
                "*",
            )
            for action in ("s3:PutObject", "s3:Delete*", "s3:*")
        ),
        ([allow("s3:GetObject")], [allow("s3:GetObject"), allow("s3:PutObject", "arn:aws:s3:::others/*")], set()),
        (
            [allow("s3:GetObject")],
            [allow("s3:GetObject"), {**DENY, "Resource": "arn:aws:s3:::scripts/*"}],
            {"right-taken"},
        ),
    ],
)
def test_rights_of_the_nodes(before: list[Json], after: list[Json], codes: set[str], tmp_path: Path) -> None:
    sides = ({"C": CLUSTER, "Role": ROLE, "P": of_role(*statements)} for statements in (before, after))
    said = {row.code for row in compared(tmp_path, *sides).rows}
    assert said & {"right-taken", "pull-taken", "scripts-writable"} == codes


def test_a_role_that_pods_take_no_more_by_their_tokens(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html."""
    other = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    sides = ({"R": of("IAM::Role", AssumeRolePolicyDocument=document(*taken))} for taken in ([TAKES, other], [other]))
    said = {row.code for row in compared(tmp_path, *sides).rows}
    assert said & {"trust-taken", "right-taken"} == {"trust-taken"}, "one row says it"
