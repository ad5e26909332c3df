"""Findings about the shared file system and its claim."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

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

STORE_GRACE = timedelta(minutes=5)
"""An EBS volume that takes longer does not just start."""
NEARLY_FULL = 0.1
"""Share of free space below which the next checkpoints fill the file system."""


def free_space(snapshot: Snapshot) -> Iterator[Finding]:
    """File systems that are nearly full: a run that cannot save loses its steps with the next fault."""
    for file_system in snapshot.file_systems:
        if (
            file_system.free_gib is None
            or file_system.elastic
            or not file_system.capacity_gib
            or file_system.free_gib >= NEARLY_FULL * file_system.capacity_gib
        ):
            continue
        why = "a run whose checkpoints cannot be written loses its steps with the next fault"
        delete, setting = f"delete old runs under {names.MOUNT_PATH}", "storage.capacity_gib"
        if file_system.homes:
            why = "a job that writes to a home folder ends"
            delete, setting = f"delete files under {names.HOMES_PATH}", "homes.capacity_gib"
        yield Finding(
            kind="action-required",
            what=f"file system {file_system.id} is nearly full: "
            f"{file_system.free_gib:,.0f} of {file_system.capacity_gib:,} GiB are free",
            why=why + (f"; measured {output.clock(file_system.free_at)}" if file_system.free_at else ""),
            next=f"{delete}, or raise {setting} and {deploy(snapshot)}",
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
    if snapshot.cluster is None or not snapshot.saw("FSx"):
        return
    yield from _gone(snapshot)
    for claim in snapshot.claims:
        if claim.namespace == snapshot.namespace and claim.name == names.CLAIM:
            yield from _claim(snapshot, claim)
        elif claim.namespace == snapshot.namespace and claim.name.endswith(names.STORE_CLAIM_SUFFIX):
            yield from _store_claim(snapshot, claim)


def _gone(snapshot: Snapshot) -> Iterator[Finding]:
    """File systems that a stack created, or that the file names, and FSx does not have."""
    statuses = {stack.name: stack.status for stack in snapshot.stacks}
    created = statuses.get(names.stack_name(snapshot.environment, names.STORAGE_STACK), "").endswith("_COMPLETE")
    for homes, mode in ((False, snapshot.storage_mode), (True, snapshot.homes_mode)):
        there = any(file_system.homes == homes for file_system in snapshot.file_systems)
        if not there and (mode == "existing" or (created and mode in ("static", "intelligent_tiering", "new"))):
            lost = "file system of home folders" if homes else "shared file system"
            yield Finding(kind="action-required", what=f"the {lost} is gone", next=deploy(snapshot))


def _claim(snapshot: Snapshot, claim: Claim) -> Iterator[Finding]:
    """The claim that pods mount."""
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


def _store_claim(snapshot: Snapshot, claim: Claim) -> Iterator[Finding]:
    """The claim of the volume that keeps the head's state."""
    waits = claim.phase == "Pending" and claim.created is not None and snapshot.at - claim.created > STORE_GRACE
    if claim.phase != "Lost" and not waits:
        return
    told = (event.message for event in snapshot.warnings if event.object == f"PersistentVolumeClaim/{claim.name}")
    yield Finding(
        kind="action-required",
        what=f"claim {claim.namespace}/{claim.name} "
        + ("has lost its volume: the next head has no state" if claim.phase == "Lost" else "waits for its volume"),
        why=next(told, "") or "no head starts without it",
        since=claim.created if waits else None,
        next=f"kubectl -n {claim.namespace} describe pvc {claim.name}",
        subject=claim.name,
    )
