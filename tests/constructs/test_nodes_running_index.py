"""The handler that waits for first nodes, against SageMaker answers that botocore's own model accepts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from botocore.stub import Stubber

from tests.constructs.handlers import stubbed
from tests.support.service_models import values_of

PROPERTIES = {"ClusterName": "ray-dev", "InstanceGroupName": "head", "InstanceType": "ml.m5.2xlarge"}


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, Stubber]]:
    with stubbed("nodes_running", "sagemaker", monkeypatch) as both:
        yield both


def node(name: str, status: str, *, group: str = "head", kind: str = "ml.m5.2xlarge") -> dict[str, Any]:
    return {
        "InstanceGroupName": group,
        "InstanceId": name,
        "InstanceType": kind,
        "LaunchTime": datetime(2026, 11, 22, tzinfo=UTC),
        "InstanceStatus": {"Status": status},
    }


def answer(stub: Stubber, *nodes: dict[str, Any], more: str = "", token: str = "") -> None:
    asked = {"ClusterName": "ray-dev", "InstanceGroupNameContains": "head"} | ({"NextToken": token} if token else {})
    given = {"ClusterNodeSummaries": list(nodes), "NextToken": more}
    stub.add_response("list_cluster_nodes", given, asked)


def ask(module: ModuleType, request: str) -> bool:
    found = module.is_complete({"RequestType": request, "ResourceProperties": PROPERTIES}, None)
    return bool(found["IsComplete"])


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_it_waits_until_one_node_runs(handler: tuple[ModuleType, Stubber], request_type: str) -> None:
    module, stub = handler
    answer(stub)
    answer(stub, node("i-1", "Pending"), node("i-2", "DeepHealthCheckInProgress"))
    answer(stub, node("i-1", "Running"), node("i-2", "Pending"))
    assert [ask(module, request_type) for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    "other",
    [node("i-1", "Running", group="heads"), node("i-1", "Running", kind="ml.m5.4xlarge"), node("i-1", "Failure")],
    ids=["a group whose name contains it", "the type before a change", "a failed node"],
)
def test_other_nodes_do_not_count(handler: tuple[ModuleType, Stubber], other: dict[str, Any]) -> None:
    module, stub = handler
    answer(stub, other)
    assert not ask(module, "Create")


@pytest.mark.parametrize("status", sorted(values_of("sagemaker", "ClusterInstanceStatus")))
def test_a_node_counts_in_one_state_alone(handler: tuple[ModuleType, Stubber], status: str) -> None:
    """Every state of botocore's model, of which pods are scheduled in one.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceStatusDetails.html
    """
    module, stub = handler
    answer(stub, node("i-1", status))
    assert ask(module, "Create") is (status == "Running")


def test_every_page_is_looked_at(handler: tuple[ModuleType, Stubber]) -> None:
    module, stub = handler
    answer(stub, node("i-1", "Pending"), more="next")
    answer(stub, node("i-2", "Running"), token="next")
    assert ask(module, "Create")


def test_delete_asks_nothing(handler: tuple[ModuleType, Stubber]) -> None:
    module, _ = handler
    assert ask(module, "Delete")
    assert module.on_event({"RequestType": "Delete", "PhysicalResourceId": "x"}, None) == {"PhysicalResourceId": "x"}
    first = module.on_event({"RequestType": "Create"}, None)
    assert first == module.on_event({"RequestType": "Create"}, None) != {"PhysicalResourceId": ""}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([], "not running yet: no node\n"),
        ([node("i-2", "Pending"), node("i-1", "Failure")], "not running yet: i-1 Failure, i-2 Pending\n"),
        ([node("i-1", "Running")], ""),
    ],
)
def test_the_log_says_what_is_waited_for(
    handler: tuple[ModuleType, Stubber], capsys: pytest.CaptureFixture[str], nodes: list[dict[str, Any]], said: str
) -> None:
    """While a stack is in progress, the function's log is all that an operator sees."""
    module, stub = handler
    answer(stub, *nodes)
    ask(module, "Create")
    assert capsys.readouterr().out == said
