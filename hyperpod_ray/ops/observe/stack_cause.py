"""Why a stack failed: the resource that failed first, in its own words."""

from __future__ import annotations

from dataclasses import replace

from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.reach.clients import AnyTarget, Json

_BEGINNINGS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS", "IMPORT_IN_PROGRESS")


def with_cause(target: AnyTarget, stack: Stack) -> Stack:
    """The stack with what failed in its last operation; a failure to ask leaves it as it is."""
    if "FAILED" not in stack.status and "ROLLBACK" not in stack.status:
        return stack
    try:
        events = target.aws.call("cloudformation", "describe_stack_events", StackName=stack.name)["StackEvents"]
    except Exception:  # the state alone is worth showing
        return stack
    resource, reason = first_failure(events, stack=stack.name)
    return replace(stack, failed_resource=resource, failed_reason=reason)


def first_failure(events: list[Json], *, stack: str) -> tuple[str, str]:
    """The resource that failed first in a stack's last operation, and its own words, from events newest first.

    What was only cancelled because another resource failed is no cause, and neither is the stack itself.
    """
    cause: Json | None = None
    for event in events:
        status, itself = event.get("ResourceStatus", ""), event.get("LogicalResourceId") == stack
        if itself and status in _BEGINNINGS:
            break
        reason = event.get("ResourceStatusReason", "")
        if status.endswith("_FAILED") and not itself and "cancelled" not in reason.lower():
            cause = event
    if cause is None:
        return "", ""
    resource = f"{cause['LogicalResourceId']} ({cause.get('ResourceType', '')})"
    return resource, cause.get("ResourceStatusReason", "")
