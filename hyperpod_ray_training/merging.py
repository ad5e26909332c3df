"""The user's own `ScalingConfig`, `RunConfig` and `TorchConfig`, merged with what a run that survives needs.

A value that contradicts the run's is refused with the place where it belongs. What the user left at Ray's default does
not count as given.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from hyperpod_ray_training.errors import InputError, in_three_parts
from hyperpod_ray_training.run_parts import RunFacts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """What the caller of `Run.fit` asked for, merged: the number of workers, their resources, the rest as given."""

    workers: str | int
    gpus: float
    cpus: float
    scaling: Any = None
    run: Any = None
    torch: Any = None
    datasets: Any = None
    dataset_config: Any = None


def merged(
    run: RunFacts,
    *,
    workers: str | int | None,
    gpus: float | None,
    cpus: float | None,
    scaling: Any,
    run_config: Any,
    torch_config: Any,
    datasets: Any,
    dataset_config: Any,
) -> Asked:
    """Merge; InputError names every contradiction at once."""
    wrong: list[str] = []
    size: str | int = 1 if workers is None else workers
    if scaling is not None:
        theirs = (
            scaling.num_workers if isinstance(scaling.num_workers, int) else ":".join(map(str, scaling.num_workers))
        )
        if workers is not None and str(workers) != str(theirs) and theirs != 1:
            wrong.append(
                in_three_parts(
                    f"workers: {workers} and ScalingConfig(num_workers={theirs})",
                    expected="one of them",
                    fix="remove one",
                )
            )
        size = theirs if workers is None else workers
        gpus, cpus = _resources(scaling, gpus, cpus, wrong)
    _check_run(run, run_config, wrong)
    _check_torch(run, torch_config, wrong)
    if dataset_config is not None and not datasets:
        wrong.append(
            in_three_parts("dataset_config: one without datasets", expected="both or none", fix="add datasets")
        )
    if wrong:
        raise InputError("; ".join(wrong))
    return Asked(
        workers=size, gpus=0.0 if gpus is None else gpus, cpus=1.0 if cpus is None else cpus, scaling=scaling,
        run=run_config, torch=torch_config, datasets=datasets, dataset_config=dataset_config,
    )  # fmt: skip


def _resources(
    scaling: Any, gpus: float | None, cpus: float | None, wrong: list[str]
) -> tuple[float | None, float | None]:
    resources = scaling.resources_per_worker or {}
    for name, kind, ours in (("gpus_per_worker", "GPU", gpus), ("cpus_per_worker", "CPU", cpus)):
        theirs = resources.get(kind)
        if kind == "GPU" and theirs is None:
            theirs = 1.0 if scaling.use_gpu else None
        if ours is not None and theirs is not None and float(ours) != float(theirs):
            wrong.append(
                in_three_parts(
                    f"{name}: {ours:g} and ScalingConfig with {theirs:g} {kind}",
                    expected="one of them",
                    fix="remove one",
                )
            )
        if ours is None:
            gpus, cpus = (theirs, cpus) if kind == "GPU" else (gpus, theirs)
    if gpus and not resources.get("CPU") and cpus is None and "GPU" in resources:
        cpus = 0.0  # ScalingConfig(resources_per_worker={"GPU": 1}) asks for no CPU
    return gpus, cpus


def _check_run(run: RunFacts, given: Any, wrong: list[str]) -> None:
    if given is None:
        return
    from ray.train import CheckpointConfig, FailureConfig

    if given.name is not None and given.name != run.name:
        wrong.append(
            in_three_parts(
                f"RunConfig(name): {given.name!r}", expected=f"the run's, {run.name!r}, or none", fix="remove it"
            )
        )
    storage = None if given.storage_path is None else str(given.storage_path).rstrip("/")
    if storage is not None and storage != run.storage.rstrip("/"):
        wrong.append(
            in_three_parts(
                f"RunConfig(storage_path): {storage!r}",
                expected=f"the run's, {run.storage!r}, or none",
                fix="remove it",
            )
        )
    failures = given.failure_config
    if failures not in (None, FailureConfig()) and failures.max_failures != -1:
        wrong.append(
            in_three_parts(
                f"RunConfig(failure_config): max_failures={failures.max_failures}",
                expected="-1 or none: a run that survives is not given up",
                fix="remove it; crash_loop_limit ends a run whose code fails",
            )
        )
    if given.checkpoint_config not in (None, CheckpointConfig()):
        wrong.append(
            in_three_parts(
                "RunConfig(checkpoint_config): one given",
                expected="none",
                fix="use Run(keep=…, best=(METRIC, 'min' or 'max'))",
            )
        )
    if given.storage_filesystem is not None:
        wrong.append(
            in_three_parts(
                "RunConfig(storage_filesystem): one given",
                expected="none",
                fix="give the run's storage as a path or an fsspec URL",
            )
        )


def _check_torch(run: RunFacts, given: Any, wrong: list[str]) -> None:
    if given is None:
        return
    from ray.train.torch import TorchConfig

    limit = run.settings.process_group_timeout_s
    if type(given) is not TorchConfig:
        wrong.append(in_three_parts(f"torch_config: {type(given).__name__}", expected="TorchConfig", fix="give one"))
    elif given.timeout_s not in (TorchConfig().timeout_s, limit):
        wrong.append(
            in_three_parts(
                f"TorchConfig(timeout_s): {given.timeout_s}",
                expected=f"{limit} or none",
                fix="set RESILIENCE_PROCESS_GROUP_TIMEOUT_S, and put long validations into training.pause()",
            )
        )
    elif given.init_method != "env":
        wrong.append(
            in_three_parts(f"TorchConfig(init_method): {given.init_method!r}", expected="'env'", fix="remove it")
        )


def resources_of(asked: Asked) -> dict[str, float]:
    """What a worker needs, by kind: the user's further kinds too."""
    theirs = dict((asked.scaling.resources_per_worker or {}) if asked.scaling is not None else {})
    theirs |= {"CPU": asked.cpus, "GPU": asked.gpus}
    return {kind: amount for kind, amount in theirs.items() if amount}
