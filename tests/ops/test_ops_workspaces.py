"""Prometheus workspaces that a destroy keeps are in the inventory, also those of earlier deploys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from core.loader import parse
from ops import inventory
from ops.clients import Target
from ops.snapshot import Stack
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
