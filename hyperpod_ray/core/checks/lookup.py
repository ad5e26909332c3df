"""What several rules look up: groups by name, specifications that may be missing, workers whose group exists."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.model import NodeGroup, RayWorkerGroup
from hyperpod_ray.core.plan import Plan

GROUPS = ("hyperpod", "instance_groups")
"""Path of the instance groups."""


def groups(plan: CommonPlan) -> Iterator[tuple[int, NodeGroup]]:
    """Instance groups with their index."""
    yield from enumerate(plan.groups)


def known_groups(plan: CommonPlan) -> Iterator[tuple[int, NodeGroup]]:
    """Instance groups of a type whose specification is known; one rule reports the others, the rest skip them."""
    return ((index, group) for index, group in groups(plan) if plan.known(group.type))


def find(plan: CommonPlan, name: str) -> NodeGroup | None:
    """The group called `name`, None when there is none or its type's specification is unknown."""
    match = next((group for _, group in groups(plan) if group.name == name), None)
    return match if match and plan.known(match.type) else None


def place_of_group(plan: CommonPlan, name: str) -> str:
    """Path of a group in the file, as messages write it."""
    index = next(position for position, group in groups(plan) if group.name == name)
    return f"{'.'.join(GROUPS)}[{index}]"


def workers(plan: Plan) -> Iterator[tuple[int, RayWorkerGroup, NodeGroup]]:
    """Worker groups with their index and instance group, where that exists and its specification is known."""
    for index, worker in enumerate(plan.settings.ray.workers):
        if group := find(plan, worker.instance_group):
            yield index, worker, group


def max_replicas(worker: RayWorkerGroup) -> int:
    """Most pods a worker group may have."""
    return worker.replicas if worker.max_replicas is None else worker.max_replicas
