"""The resource types of ours and the guards, through CloudFormation itself, without CDK."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import botocore.exceptions
import pytest

from tests.sandbox.aws.stacks_helpers import NETWORK, REF, Json, Stacks, cluster, ref
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


@pytest.mark.parametrize("operation", ["AWS::SageMaker::Cluster.create", "sagemaker.CreateCluster"])
def test_a_fault_in_a_create_rolls_the_stack_back(emulator: Emulator, stacks: Stacks, operation: str) -> None:
    emulator.control.set_fault(operation=operation, code="ResourceLimitExceeded", message="quota is 0")
    name = stacks.create({**NETWORK, "Cluster": cluster()})
    if operation.startswith("AWS"):
        assert stacks.status(name) == "ROLLBACK_COMPLETE"
        assert "quota is 0" in stacks.reasons(name)
        assert "AWS::EC2::VPC" not in {r["type"] for r in emulator.control.inventory() if r["stack"] == name}
    else:  # a fault of the API strikes its clients, not the handler inside CloudFormation
        assert stacks.status(name) == "CREATE_COMPLETE"


def test_an_update_that_fails_is_rolled_back_to_what_was(emulator: Emulator, stacks: Stacks) -> None:
    name = stacks.create({"Cluster": cluster()})
    emulator.control.set_fault(operation="AWS::SageMaker::Cluster.update", code="InternalFailure")
    stacks.update(name, {"Cluster": cluster(2)})
    assert stacks.status(name) == "UPDATE_ROLLBACK_COMPLETE"
    arn = stacks.ids(name)["Cluster"]
    assert emulator.boto("sagemaker").describe_cluster(ClusterName=arn)["InstanceGroups"][0]["TargetCount"] == 1


def test_what_the_service_rejects_fails_the_stack_with_its_words(stacks: Stacks) -> None:
    name = stacks.create({"Cluster": cluster(AutoScaling={"Mode": "Enable", "AutoScalerType": "Karpenter"})})
    assert stacks.status(name) == "ROLLBACK_COMPLETE"
    assert "AutoScaling needs NodeProvisioningMode Continuous" in stacks.reasons(name)


def test_a_type_nobody_emulates_is_refused(stacks: Stacks) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match="AWS::SageMaker::Domain"):
        stacks.create({"Domain": {"Type": "AWS::SageMaker::Domain", "Properties": {}}})


FUNCTION: Json = {
    "Role": {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
    },
    "Function": {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Runtime": "python3.11",
            "Handler": "index.handler",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Code": {"ZipFile": "def handler(event, context):\n    raise RuntimeError('no answer from me')\n"},
        },
    },
    "Custom": {"Type": "Custom::Dead", "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}}},
}


def test_a_custom_resource_whose_function_dies_fails_at_once(stacks: Stacks) -> None:
    name = stacks.create(FUNCTION)  # `settle` gives it a minute; CloudFormation would wait an hour
    assert "ROLLBACK" in stacks.status(name)
    assert "no answer from me" in stacks.reasons(name)


def test_a_channel_is_configured_once_in_an_account(emulator: Emulator, stacks: Stacks) -> None:
    """https://docs.aws.amazon.com/chatbot/latest/APIReference/API_CreateSlackChannelConfiguration.html"""
    role = {"AssumeRolePolicyDocument": json.loads(json.dumps(TRUST).replace("lambda", "chatbot"))}
    beside = {"Role": {"Type": "AWS::IAM::Role", "Properties": role}, "Topic": {"Type": "AWS::SNS::Topic"}}

    def channel(name: str, **more: Any) -> Json:
        properties = {
            "ConfigurationName": name, "SlackWorkspaceId": "T0123ABCDEF", "SlackChannelId": "C0123ABCDEF",
            "IamRoleArn": {"Fn::GetAtt": ["Role", "Arn"]}, "SnsTopicArns": [{REF: "Topic"}], **more,
        }  # fmt: skip
        return {"Channel": {"Type": "AWS::Chatbot::SlackChannelConfiguration", "Properties": properties}, **beside}

    def configured() -> list[str]:
        return [entry["id"] for entry in emulator.control.inventory() if "Chatbot" in entry["type"]]

    name = stacks.create(channel("demo-one"))
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    assert configured() == [stacks.ids(name)["Channel"]]
    second = stacks.create(channel("demo-two"))
    assert stacks.status(second) == "ROLLBACK_COMPLETE" and "already configured" in stacks.reasons(second)
    stacks.update(name, channel("demo-one", LoggingLevel="ERROR"))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    lost = stacks.create(channel("demo-three", SlackChannelId="C9", SnsTopicArns=["arn:aws:sns:us-west-2:1:none"]))
    assert stacks.status(lost) == "ROLLBACK_COMPLETE" and "does not exist" in stacks.reasons(lost)
    stacks.delete(name)
    assert configured() == []


TRUST: Json = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
NAMED: dict[str, Json] = {
    "AWS::Budgets::Budget": {
        "Budget": {
            "BudgetName": "NAME",
            "BudgetType": "COST",
            "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": 1, "Unit": "USD"},
        }
    },
    "AWS::ECR::Repository": {"RepositoryName": "NAME"},
    "AWS::EKS::Cluster": {
        "Name": "NAME",
        "RoleArn": {"Fn::GetAtt": ["Control", "Arn"]},
        "ResourcesVpcConfig": {"SubnetIds": [ref("Subnet"), ref("Other")]},
    },
    "AWS::IAM::OIDCProvider": {"Url": "https://NAME.example.com", "ClientIdList": ["sts.amazonaws.com"]},
    "AWS::IAM::Role": {"RoleName": "NAME", "AssumeRolePolicyDocument": TRUST},
    "AWS::Logs::LogGroup": {"LogGroupName": "/NAME"},
    "AWS::Logs::ResourcePolicy": {"PolicyName": "NAME", "PolicyDocument": json.dumps({**TRUST, "Statement": []})},
    "AWS::S3::Bucket": {"BucketName": "NAME"},
    "AWS::SageMaker::Cluster": {**cluster(0)["Properties"], "ClusterName": "NAME"},
}
"""A resource with a name of its own, of each type of the templates that can have one."""
BESIDE: Json = {
    **NETWORK,
    "Other": {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": ref("Vpc"), "CidrBlock": "10.8.2.0/24", "AvailabilityZoneId": "usw2-az1"},
    },
    "Control": {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": json.loads(json.dumps(TRUST).replace("lambda", "eks")),
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"],
        },
    },
}
"""What the properties above refer to."""


@pytest.mark.parametrize("kind", sorted(NAMED))
def test_a_name_that_is_taken_fails_the_second_stack_and_leaves_the_first_alone(stacks: Stacks, kind: str) -> None:
    text = json.dumps(NAMED[kind]).replace("NAME", f"n-{uuid.uuid4().hex[:8]}")
    resources = {"One": {"Type": kind, "Properties": json.loads(text)}} | (BESIDE if "Fn::GetAtt" in text else {})
    first = stacks.create(resources)
    assert stacks.status(first) == "CREATE_COMPLETE", stacks.reasons(first)
    second = stacks.create(resources)
    assert stacks.status(second) == "ROLLBACK_COMPLETE"
    assert re.search("already exists|with identical name|validation failure", stacks.reasons(second), re.IGNORECASE)
    third = stacks.create(resources)
    assert stacks.status(third) == "ROLLBACK_COMPLETE", "the rollback of the second took the first one's"


def test_a_change_of_outputs_alone_is_one(stacks: Stacks) -> None:
    """Another stack may ask for an export of a stack that otherwise stays as it is."""
    queue = {"Jobs": {"Type": "AWS::SQS::Queue"}}
    name = stacks.create(queue)

    def change_set(outputs: Json) -> Json:
        text = json.dumps({"Resources": queue, "Outputs": outputs})
        made = stacks.api.create_change_set(StackName=name, ChangeSetName=f"c{uuid.uuid4().hex[:8]}", TemplateBody=text)
        return dict(stacks.api.describe_change_set(ChangeSetName=made["Id"]))

    empty = change_set({})
    assert (empty["Status"], empty["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    export = f"{name}-url"
    asked = change_set({"Url": {"Value": {REF: "Jobs"}, "Export": {"Name": export}}})
    assert (asked["Status"], asked["ExecutionStatus"], asked["Changes"]) == ("CREATE_COMPLETE", "AVAILABLE", [])
    stacks.api.execute_change_set(ChangeSetName=asked["ChangeSetId"])
    stacks.settle(name)
    assert export in [export["Name"] for export in stacks.api.list_exports()["Exports"]]


def test_another_ami_in_the_template_is_a_software_update(emulator: Emulator, stacks: Stacks) -> None:
    """As the schema says of ImageReleaseVersion: "Only an explicit change to this value in the template" does it."""

    def of(**image: str) -> Json:
        changed = cluster(2)
        changed["Properties"]["InstanceGroups"][0] |= image
        return {"Cluster": changed}

    def nodes() -> list[tuple[str, bool]]:
        listed = emulator.boto("sagemaker").list_cluster_nodes(ClusterName=arn)["ClusterNodeSummaries"]
        described = [
            emulator.boto("sagemaker").describe_cluster_node(ClusterName=arn, NodeId=node["InstanceId"])["NodeDetails"]
            for node in listed
        ]
        return [(node["CurrentImageReleaseVersion"], "LastSoftwareUpdateTime" in node) for node in described]

    name = stacks.create(of())
    arn = stacks.ids(name)["Cluster"]
    assert nodes() == [("1.0.0", False)] * 2
    stacks.update(name, of(ImageReleaseVersion="7.2.1"))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    assert nodes() == [("7.2.1", True)] * 2
    own = "ami-0a1b2c3d4e5f60718"
    stacks.update(name, of(ImageId=own))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    (described,) = emulator.boto("sagemaker").describe_cluster(ClusterName=arn)["InstanceGroups"]
    assert (described["CurrentImageId"], described["DesiredImageId"]) == (own, own)
