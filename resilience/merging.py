"""The user's own `ScalingConfig`, `RunConfig` and `TorchConfig`, merged with what a run that survives needs.

A value that contradicts the run's is refused with the place where it belongs. What the user left at Ray's default does
not count as given.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from resilience.errors import InputError

if TYPE_CHECKING:
    from resilience.run import Run


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
    run: Run,
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
            wrong.append(f"workers: got {workers} and ScalingConfig(num_workers={theirs}), allowed: one of them")
        size = theirs if workers is None else workers
        gpus, cpus = _resources(scaling, gpus, cpus, wrong)
    _check_run(run, run_config, wrong)
    _check_torch(run, torch_config, wrong)
    if dataset_config is not None and not datasets:
        wrong.append("dataset_config: got one without datasets, allowed: both or none")
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
            wrong.append(f"{name}: got {ours:g} and ScalingConfig with {theirs:g} {kind}, allowed: one of them")
        if ours is None:
            gpus, cpus = (theirs, cpus) if kind == "GPU" else (gpus, theirs)
    if gpus and not resources.get("CPU") and cpus is None and "GPU" in resources:
        cpus = 0.0  # ScalingConfig(resources_per_worker={"GPU": 1}) asks for no CPU
    return gpus, cpus


def _check_run(run: Run, given: Any, wrong: list[str]) -> None:
    if given is None:
        return
    from ray.train import CheckpointConfig, FailureConfig

    if given.name is not None and given.name != run.name:
        wrong.append(f"RunConfig(name): got {given.name!r}, allowed: the run's, {run.name!r}, or none")
    storage = None if given.storage_path is None else str(given.storage_path).rstrip("/")
    if storage is not None and storage != run.storage.rstrip("/"):
        wrong.append(f"RunConfig(storage_path): got {storage!r}, allowed: the run's, {run.storage!r}, or none")
    failures = given.failure_config
    if failures not in (None, FailureConfig()) and failures.max_failures != -1:
        wrong.append(
            f"RunConfig(failure_config): got max_failures={failures.max_failures}, allowed: -1 or none; a run that "
            "survives is not given up (the setting crash_loop_limit ends one whose code fails)"
        )
    if given.checkpoint_config not in (None, CheckpointConfig()):
        wrong.append("RunConfig(checkpoint_config): allowed: none; use Run(keep=…, best=(METRIC, 'min' or 'max'))")
    if given.storage_filesystem is not None:
        wrong.append("RunConfig(storage_filesystem): allowed: none; the run's storage is a path or an fsspec URL")


def _check_torch(run: Run, given: Any, wrong: list[str]) -> None:
    if given is None:
        return
    from ray.train.torch import TorchConfig

    limit = run.settings.process_group_timeout_s
    if type(given) is not TorchConfig:
        wrong.append(f"torch_config: got {type(given).__name__}, allowed: TorchConfig")
    elif given.timeout_s not in (TorchConfig().timeout_s, limit):
        wrong.append(
            f"TorchConfig(timeout_s): got {given.timeout_s}, allowed: {limit} or none; set "
            "RESILIENCE_PROCESS_GROUP_TIMEOUT_S, and put long validations into training.pause()"
        )
    elif given.init_method != "env":
        wrong.append(f"TorchConfig(init_method): got {given.init_method!r}, allowed: 'env'")


def resources_of(asked: Asked) -> dict[str, float]:
    """What a worker needs, by kind: the user's further kinds too."""
    theirs = dict((asked.scaling.resources_per_worker or {}) if asked.scaling is not None else {})
    theirs |= {"CPU": asked.cpus, "GPU": asked.gpus}
    return {kind: amount for kind, amount in theirs.items() if amount}
