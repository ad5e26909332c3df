"""Asks every source of a snapshot at once; one that does not answer is noted and the others still count."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hyperpod_ray.ops.errors import LaptopError, explain
from hyperpod_ray.ops.observe import slurm
from hyperpod_ray.ops.observe.free_space import with_free_space
from hyperpod_ray.ops.observe.snapshot import (
    Snapshot,
    Unseen,
)
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.reach.clients import AnyTarget, SlurmTarget, Target

T = TypeVar("T")


def snapshot(target: AnyTarget, *, only: tuple[str, ...] = SOURCES) -> Snapshot:
    """One snapshot. `only` limits the sources that are asked; the others are then empty and not `unseen`.

    Raises:
        OpsError: Where the credentials are missing, expired or of another account: then nothing can be said.
    """
    target.aws.require_account()
    parts: dict[str, Any] = {}
    unseen: list[Unseen] = []
    tasks = _tasks(target, unseen)
    with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
        wanted = {*only, NODES} if "Kubernetes" in only else set(only)
        futures = {source: pool.submit(task) for source, task in tasks.items() if source in wanted}
        for source, future in futures.items():
            with _noted(source, target, unseen):
                parts |= future.result()
    if (
        any(group.training_plan for group in (parts["cluster"].groups if parts.get("cluster") else ()))
        and PLANS in only
    ):
        with _noted(PLANS, target, unseen):
            parts["training_plans"] = training_plans(target, parts["cluster"])
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
        unseen=tuple(unseen),
        **_named(target),
        **parts,
    )


def _tasks(target: AnyTarget, unseen: list[Unseen]) -> dict[str, Callable[[], dict[str, Any]]]:
    """The sources that an environment has, by its orchestrator: the one place that says so."""
    tasks: dict[str, Callable[[], dict[str, Any]]] = {
        "CloudFormation": lambda: _cloudformation(target),
        "HyperPod": lambda: _hyperpod(target),
        "HyperPod events": lambda: _events(target),
        "FSx": lambda: _fsx(target),
    }
    if isinstance(target, SlurmTarget):
        tasks[SLURM] = lambda: {"slurm": slurm.look(target, cluster(target), instances(target))}
    if isinstance(target, Target):
        tasks |= {
            "Kubernetes": lambda: _kubernetes(target, unseen),
            NODES: lambda: {"nodes": nodes(target)},
            CONTROLLERS: lambda: _controllers(target, unseen),
            TRAINING: lambda: _training(target, unseen),
            HANGS: lambda: _hangs(target),
        }
    return tasks


def _named(target: AnyTarget) -> dict[str, Any]:
    """Orchestrator, and the names of what is in Kubernetes."""
    made: dict[str, Any] = {"orchestrator": target.plan.settings.orchestrator}
    if isinstance(target, Target):
        ray = target.plan.settings.ray
        made |= {"namespace": ray.namespace, "ray_cluster": ray.cluster_name}
        made["eks_cluster"] = target.plan.eks_cluster_name
    return made


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


# --- CloudFormation --------------------------------------------------------------------------------------------------


# --- HyperPod --------------------------------------------------------------------------------------------------------


# --- Kubernetes ------------------------------------------------------------------------------------------------------


def _training(target: Target, unseen: list[Unseen]) -> dict[str, Any]:
    from hyperpod_ray.ops.observe.training import gathered  # it imports this module

    return gathered(target, noted=lambda: _noted(TRAINING, target, unseen))


# --- FSx -------------------------------------------------------------------------------------------------------------
