"""The handler that waits, against EC2 answers that botocore's own model accepts."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from botocore.stub import Stubber

from tests.constructs.handlers import stubbed
from tests.support.service_models import values_of

PROPERTIES = {"TagKey": "hyperpod-ray:environment", "TagValue": "dev"}
FILTERS = [
    {"Name": "tag:hyperpod-ray:environment", "Values": ["dev"]},
    {"Name": "tag-key", "Values": ["CSIVolumeName"]},
]
LEFT = {"VolumeId": "vol-0123456789abcdef0", "State": "in-use"}


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, Stubber]]:
    with stubbed("volumes_of_claims", "ec2", monkeypatch) as both:
        yield both


def ask(module: ModuleType, request: str) -> bool:
    event = {"RequestType": request, "ResourceType": "Custom::VolumesOfClaims", "ResourceProperties": PROPERTIES}
    return bool(module.is_complete(event, None)["IsComplete"])


def look(stub: Stubber, volumes: list[dict[str, Any]], token: str = "", *, after: str = "") -> None:
    answer = {"Volumes": volumes} | ({"NextToken": token} if token else {})
    stub.add_response("describe_volumes", answer, {"Filters": FILTERS} | ({"NextToken": after} if after else {}))


def test_create_and_update_wait_for_nothing(handler: tuple[ModuleType, Stubber]) -> None:
    module, _ = handler
    assert ask(module, "Create")
    assert ask(module, "Update")


def test_delete_waits_while_a_volume_of_the_environment_is_there(handler: tuple[ModuleType, Stubber]) -> None:
    module, stub = handler
    look(stub, [LEFT])
    look(stub, [])
    assert not ask(module, "Delete")
    assert ask(module, "Delete")


STATES = sorted(values_of("ec2", "VolumeState"))
"""Every state of a volume, by botocore's model of the service."""


@pytest.mark.parametrize("state", [state for state in STATES if state != "deleted"])
def test_delete_waits_in_every_state_of_a_volume(handler: tuple[ModuleType, Stubber], state: str) -> None:
    """A volume that is detached (`available`) is there and costs.

    https://docs.aws.amazon.com/ebs/latest/userguide/ebs-describing-volumes.html#volume-state
    """
    module, stub = handler
    look(stub, [{**LEFT, "State": state}])
    assert not ask(module, "Delete")


def test_delete_looks_at_every_page(handler: tuple[ModuleType, Stubber]) -> None:
    module, stub = handler
    look(stub, [], token="more")
    look(stub, [LEFT], after="more")
    assert not ask(module, "Delete")


def test_the_resource_keeps_its_identifier(handler: tuple[ModuleType, Stubber]) -> None:
    module, _ = handler
    first = module.on_event({"RequestType": "Create"}, None)["PhysicalResourceId"]
    assert module.on_event({"RequestType": "Delete", "PhysicalResourceId": first}, None)["PhysicalResourceId"] == first


@pytest.mark.parametrize(
    ("volumes", "said"),
    [
        ([], "still there: none\n"),
        (
            [{**LEFT, "VolumeId": "vol-1", "State": "deleting"}, LEFT],
            "still there: vol-0123456789abcdef0 in-use, vol-1 deleting\n",
        ),
    ],
)
def test_the_log_says_what_is_left(
    handler: tuple[ModuleType, Stubber],
    capsys: pytest.CaptureFixture[str],
    volumes: list[dict[str, Any]],
    said: str,
) -> None:
    """While a stack is being destroyed, the function's log is all that an operator sees."""
    module, stub = handler
    look(stub, volumes)
    ask(module, "Delete")
    assert capsys.readouterr().out == said
