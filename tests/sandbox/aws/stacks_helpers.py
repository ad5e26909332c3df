"""What tests of resources in templates share: stacks that are removed afterwards."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from tests.support.emulator import Emulator, until

Json = dict[str, Any]


REF = "Ref"


class Stacks:
    """Makes stacks and removes them afterwards."""

    def __init__(self, emulator: Emulator) -> None:
        self.api = emulator.boto("cloudformation")
        self.made: list[str] = []

    def create(self, resources: Json) -> str:
        name = f"s-{uuid.uuid4().hex[:8]}"
        self.api.create_stack(StackName=name, TemplateBody=_template(resources), Capabilities=["CAPABILITY_NAMED_IAM"])
        self.made.append(name)
        self.settle(name)
        return name

    def update(self, name: str, resources: Json) -> None:
        self.api.update_stack(StackName=name, TemplateBody=_template(resources), Capabilities=["CAPABILITY_NAMED_IAM"])
        self.settle(name)

    def delete(self, name: str) -> str:
        self.api.delete_stack(StackName=name)
        return self.settle(name)

    def settle(self, name: str) -> str:
        until(lambda: not self.status(name).endswith("IN_PROGRESS"))
        return self.status(name)

    def status(self, name: str) -> str:
        try:
            return str(self.api.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
        except botocore.exceptions.ClientError:
            return "DELETE_COMPLETE"

    def ids(self, name: str) -> dict[str, str]:
        found = self.api.describe_stack_resources(StackName=name)["StackResources"]
        return {r["LogicalResourceId"]: r.get("PhysicalResourceId", "") for r in found}

    def reasons(self, name: str) -> str:
        events = self.api.describe_stack_events(StackName=name)["StackEvents"]
        return " ".join(e.get("ResourceStatusReason", "") for e in events)


@pytest.fixture
def stacks(emulator: Emulator) -> Iterator[Stacks]:
    made = Stacks(emulator)
    yield made
    emulator.control.clear_faults()
    for name in reversed(made.made):
        assert made.delete(name) == "DELETE_COMPLETE"


def _template(resources: Json) -> str:
    return json.dumps({"Resources": resources})


def ref(name: str) -> Json:
    return {REF: name}


NETWORK: Json = {
    "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.8.0.0/16"}},
    "Subnet": {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": ref("Vpc"), "CidrBlock": "10.8.1.0/24", "AvailabilityZoneId": "usw2-az2"},
    },
    "Nodes": {
        "Type": "AWS::EC2::SecurityGroup",
        "Properties": {"GroupDescription": "nodes", "VpcId": ref("Vpc")},
    },
}


def cluster(count: int = 1, **more: Any) -> Json:
    group = {
        "InstanceGroupName": "gpu",
        "InstanceType": "ml.g5.8xlarge",
        "InstanceCount": str(count),  # CloudFormation hands numbers over as text
        "ExecutionRole": "arn:aws:iam::000000000001:role/execution",
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/", "OnCreate": "a.sh"},
    }
    return {"Type": "AWS::SageMaker::Cluster", "Properties": {"InstanceGroups": [group], **more}}
