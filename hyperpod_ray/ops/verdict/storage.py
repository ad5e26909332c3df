"""Findings about the shared file system and its claim."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.observe.snapshot import Claim, Snapshot
from hyperpod_ray.ops.verdict import durations
from hyperpod_ray.ops.verdict.finding import (
    Finding,
    command,
    deploy,
    under_way,
)

NEARLY_FULL = 0.1
"""Share of free space below which the next checkpoints fill the file system."""


def free_space(snapshot: Snapshot) -> Iterator[Finding]:
    """File systems that are nearly full: a run that cannot save loses its steps with the next fault."""
    yield from _file_systems(snapshot)
    claim = next(
        (claim for claim in snapshot.claims if claim.namespace == snapshot.namespace and claim.name == names.CLAIM),
        None,
    )
    if snapshot.cluster is None or not snapshot.saw("FSx"):
        return
    statuses = {stack.name: stack.status for stack in snapshot.stacks}
    if not snapshot.file_systems and (
        snapshot.storage_mode == "existing"
        or statuses.get(names.stack_name(snapshot.environment, names.STORAGE_STACK), "").endswith("_COMPLETE")
    ):
        yield Finding(kind="action-required", what="the shared file system is gone", next=deploy(snapshot))
    if claim is not None:
        yield from _claim(snapshot, claim)


def _file_systems(snapshot: Snapshot) -> Iterator[Finding]:
    for file_system in snapshot.file_systems:
        if (
            file_system.free_gib is None
            or not file_system.capacity_gib
            or file_system.free_gib >= NEARLY_FULL * file_system.capacity_gib
        ):
            continue
        yield Finding(
            kind="action-required",
            what=f"file system {file_system.id} is nearly full: "
            f"{file_system.free_gib:,.0f} of {file_system.capacity_gib:,} GiB are free",
            why="a run whose checkpoints cannot be written loses its steps with the next fault"
            + (f"; measured {output.clock(file_system.free_at)}" if file_system.free_at else ""),
            next=f"delete old runs under {names.MOUNT_PATH}, or raise storage.capacity_gib and {deploy(snapshot)}",
            subject=file_system.id,
        )


def storage(snapshot: Snapshot) -> Iterator[Finding]:
    """The shared file system and the claim that mounts it."""
    for file_system in snapshot.file_systems:
        summary = f"file system {file_system.id} is {file_system.lifecycle}"
        if file_system.lifecycle == "CREATING":
            yield under_way(
                snapshot,
                summary,
                since=file_system.created,
                usual=durations.FILE_SYSTEM,
                next_="aws fsx describe-file-systems",
                subject=file_system.id,
            )
        elif file_system.lifecycle == "DELETING":
            yield Finding(
                kind="action-required",
                what=f"{summary}: the data goes with it",
                next=command(snapshot, "teardown"),
                subject=file_system.id,
            )
        elif file_system.lifecycle not in ("AVAILABLE", "UPDATING"):
            yield Finding(
                kind="action-required",
                what=summary,
                why=file_system.failure,
                next=f"aws fsx describe-file-systems --file-system-ids {file_system.id}",
                subject=file_system.id,
            )


def _claim(snapshot: Snapshot, claim: Claim) -> Iterator[Finding]:
    if claim.phase == "Lost":
        yield Finding(
            kind="action-required",
            what=f"claim {claim.namespace}/{claim.name} has lost its volume",
            next=f"kubectl -n {claim.namespace} describe pvc {claim.name}",
            subject=claim.name,
        )
    elif claim.phase == "Pending" and not any(candidate.lifecycle == "CREATING" for candidate in snapshot.file_systems):
        yield under_way(
            snapshot,
            f"claim {claim.namespace}/{claim.name} waits for its volume",
            since=claim.created,
            usual=durations.FILE_SYSTEM,
            next_=f"kubectl -n {claim.namespace} describe pvc {claim.name}",
            subject=claim.name,
            why=next(
                (event.message for event in snapshot.warnings if event.object == f"PersistentVolumeClaim/{claim.name}"),
                "",
            ),
        )
