"""Asks every source of a snapshot at once; one that does not answer is noted and the others still count."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.errors import LaptopError, explain, refused
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.free_space import with_free_space
from hyperpod_ray.ops.observe.snapshot import CONTROLLERS, FREE_SPACE, NODES, PLANS, SOURCES, TRAINING, Snapshot, Unseen
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.reach.clients import AnyTarget


def snapshot(target: AnyTarget, *, only: tuple[str, ...] = SOURCES) -> Snapshot:
    """One snapshot. `only` limits the sources that are asked; the others are then empty and not `unseen`.

    Raises:
        OpsError: Where the credentials are missing, expired or of another account: then nothing can be said.
    """
    target.aws.require_account()
    parts: dict[str, Any] = {}
    unseen: list[Unseen] = []
    sources = orchestrators.of(target).sources

    def noted(source: str) -> AbstractContextManager[None]:
        return _noted(source, target, unseen)

    tasks = sources.tasks(unseen, noted)
    with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
        wanted = {*only, NODES} if "Kubernetes" in only else set(only)
        # nobody who names sources knows those that one orchestrator alone has
        asked = {source: task for source, task in tasks.items() if source in wanted or source not in (*SOURCES, NODES)}
        futures = {source: pool.submit(task) for source, task in asked.items()}
        for source, future in futures.items():
            with _noted(source, target, unseen):
                parts |= future.result()
    if (
        any(group.training_plan for group in (parts["cluster"].groups if parts.get("cluster") else ()))
        and PLANS in only
    ):
        with _noted(PLANS, target, unseen):
            parts["training_plans"] = hyperpod.training_plans(target, parts["cluster"])
    if parts.get("file_systems") and FREE_SPACE in only:
        with _noted(FREE_SPACE, target, unseen):
            parts["file_systems"] = with_free_space(target, parts["file_systems"])
    if any(item.source == "Kubernetes" and not item.refused for item in unseen):
        # one cause, said once
        unseen = [item for item in unseen if item.source not in (NODES, CONTROLLERS, TRAINING)]
    return Snapshot(
        environment=target.name,
        at=now(),
        storage_mode=target.plan.settings.storage.kind,
        homes_mode="new" if target.plan.new_homes else "existing" if target.plan.existing_homes else "",
        unseen=tuple(unseen),
        orchestrator=target.plan.settings.orchestrator,
        sources=tuple(tasks),
        **sources.identity(),
        **parts,
    )


@contextlib.contextmanager
def _noted(source: str, target: AnyTarget, unseen: list[Unseen]) -> Iterator[None]:
    """A failure inside is noted as a source that was not seen; a defect of this program is raised."""
    try:
        yield
    except Exception as error:
        known = explain(error, environment=target.name)
        if known is None:
            raise
        laptop = isinstance(known, LaptopError)
        unseen.append(Unseen(source=source, why=known.message, next=known.fix, refused=refused(error), laptop=laptop))
