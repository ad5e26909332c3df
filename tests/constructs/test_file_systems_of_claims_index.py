"""The handler that waits, against FSx answers that botocore's own model accepts."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from botocore.stub import Stubber

from tests.constructs.handlers import stubbed
from tests.support.service_models import values_of

PROPERTIES = {"TagKey": "hyperpod-ray:environment", "TagValue": "dev"}
LIFECYCLES = sorted(values_of("fsx", "FileSystemLifecycle"))
"""Every state of a file system, by botocore's model of the service."""
READY = {"AVAILABLE", "UPDATING"}
"""States in which a file system can be mounted.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/file-system-lifecycle-states.html"""


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, Stubber]]:
    with stubbed("file_systems_of_claims", "fsx", monkeypatch) as both:
        yield both


def file_system(name: str, lifecycle: str = "DELETING", **tags: str) -> dict[str, Any]:
    named = {key.replace("__", ":").replace("_", "-"): value for key, value in tags.items()}
    answer: dict[str, Any] = {"FileSystemId": name, "Lifecycle": lifecycle}
    # FSx leaves the key out where there is no tag
    return answer | ({"Tags": [{"Key": key, "Value": value} for key, value in named.items()]} if named else {})


def ask(module: ModuleType, request: str, *, kind: str = "Custom::FileSystemsOfClaims") -> bool:
    event = {"RequestType": request, "ResourceType": kind, "ResourceProperties": PROPERTIES}
    answer = module.is_complete(event, None)
    return bool(answer["IsComplete"])


def test_create_and_update_wait_for_nothing(handler: tuple[ModuleType, Stubber]) -> None:
    module, _ = handler
    assert ask(module, "Create")
    assert ask(module, "Update")


def test_delete_waits_while_a_claims_file_system_is_there(handler: tuple[ModuleType, Stubber]) -> None:
    module, stub = handler
    left = file_system("fs-0123456789abcdef0", hyperpod_ray__environment="dev", CSIVolumeName="pvc-1")
    stub.add_response("describe_file_systems", {"FileSystems": [left]})
    stub.add_response("describe_file_systems", {"FileSystems": []})
    assert not ask(module, "Delete")
    assert ask(module, "Delete")


def test_delete_looks_at_every_page(handler: tuple[ModuleType, Stubber]) -> None:
    module, stub = handler
    left = file_system("fs-0123456789abcdef0", hyperpod_ray__environment="dev", CSIVolumeName="pvc-1")
    stub.add_response("describe_file_systems", {"FileSystems": [], "NextToken": "more"})
    stub.add_response("describe_file_systems", {"FileSystems": [left]})
    assert not ask(module, "Delete")


@pytest.mark.parametrize(
    "other",
    [
        file_system("fs-0123456789abcdef1", hyperpod_ray__environment="prod", CSIVolumeName="pvc-1"),
        file_system("fs-0123456789abcdef2", hyperpod_ray__environment="dev"),
        file_system("fs-0123456789abcdef3"),
    ],
    ids=["another environment's", "made by a stack", "somebody else's"],
)
def test_delete_does_not_wait_for_others(handler: tuple[ModuleType, Stubber], other: dict[str, Any]) -> None:
    module, stub = handler
    stub.add_response("describe_file_systems", {"FileSystems": [other]})
    assert ask(module, "Delete")


def test_the_physical_id_stays(handler: tuple[ModuleType, Stubber]) -> None:
    module, _ = handler
    first = module.on_event({"RequestType": "Create"}, None)["PhysicalResourceId"]
    event = {"RequestType": "Update", "PhysicalResourceId": first}
    assert module.on_event(event, None)["PhysicalResourceId"] == first


def test_a_deploy_waits_until_the_claims_file_system_is_there(handler: tuple[ModuleType, Stubber]) -> None:
    module, stub = handler
    tags = {"hyperpod_ray__environment": "dev", "CSIVolumeName": "pvc-1"}
    others = file_system("fs-0123456789abcdef1", "AVAILABLE", hyperpod_ray__environment="prod", CSIVolumeName="pvc-2")
    for found in ([others], [others, file_system("fs-0123456789abcdef0", "CREATING", **tags)]):
        stub.add_response("describe_file_systems", {"FileSystems": found})
        assert not ask(module, "Create", kind=module.MADE)
    ready = file_system("fs-0123456789abcdef0", "AVAILABLE", **tags)
    stub.add_response("describe_file_systems", {"FileSystems": [ready]})
    assert ask(module, "Create", kind=module.MADE)
    for request in ("Update", "Delete"):
        assert ask(module, request, kind=module.MADE), "asks nothing"


def test_a_file_system_that_failed_ends_the_deploy(handler: tuple[ModuleType, Stubber]) -> None:
    module, stub = handler
    failed = file_system("fs-0123456789abcdef0", "FAILED", hyperpod_ray__environment="dev", CSIVolumeName="pvc-1")
    stub.add_response("describe_file_systems", {"FileSystems": [failed]})
    with pytest.raises(RuntimeError, match=r"fs-0123456789abcdef0 failed\. See FailureDetails"):
        ask(module, "Create", kind=module.MADE)


@pytest.mark.parametrize(
    ("kind", "request_type", "states", "said"),
    [
        ("Custom::FileSystemsOfClaims", "Delete", [], "still there: none\n"),
        (
            "Custom::FileSystemsOfClaims", "Delete", ["DELETING", "AVAILABLE"],
            "still there: fs-00000000000000000 DELETING, fs-00000000000000001 AVAILABLE\n",
        ),
        ("Custom::FileSystemOfClaim", "Create", [], "to be made: none\n"),
        ("Custom::FileSystemOfClaim", "Create", ["CREATING"], "to be made: fs-00000000000000000 CREATING\n"),
        ("Custom::FileSystemOfClaim", "Delete", ["CREATING"], ""),
    ],
)  # fmt: skip
def test_the_log_says_what_is_waited_for(
    *,
    handler: tuple[ModuleType, Stubber],
    capsys: pytest.CaptureFixture[str],
    kind: str,
    request_type: str,
    states: list[str],
    said: str,
) -> None:
    """While a stack is in progress, the function's log is all that an operator sees."""
    module, stub = handler
    listed = [
        file_system(f"fs-{number:017}", state, hyperpod_ray__environment="dev", CSIVolumeName=f"pvc-{number}")
        for number, state in enumerate(states)
    ]
    if said:
        stub.add_response("describe_file_systems", {"FileSystems": listed[::-1]})
    ask(module, request_type, kind=kind)
    assert capsys.readouterr().out == said


def of_claim(number: int, lifecycle: str) -> dict[str, Any]:
    tags = {"hyperpod_ray__environment": "dev", "CSIVolumeName": f"pvc-{number}"}
    return file_system(f"fs-{number:017}", lifecycle, **tags)


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_delete_waits_in_every_state_of_a_file_system(handler: tuple[ModuleType, Stubber], lifecycle: str) -> None:
    """FSx lists a file system until it is gone, with its interface in the VPC."""
    module, stub = handler
    stub.add_response("describe_file_systems", {"FileSystems": [of_claim(0, lifecycle)]})
    assert not ask(module, "Delete")


@pytest.mark.parametrize("lifecycle", [lifecycle for lifecycle in LIFECYCLES if lifecycle != "FAILED"])
def test_a_deploy_waits_for_each_of_several_file_systems(handler: tuple[ModuleType, Stubber], lifecycle: str) -> None:
    """One that is there from before says nothing of the one that the claim makes."""
    module, stub = handler
    for others in ([], ["AVAILABLE"], ["UPDATING"]):
        listed = [of_claim(number, state) for number, state in enumerate([*others, lifecycle])]
        stub.add_response("describe_file_systems", {"FileSystems": listed})
        assert ask(module, "Create", kind=module.MADE) is (lifecycle in READY), others


@pytest.mark.parametrize("others", [["AVAILABLE"], ["CREATING"], ["FAILED"]])
def test_one_that_failed_ends_the_deploy_beside_others(handler: tuple[ModuleType, Stubber], others: list[str]) -> None:
    module, stub = handler
    listed = [of_claim(number, state) for number, state in enumerate([*others, "FAILED"])]
    stub.add_response("describe_file_systems", {"FileSystems": listed})
    failed = [each["FileSystemId"] for each in listed if each["Lifecycle"] == "FAILED"]
    with pytest.raises(RuntimeError) as refused:
        ask(module, "Create", kind=module.MADE)
    assert str(refused.value).startswith(f"{', '.join(failed)} failed. ")


def test_a_deploy_looks_at_every_page(handler: tuple[ModuleType, Stubber]) -> None:
    module, stub = handler
    stub.add_response("describe_file_systems", {"FileSystems": [of_claim(0, "AVAILABLE")], "NextToken": "more"})
    stub.add_response("describe_file_systems", {"FileSystems": [of_claim(1, "CREATING")]})
    assert not ask(module, "Create", kind=module.MADE)
