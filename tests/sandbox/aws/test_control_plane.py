from __future__ import annotations

import json
import time

import botocore.exceptions
import pytest

from hyperpod_ray_sandbox.aws.client import ControlError
from tests.support.emulator import Emulator, outside, until

pytestmark = pytest.mark.emulator


# operations that the local Kubernetes API does not call by itself: it would use up the faults of those
@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("kms.ListKeys", lambda e: e.boto("kms").list_keys()),  # JSON
        ("ec2.DescribeVpcs", lambda e: e.boto("ec2").describe_vpcs()),  # EC2's query protocol
        ("iam.ListRoles", lambda e: e.boto("iam").list_roles()),  # query protocol
        ("lambda.ListFunctions", lambda e: e.boto("lambda").list_functions()),  # REST with JSON
        ("s3.ListBuckets", lambda e: e.boto("s3").list_buckets()),  # REST with XML
        ("cloudformation.*", lambda e: e.boto("cloudformation").list_stacks()),
    ],
)
def test_a_fault_strikes_as_often_as_asked_in_every_protocol(emulator: Emulator, operation: str, call) -> None:  # type: ignore[no-untyped-def]
    emulator.control.set_fault(operation=operation, code="ThrottlingException", message="slow down", count=2)
    for _ in range(2):
        with pytest.raises(botocore.exceptions.ClientError) as error:
            call(emulator)
        assert error.value.response["Error"]["Code"] == "ThrottlingException"
        assert error.value.response["Error"]["Message"] == "slow down"
    call(emulator)
    assert emulator.control.faults() == []


def test_a_delay_delays_and_the_call_succeeds(emulator: Emulator) -> None:
    emulator.control.set_fault(operation="kms.ListKeys", delay_seconds=0.5)
    start = time.monotonic()
    emulator.boto("kms").list_keys()
    assert time.monotonic() - start >= 0.5  # a lower bound: a slow machine cannot break it


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"operation": "CreateCluster", "code": "X"}, "service.Operation"),
        ({"operation": "a.B"}, "does nothing"),
        ({"operation": "a.B", "effect": "explode"}, "expected one of"),
        ({"operation": "a.B", "colour": "red"}, "no 'colour'"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(emulator: Emulator, fault: dict[str, str], said: str) -> None:
    with pytest.raises(ControlError, match=said):
        emulator.control.set_fault(**fault)


def test_the_client_environment_names_only_loopback(emulator: Emulator) -> None:
    assert outside(emulator.control.environment()) == set()


def test_an_empty_account_has_an_empty_inventory(emulator: Emulator) -> None:
    sqs = emulator.boto("sqs")
    url = sqs.create_queue(QueueName="seen")["QueueUrl"]
    assert "AWS::SQS::Queue" in {r["type"] for r in emulator.control.inventory()}
    sqs.delete_queue(QueueUrl=url)
    assert "AWS::SQS::Queue" not in {r["type"] for r in emulator.control.inventory()}


def test_a_state_machine_waits_a_twentieth_of_its_seconds(emulator: Emulator) -> None:
    """The waiters of custom resources ask every 20 seconds, for what takes a state here."""
    api, iam = emulator.boto("stepfunctions"), emulator.boto("iam")
    trust = {"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="waits", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    states = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 40, "End": True}}}
    machine = api.create_state_machine(name="waits", definition=json.dumps(states), roleArn=role)["stateMachineArn"]
    execution = api.start_execution(stateMachineArn=machine)["executionArn"]
    until(lambda: api.describe_execution(executionArn=execution)["status"] == "SUCCEEDED")
    described = api.describe_execution(executionArn=execution)
    assert 1.9 < (described["stopDate"] - described["startDate"]).total_seconds() < 40
    api.delete_state_machine(stateMachineArn=machine)
    iam.delete_role(RoleName="waits")
