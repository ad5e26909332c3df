"""What tests of HyperPod's clusters share: clusters that are deleted when the test is over."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from tests.support.emulator import Emulator, until

ROLE = "arn:aws:iam::000000000001:role/execution"


def group(name: str = "gpu", *, count: int = 2, kind: str = "ml.g5.8xlarge", **more: Any) -> dict[str, Any]:
    script = {"SourceS3Uri": "s3://sagemaker-scripts/a/", "OnCreate": "on_create.sh"}
    given = {"InstanceType": kind, "LifeCycleConfig": script, **more}
    return {"InstanceGroupName": name, "InstanceCount": count, "ExecutionRole": ROLE, **given}


class Clusters:
    """Makes clusters that are deleted when the test is over."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.api = emulator.boto("sagemaker")
        self.made: list[str] = []

    def create(self, *groups: dict[str, Any], wait: bool = True, **more: Any) -> str:
        name = f"c-{uuid.uuid4().hex[:8]}"
        self.api.create_cluster(ClusterName=name, InstanceGroups=list(groups), **more)
        self.made.append(name)
        if wait:
            until(lambda: self.status(name) == "InService")
        return name

    def status(self, name: str) -> str:
        return str(self.api.describe_cluster(ClusterName=name)["ClusterStatus"])

    def nodes(self, name: str) -> dict[str, str]:
        found = self.api.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
        return {n["InstanceId"]: n["InstanceStatus"]["Status"] for n in found}

    def running(self, name: str) -> set[str]:
        return {node for node, status in self.nodes(name).items() if status == "Running"}

    def all_running(self, name: str, count: int) -> set[str]:
        nodes = until(lambda: len(n := self.nodes(name)) == count and set(n.values()) == {"Running"} and set(n))
        assert isinstance(nodes, set)
        return nodes

    def gone(self, name: str) -> bool:
        try:
            self.status(name)
        except botocore.exceptions.ClientError as error:
            return bool(error.response["Error"]["Code"] == "ResourceNotFound")
        return False


@pytest.fixture
def clusters(emulator: Emulator) -> Iterator[Clusters]:
    made = Clusters(emulator)
    yield made
    emulator.control.clear_faults()
    for name in made.made:
        if not made.gone(name):
            until(lambda name=name: made.status(name) != "Updating")  # type: ignore[misc]
            made.api.delete_cluster(ClusterName=name)
    until(lambda: all(made.gone(name) for name in made.made))


def code(error: pytest.ExceptionInfo[botocore.exceptions.ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])
