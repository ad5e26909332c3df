"""Prometheus workspaces that a destroy keeps are in the inventory, also those of earlier deploys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.change import inventory
from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.world import environment_text

LISTED = [
    {"workspaceId": "ws-1", "alias": "demo"},
    {"workspaceId": "ws-2", "alias": "demo"},
    {"workspaceId": "ws-3", "alias": "demo-two"},
    {"workspaceId": "ws-4"},
]


class Aws:
    """Amazon Managed Service for Prometheus: an alias is the beginning of one."""

    def __init__(self) -> None:
        self.asked = 0

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[dict[str, Any]]:
        assert (service, operation, key, arguments) == ("amp", "list_workspaces", "workspaces", {"alias": "demo"})
        client = boto3.client("amp", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
        shape = client.meta.service_model.operation_model("ListWorkspaces")
        assert set(arguments) <= set(shape.input_shape.members)
        assert key in shape.output_shape.members
        assert client.can_paginate(operation)
        self.asked += 1
        return [item for item in LISTED if str(item.get("alias", "")).startswith(arguments["alias"])]


def target(observability: dict[str, Any] | None) -> tuple[Target, Aws]:
    content = yaml.safe_load(environment_text())
    if observability is not None:
        content["observability"] = observability
    made = Target(parse(yaml.safe_dump(content), name="demo", path=Path("demo.yaml")))
    aws = Aws()
    made.aws = aws  # type: ignore[assignment]
    return made, aws


@pytest.mark.parametrize(("status", "note"), [("CREATE_COMPLETE", "on_destroy: retain"), ("", "--workspace-id ws-1")])
def test_kept_workspaces_are_listed_with_what_deletes_them(status: str, note: str) -> None:
    made, _ = target({"on_destroy": "retain"})
    found = inventory._workspaces(made, (Stack(name="demo-Platform", status=status),))
    assert [(item.id, item.fate) for item in found] == [("ws-1", "kept"), ("ws-2", "kept")]
    assert found[0].note.endswith(note)


@pytest.mark.parametrize("observability", [None, {}])
def test_where_none_is_kept_nobody_asks(observability: dict[str, Any] | None) -> None:
    made, aws = target(observability)
    assert inventory._workspaces(made, ()) == []
    assert aws.asked == 0


APPS = [
    {"Arn": "arn:aws:sagemaker:us-west-2:123456789012:mlflow-app/app-1", "Name": "demo"},
    {"Arn": "arn:aws:sagemaker:us-west-2:123456789012:mlflow-app/app-2", "Name": "theirs"},
]


class Apps:
    """SageMaker, which lists the apps of everybody."""

    def __init__(self) -> None:
        self.asked = 0

    def pages(self, *asked: str) -> list[dict[str, Any]]:
        assert asked == ("sagemaker", "list_mlflow_apps", "Summaries")
        client = boto3.client("sagemaker", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
        shape = client.meta.service_model.operation_model("ListMlflowApps").output_shape
        assert shape is not None
        assert asked[2] in shape.members
        assert client.can_paginate(asked[1])
        self.asked += 1
        return APPS


@pytest.mark.parametrize(
    ("tracking", "status", "note"),
    [
        ({"mlflow_app": {}}, "CREATE_COMPLETE", "ray.tracking.mlflow_app.on_destroy: retain"),
        ({"mlflow_app": {}}, "", f"delete-mlflow-app --arn {APPS[0]['Arn']}"),
        ({"mlflow_app": {"on_destroy": "delete"}}, "CREATE_COMPLETE", None),
        (None, "CREATE_COMPLETE", None),
    ],
)
def test_a_kept_mlflow_app_is_listed(tracking: dict[str, Any] | None, status: str, note: str | None) -> None:
    content = yaml.safe_load(environment_text())
    content["hyperpod"]["cluster_name"] = "demo"
    if tracking is not None:
        content["ray"]["tracking"] = tracking
    made = Target(parse(yaml.safe_dump(content), name="demo", path=Path("demo.yaml")))
    aws = Apps()
    made.aws = aws  # type: ignore[assignment]
    found = inventory._mlflow_apps(made, (Stack(name="demo-Ray", status=status),))
    assert [(item.id, item.fate) for item in found] == ([(APPS[0]["Arn"], "kept")] if note else [])
    assert aws.asked == (1 if note else 0)
    assert not note or found[0].note.endswith(note)
