from __future__ import annotations

from hyperpod_ray.ops.observe.stack_cause import first_failure
from tests.ops.ops_sources_helpers import Json


def event(resource: str, status: str, reason: str = "") -> Json:
    return {
        "LogicalResourceId": resource, "ResourceType": "AWS::X::Y", "ResourceStatus": status,
        "ResourceStatusReason": reason,
    }  # fmt: skip


def test_the_first_failure_of_the_last_operation_is_the_cause() -> None:
    newest_first = [
        event("demo-Ray", "UPDATE_ROLLBACK_COMPLETE"),
        event("B", "UPDATE_FAILED", "Resource update cancelled"),
        event("C", "CREATE_FAILED", "later"),
        event("A", "UPDATE_FAILED", "spec is immutable"),
        event("D", "UPDATE_FAILED", "Resource update cancelled"),
        event("demo-Ray", "UPDATE_IN_PROGRESS", "User Initiated"),
        event("Old", "CREATE_FAILED", "of another day"),
        event("demo-Ray", "CREATE_IN_PROGRESS"),
    ]
    assert first_failure(newest_first, stack="demo-Ray") == ("A (AWS::X::Y)", "spec is immutable")
    assert first_failure([event("demo-Ray", "ROLLBACK_COMPLETE")], stack="demo-Ray") == ("", "")
