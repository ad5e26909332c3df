"""Whose a name is that is taken: CloudFormation's answers, and its refusal of an ID that no stack has.

https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackResources.html
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core.checks.account.owners import ours, owner
from tests.core.environment_files import plan


def failure(code: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "DescribeStackResources")


class Account:
    """Answers one call."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, list[Any]()

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        self.calls.append((service, operation, arguments))
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: dict[str, Any] = self.answer
        return answer

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[dict[str, Any]]:
        raise NotImplementedError


def of(stack: str, physical_id: str) -> dict[str, str]:
    return {"StackName": stack, "PhysicalResourceId": physical_id}


@pytest.mark.parametrize(
    ("answer", "stack"),
    [
        # the answer has all resources of the stack, that one among them
        ({"StackResources": [of("prod-Network", "vpc-1"), of("prod-Storage", "data")]}, "prod-Storage"),
        ({"StackResources": [of("prod-Network", "vpc-1")]}, None),
        ({"StackResources": []}, None),
        ({}, None),
        (failure("ValidationError", "Stack for data does not exist"), None),
        (failure("ValidationError", "1 validation error detected"), None),
    ],
)
def test_the_stack_that_has_it(answer: Any, stack: str | None) -> None:
    account = Account(answer)
    assert owner(account, "data") == stack
    assert account.calls == [("cloudformation", "describe_stack_resources", {"PhysicalResourceId": "data"})]


def test_a_right_that_is_missing_is_no_answer() -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        owner(Account(failure("AccessDenied", "not authorized")), "data")


def test_the_stacks_of_an_environment_are_its_own() -> None:
    environment = plan()
    assert ours(environment, f"{environment.name}-Network")
    assert not ours(environment, "other-Network")
    assert not ours(environment, f"{environment.name}-Other")
