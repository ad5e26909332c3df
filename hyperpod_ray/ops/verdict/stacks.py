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


def not_deployed(snapshot: Snapshot) -> Finding:
    """There is nothing."""
    return Finding(
        kind="action-required",
        what="not deployed: there is no stack and no cluster",
        next=f"{command(snapshot, 'preflight')}, then {deploy(snapshot)}",
    )


def unseen(snapshot: Snapshot) -> Iterator[Finding]:
    """Sources that did not answer."""
    creating = snapshot.cluster is None and any(stack.status.endswith("_IN_PROGRESS") for stack in snapshot.stacks)
    for missing in snapshot.unseen:
        if missing.source == "Kubernetes" and creating:
            continue  # said by the stacks
        if missing.refused and missing.source != "Kubernetes":
            yield Finding(
                kind="note", what=f"{missing.source}: not yours to see", why=missing.why, subject=missing.source
            )
            continue
        yield Finding(
            kind="note" if missing.laptop else "action-required",
            what=f"{missing.source} could not be asked{' from this machine' if missing.laptop else ''}",
            why=missing.why,
            next=missing.next,
            subject=missing.source,
        )


def stacks(snapshot: Snapshot) -> Iterator[Finding]:
    """Stacks that are missing, under way or broken."""
    missing = [stack.name for stack in snapshot.stacks if not stack.status]
    for stack in snapshot.stacks:
        if stack.status in DEAD_STACK:
            yield _dead_stack(snapshot, stack)
        elif stack.status == "DELETE_IN_PROGRESS":
            yield Finding(
                kind="action-required",
                what=f"stack {stack.name} is being deleted",
                next=command(snapshot, "teardown"),
                subject=stack.name,
            )
        elif stack.status == "UPDATE_ROLLBACK_COMPLETE":
            yield Finding(
                kind="note",
                what=f"the last change of stack {stack.name} failed and was rolled back",
                why=_cause(stack),
                next=f"correct the cause, then {deploy(snapshot)}",
                subject=stack.name,
            )
        elif stack.status.endswith("_IN_PROGRESS"):
            yield Finding(
                kind="recovering", what=f"a deployment is under way: {stack.name} is {stack.status}", subject=stack.name
            )
    busy = any(stack.status.endswith("_IN_PROGRESS") or stack.status in DEAD_STACK for stack in snapshot.stacks)
    if missing and not busy:
        yield Finding(
            kind="action-required",
            what="incomplete: " + ", ".join(missing) + (" is" if len(missing) == 1 else " are") + " missing",
            next=deploy(snapshot),
        )


def _cause(stack: Stack) -> str:
    """The failing resource in its own words; the stack's reason where no resource is known."""
    return f"{stack.failed_resource}: {stack.failed_reason}" if stack.failed_resource else stack.reason


def _dead_stack(snapshot: Snapshot, stack: Stack) -> Finding:
    next_ = {
        "UPDATE_ROLLBACK_FAILED": f"aws cloudformation continue-update-rollback --stack-name {stack.name}, "
        f"then {deploy(snapshot)}",
        "DELETE_FAILED": command(snapshot, "teardown"),
    }.get(stack.status, f"correct the cause, then {deploy(snapshot)}")
    return Finding(
        kind="action-required",
        what=f"stack {stack.name} is {stack.status}",
        why=_cause(stack),
        next=next_,
        subject=stack.name,
    )
