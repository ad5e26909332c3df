"""Findings about the shared file system and its claim."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.verdict import durations
from hyperpod_ray.ops.verdict.finding import (
    Finding,
    command,
    deploy,
    under_way,
)

NEARLY_FULL = 0.1
"""Share of free space below which the next checkpoints fill the file system."""


def free_space(seen: Snapshot) -> Iterator[Finding]:
    """File systems that are nearly full: a run that cannot save ends."""
    for item in seen.file_systems:
        if item.free_gib is None or not item.capacity_gib or item.free_gib >= NEARLY_FULL * item.capacity_gib:
            continue
        yield Finding(
            kind="action-required",
            what=f"file system {item.id} is nearly full: {item.free_gib:,.0f} of {item.capacity_gib:,} GiB are free",
            why="a run whose checkpoints cannot be written ends"
            + (f"; measured {output.clock(item.free_at)}" if item.free_at else ""),
            next=f"delete old runs under {names.MOUNT_PATH}, or raise storage.capacity_gib and {deploy(seen)}",
            subject=item.id,
        )


def storage(seen: Snapshot) -> Iterator[Finding]:
    """The shared file system and the claim that mounts it."""
    for file_system in seen.file_systems:
        what = f"file system {file_system.id} is {file_system.lifecycle}"
        if file_system.lifecycle == "CREATING":
            yield under_way(
                seen,
                what,
                since=file_system.created,
                usual=durations.FILE_SYSTEM,
                next_="aws fsx describe-file-systems",
                subject=file_system.id,
            )
        elif file_system.lifecycle == "DELETING":
            yield Finding(
                kind="action-required",
                what=f"{what}: the data goes with it",
                next=command(seen, "teardown"),
                subject=file_system.id,
            )
        elif file_system.lifecycle not in ("AVAILABLE", "UPDATING"):
            yield Finding(
                kind="action-required",
                what=what,
                why=file_system.failure,
                next=f"aws fsx describe-file-systems --file-system-ids {file_system.id}",
                subject=file_system.id,
            )
    claim = next(
        (claim for claim in seen.claims if claim.namespace == seen.namespace and claim.name == names.CLAIM), None
    )
    if seen.cluster is None or not seen.saw("FSx"):
        return
    made = {stack.name: stack.status for stack in seen.stacks}
    if not seen.file_systems and (
        seen.storage_mode == "existing"
        or made.get(names.stack_name(seen.environment, names.STORAGE_STACK), "").endswith("_COMPLETE")
    ):
        yield Finding(kind="action-required", what="the shared file system is gone", next=deploy(seen))
    if claim is None:
        return
    if claim.phase == "Lost":
        yield Finding(
            kind="action-required",
            what=f"claim {claim.namespace}/{claim.name} has lost its volume",
            next=f"kubectl -n {claim.namespace} describe pvc {claim.name}",
            subject=claim.name,
        )
    elif claim.phase == "Pending" and not any(item.lifecycle == "CREATING" for item in seen.file_systems):
        yield under_way(
            seen,
            f"claim {claim.namespace}/{claim.name} waits for its volume",
            since=claim.created,
            usual=durations.FILE_SYSTEM,
            next_=f"kubectl -n {claim.namespace} describe pvc {claim.name}",
            subject=claim.name,
            why=next(
                (event.message for event in seen.warnings if event.object == f"PersistentVolumeClaim/{claim.name}"), ""
            ),
        )
