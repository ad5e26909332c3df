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
    problems: list[str] = []
    size: str | int = 1 if workers is None else workers
    if scaling is not None:
        theirs = (
            scaling.num_workers if isinstance(scaling.num_workers, int) else ":".join(map(str, scaling.num_workers))
        )
        if workers is not None and str(workers) != str(theirs) and theirs != 1:
            problems.append(
                in_three_parts(
                    f"workers: {workers} and ScalingConfig(num_workers={theirs})",
                    expected="one of them",
                    fix="remove one",
                )
            )
        size = theirs if workers is None else workers
        gpus, cpus = _resources(scaling, gpus, cpus, problems)
    _check_run(run, run_config, problems)
    _check_torch(run, torch_config, problems)
    if dataset_config is not None and not datasets:
        problems.append(
            in_three_parts("dataset_config: one without datasets", expected="both or none", fix="add datasets")
        )
    if problems:
        raise InputError("; ".join(problems))
    return Asked(
        workers=size, gpus=0.0 if gpus is None else gpus, cpus=1.0 if cpus is None else cpus, scaling=scaling,
        run=run_config, torch=torch_config, datasets=datasets, dataset_config=dataset_config,
    )  # fmt: skip


def _resources(
    scaling: Any, gpus: float | None, cpus: float | None, problems: list[str]
) -> tuple[float | None, float | None]:
    resources = scaling.resources_per_worker or {}
    for name, resource, amount in (("gpus_per_worker", "GPU", gpus), ("cpus_per_worker", "CPU", cpus)):
        theirs = resources.get(resource)
        if resource == "GPU" and theirs is None:
            theirs = 1.0 if scaling.use_gpu else None
        if amount is not None and theirs is not None and float(amount) != float(theirs):
            problems.append(
                in_three_parts(
                    f"{name}: {amount:g} and ScalingConfig with {theirs:g} {resource}",
                    expected="one of them",
                    fix="remove one",
                )
            )
        if amount is None:
            gpus, cpus = (theirs, cpus) if resource == "GPU" else (gpus, theirs)
    if gpus and not resources.get("CPU") and cpus is None and "GPU" in resources:
        cpus = 0.0  # ScalingConfig(resources_per_worker={"GPU": 1}) asks for no CPU
    return gpus, cpus


def _check_run(run: RunFacts, run_config: Any, problems: list[str]) -> None:
    if run_config is None:
        return
    from ray.train import CheckpointConfig, FailureConfig

    if run_config.name is not None and run_config.name != run.name:
        problems.append(
            in_three_parts(
                f"RunConfig(name): {run_config.name!r}", expected=f"the run's, {run.name!r}, or none", fix="remove it"
            )
        )
    storage = None if run_config.storage_path is None else str(run_config.storage_path).rstrip("/")
    if storage is not None and storage != run.storage.rstrip("/"):
        problems.append(
            in_three_parts(
                f"RunConfig(storage_path): {storage!r}",
                expected=f"the run's, {run.storage!r}, or none",
                fix="remove it",
            )
        )
    failures = run_config.failure_config
    if failures not in (None, FailureConfig()) and failures.max_failures != -1:
        problems.append(
            in_three_parts(
                f"RunConfig(failure_config): max_failures={failures.max_failures}",
                expected="-1 or none: a run that survives is not given up",
                fix="remove it; crash_loop_limit ends a run whose code fails",
            )
        )
    if run_config.checkpoint_config not in (None, CheckpointConfig()):
        problems.append(
            in_three_parts(
                "RunConfig(checkpoint_config): one given",
                expected="none",
                fix="use Run(keep=…, best=(METRIC, 'min' or 'max'))",
            )
        )
    if run_config.storage_filesystem is not None:
        problems.append(
            in_three_parts(
                "RunConfig(storage_filesystem): one given",
                expected="none",
                fix="give the run's storage as a path or an fsspec URL",
            )
        )


def _check_torch(run: RunFacts, torch_config: Any, problems: list[str]) -> None:
    if torch_config is None:
        return
    from ray.train.torch import TorchConfig

    limit = run.settings.process_group_timeout_s
    if type(torch_config) is not TorchConfig:
        problems.append(
            in_three_parts(f"torch_config: {type(torch_config).__name__}", expected="TorchConfig", fix="give one")
        )
    elif torch_config.timeout_s not in (TorchConfig().timeout_s, limit):
        problems.append(
            in_three_parts(
                f"TorchConfig(timeout_s): {torch_config.timeout_s}",
                expected=f"{limit} or none",
                fix="set RESILIENCE_PROCESS_GROUP_TIMEOUT_S, and put long validations into training.pause()",
            )
        )
    elif torch_config.init_method != "env":
        problems.append(
            in_three_parts(f"TorchConfig(init_method): {torch_config.init_method!r}", expected="'env'", fix="remove it")
        )


def resources_of(request: Asked) -> dict[str, float]:
    """What a worker needs, by kind: the user's further kinds too."""
    theirs = dict((request.scaling.resources_per_worker or {}) if request.scaling is not None else {})
    theirs |= {"CPU": request.cpus, "GPU": request.gpus}
    return {resource: amount for resource, amount in theirs.items() if amount}
