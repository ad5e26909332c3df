"""What a change of the file system means for the run in the section `training` of an environment file."""

from __future__ import annotations

from collections.abc import Iterable

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.planner.change import storage_sentence
from hyperpod_ray.planner.storage import ElasticFileSystem, FileSystem, SsdFileSystem
from hyperpod_ray.review.assembly import EnvironmentAssembly
from hyperpod_ray.review.review import Review


def add_outlook(review: Review, plans: Iterable[CommonPlan]) -> Review:
    """Add the goodput before and after to the notes of each environment whose file system changes."""
    plans_by_name = {plan.name: plan for plan in plans if plan.training is not None}
    for environment in review.environments:
        plan = plans_by_name.get(environment.name)
        if plan is None or environment.changes is None:
            continue
        before, after = (_file_system(side) for side in (environment.changes.base, environment.changes.head))
        if before and after and (sentence := storage_sentence(plan, before, after)):
            environment.notes.append(sentence)
    return review


def _file_system(side: EnvironmentAssembly) -> FileSystem | None:
    for _, resource in side.of_type("AWS::FSx::FileSystem"):
        properties = resource.get("Properties", {})
        lustre = properties.get("LustreConfiguration") or {}
        size, throughput = properties.get("StorageCapacity"), lustre.get("PerUnitStorageThroughput")
        efa = lustre.get("EfaEnabled") is True
        if isinstance(size, int) and isinstance(throughput, int):
            return SsdFileSystem(capacity_gib=size, throughput_mbs_per_tib=throughput, efa=efa)
        if isinstance(mbs := lustre.get("ThroughputCapacity"), int):
            return ElasticFileSystem(mbs=mbs, efa=efa)
    return None
