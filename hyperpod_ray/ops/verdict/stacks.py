"""Findings about what could not be seen, and about the stacks."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.ops.observe.snapshot import Snapshot, Stack
from hyperpod_ray.ops.verdict.finding import (
    DEAD_STACK,
    Finding,
    command,
    deploy,
)


def not_deployed(seen: Snapshot) -> Finding:
    """There is nothing."""
    return Finding(
        kind="action-required",
        what="not deployed: there is no stack and no cluster",
        next=f"{command(seen, 'preflight')}, then {deploy(seen)}",
    )


def unseen(seen: Snapshot) -> Iterator[Finding]:
    """Sources that did not answer."""
    creating = seen.cluster is None and any(stack.status.endswith("_IN_PROGRESS") for stack in seen.stacks)
    for item in seen.unseen:
        if item.source == "Kubernetes" and creating:
            continue  # said by the stacks
        if item.refused and item.source != "Kubernetes":
            yield Finding(kind="note", what=f"{item.source}: not yours to see", why=item.why, subject=item.source)
            continue
        yield Finding(
            kind="note" if item.laptop else "action-required",
            what=f"{item.source} could not be asked{' from this machine' if item.laptop else ''}",
            why=item.why,
            next=item.next,
            subject=item.source,
        )


def stacks(seen: Snapshot) -> Iterator[Finding]:
    """Stacks that are missing, under way or broken."""
    missing = [stack.name for stack in seen.stacks if not stack.status]
    for stack in seen.stacks:
        if stack.status in DEAD_STACK:
            yield _dead_stack(seen, stack)
        elif stack.status == "DELETE_IN_PROGRESS":
            yield Finding(
                kind="action-required",
                what=f"stack {stack.name} is being deleted",
                next=command(seen, "teardown"),
                subject=stack.name,
            )
        elif stack.status == "UPDATE_ROLLBACK_COMPLETE":
            yield Finding(
                kind="note",
                what=f"the last change of stack {stack.name} failed and was rolled back",
                why=_cause(stack),
                next=f"correct the cause, then {deploy(seen)}",
                subject=stack.name,
            )
        elif stack.status.endswith("_IN_PROGRESS"):
            yield Finding(
                kind="recovering", what=f"a deployment is under way: {stack.name} is {stack.status}", subject=stack.name
            )
    busy = any(stack.status.endswith("_IN_PROGRESS") or stack.status in DEAD_STACK for stack in seen.stacks)
    if missing and not busy:
        yield Finding(
            kind="action-required",
            what="incomplete: " + ", ".join(missing) + (" is" if len(missing) == 1 else " are") + " missing",
            next=deploy(seen),
        )


def _cause(stack: Stack) -> str:
    """The failing resource in its own words; the stack's reason where no resource is known."""
    return f"{stack.failed_resource}: {stack.failed_reason}" if stack.failed_resource else stack.reason


def _dead_stack(seen: Snapshot, stack: Stack) -> Finding:
    next_ = {
        "UPDATE_ROLLBACK_FAILED": f"aws cloudformation continue-update-rollback --stack-name {stack.name}, "
        f"then {deploy(seen)}",
        "DELETE_FAILED": command(seen, "teardown"),
    }.get(stack.status, f"correct the cause, then {deploy(seen)}")
    return Finding(
        kind="action-required",
        what=f"stack {stack.name} is {stack.status}",
        why=_cause(stack),
        next=next_,
        subject=stack.name,
    )
