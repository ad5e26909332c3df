"""Starting, stopping and losing an emulator: nothing stays behind, and two never share a folder."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest

from tests.sandbox.aws.lifecycle_helpers import objects
from tests.support import roles
from tests.support.emulator import Emulator, running, until

pytestmark = pytest.mark.emulator


@pytest.mark.slow
@pytest.mark.parametrize("region", ["eu-central-1", "us-east-2"])
def test_nodes_join_in_every_region(tmp_path: Path, region: str) -> None:
    with running(tmp_path / "aws", region=region) as emulator:
        eks, sagemaker, ec2 = (emulator.boto(name) for name in ("eks", "sagemaker", "ec2"))
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet, other = (
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=f"{region}{zone}")["Subnet"]
            for i, zone in enumerate("ab")
        )
        roles.way_out(ec2, vpc, other["SubnetId"])
        group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
        role = roles.node_role(emulator.boto("iam"))
        made = eks.create_cluster(
            name="ray", roleArn=roles.cluster_role(emulator.boto("iam")), accessConfig={"authenticationMode": "API"},
            resourcesVpcConfig={"subnetIds": [subnet["SubnetId"], other["SubnetId"]], "securityGroupIds": [group]},
        )["cluster"]  # fmt: skip
        until(lambda: eks.describe_cluster(name="ray")["cluster"]["status"] == "ACTIVE")
        s3 = emulator.boto("s3")
        s3.create_bucket(Bucket="sagemaker-scripts", CreateBucketConfiguration={"LocationConstraint": region})
        s3.put_object(Bucket="sagemaker-scripts", Key="on_create.sh", Body=b"#!/bin/sh\n")
        sagemaker.create_cluster(
            ClusterName="ray", Orchestrator={"Eks": {"ClusterArn": made["arn"]}},
            VpcConfig={"SecurityGroupIds": [group], "Subnets": [subnet["SubnetId"]]},
            InstanceGroups=[
                {"InstanceGroupName": "head", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1,
                 "ExecutionRole": role,
                 "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts", "OnCreate": "on_create.sh"}},
            ],
        )  # fmt: skip
        (node,) = until(lambda: objects(emulator.running, "get", "nodes")["items"])
        assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == region
        assert boto3.Session().region_name != region, "the region came with the request"


def test_a_stack_has_ended_when_a_call_that_began_it_answers(emulator: Emulator) -> None:
    """The cdk CLI looks once more and goes on; without this it would sleep for five seconds first."""
    stacks = emulator.boto("cloudformation")

    def seen_after_deletion(name: str) -> str:
        emulator.control.set_fault(operation="AWS::SQS::Queue.delete", delay_seconds=0.5)
        stacks.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}))
        until(lambda: stacks.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE")
        identifier = stacks.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        stacks.delete_stack(StackName=name)
        return str(stacks.describe_stacks(StackName=identifier)["Stacks"][0]["StackStatus"])

    # a machine may be so busy that half a second's work takes longer than the answer waits; not ten times
    assert any(seen_after_deletion(f"quick-{number}") == "DELETE_COMPLETE" for number in range(10))


def test_a_long_deletion_is_not_waited_for(emulator: Emulator) -> None:
    stacks = emulator.boto("cloudformation")
    emulator.control.set_fault(operation="AWS::SQS::Queue.delete", delay_seconds=7200)
    stacks.create_stack(StackName="long", TemplateBody=json.dumps({"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}))
    until(lambda: stacks.describe_stacks(StackName="long")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE")
    identifier = stacks.describe_stacks(StackName="long")["Stacks"][0]["StackId"]
    stacks.delete_stack(StackName="long")
    assert stacks.describe_stacks(StackName=identifier)["Stacks"][0]["StackStatus"] == "DELETE_IN_PROGRESS"
    emulator.control.clear_faults()
    until(lambda: stacks.describe_stacks(StackName=identifier)["Stacks"][0]["StackStatus"] == "DELETE_COMPLETE")
