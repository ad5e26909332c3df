"""What tests of `bill`, `ops_account` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.world import environment_text

Json = dict[str, Any]


class Account:
    """Answers of CloudFormation, FSx and EKS.

    Args:
        stacks: As `DescribeStacks` lists them.
        file_systems: As `DescribeFileSystems` lists them.
        refuses: Operations that these credentials may not call.
    """

    def __init__(self, *, stacks: list[Json] | None = None, file_systems: list[Json] | None = None) -> None:
        self.stacks = {stack["StackName"]: stack for stack in stacks or []}
        self.file_systems = file_systems or []
        self.refuses: set[str] = set()

    def pages(self, service: str, operation: str, key: str, **_: Any) -> list[Json]:
        if operation in self.refuses:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeStacks")
        assert (service, key) in {("cloudformation", "Stacks"), ("fsx", "FileSystems")}
        return list(self.stacks.values()) if key == "Stacks" else self.file_systems

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        if operation == "describe_stack_events":
            return {"StackEvents": []}
        assert (service, operation) == ("cloudformation", "describe_stacks")
        name = arguments["StackName"]
        if name not in self.stacks:
            message = f"Stack with id {name} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        return {"Stacks": [self.stacks[name]]}


def of(made: Account, text: str = "") -> Target:
    target = Target(parse(text or environment_text(), name="demo", path=Path("demo.yaml")))
    target.aws = made  # type: ignore[assignment]
    return target


def stack(name: str, status: str = "CREATE_COMPLETE", *tags: Json, **more: Any) -> Json:
    return {"StackName": name, "StackStatus": status, "Tags": list(tags), **more}
