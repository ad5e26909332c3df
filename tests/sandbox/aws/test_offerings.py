"""What EC2 and EKS say that they offer, and the stack of a resource."""

from __future__ import annotations

import uuid

import botocore.exceptions
import pytest

from tests.sandbox.aws.stacks_helpers import Stacks

pytestmark = pytest.mark.emulator


def test_the_stack_of_a_resource_is_found_by_its_physical_id(stacks: Stacks) -> None:
    name = f"/found-{uuid.uuid4().hex[:8]}"
    group = {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Retain", "Properties": {"LogGroupName": name}}
    made = stacks.create({"Group": group})
    (resource,) = stacks.api.describe_stack_resources(PhysicalResourceId=name)["StackResources"]
    assert resource["StackName"] == made
    stacks.delete(made)
    with pytest.raises(botocore.exceptions.ClientError, match=f"Stack for {name} does not exist"):
        stacks.api.describe_stack_resources(PhysicalResourceId=name)
