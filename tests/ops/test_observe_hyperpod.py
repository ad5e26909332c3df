"""What an event of HyperPod says: every failure message of its metadata, whichever part of the cluster it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest

from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.snapshot import ClusterEvent

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PLAIN: dict[str, Any] = {"EventId": "e-1", "EventTime": AT}
PARTS = tuple(
    botocore.session.get_session().get_service_model("sagemaker").shape_for("EventMetadata").members  # type: ignore[attr-defined]
)
"""Of whom an event may be, by the service's own model."""


@pytest.mark.parametrize("part", PARTS)
def test_the_failure_of_each_part_is_read(part: str) -> None:
    details = {"EventMetadata": {part: {"FailureMessage": "Xid 79"}}}
    assert hyperpod._event({**PLAIN, "EventDetails": details}).failure == "Xid 79"


def test_several_failures_are_one_line_and_parts_without_one_are_none() -> None:
    parts = [
        {"FailureMessage": "first"},
        {"FailureMessage": ""},
        {"InstanceId": "i-1"},
        "text",
        {"FailureMessage": "b"},
    ]
    metadata = {str(number): part for number, part in enumerate(parts)}
    assert hyperpod._event({**PLAIN, "EventDetails": {"EventMetadata": metadata}}).failure == "first; b"


def test_an_event_of_few_words_has_defaults_and_one_of_many_has_them() -> None:
    usual = {"id": "e-1", "time": AT, "level": "Info", "description": "", "resource": "Cluster"}
    assert hyperpod._event(PLAIN) == ClusterEvent(**usual, group="", instance="", failure="")  # type: ignore[arg-type]
    full = {
        "EventLevel": "Error", "Description": "a fault", "ResourceType": "Instance", "InstanceGroupName": "workers",
        "InstanceId": "i-1",
    }  # fmt: skip
    assert hyperpod._event({**PLAIN, **full}) == ClusterEvent(
        id="e-1", time=AT, level="Error", description="a fault", resource="Instance", group="workers", instance="i-1",
        failure="",
    )  # fmt: skip
