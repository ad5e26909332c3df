"""The driver's half: describe a run once, check what can be checked before anything starts, then fit it to the end.

Submitting the same storage and name again resumes the run; there is nothing else to say.
Ray is imported only where it is needed, so that wrong arguments are reported at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hyperpod_ray_training import torchrun
from hyperpod_ray_training.capacity import spares_with_room, wait_for_placement
from hyperpod_ray_training.errors import MARK, InputError, Unrecoverable, in_three_parts
from hyperpod_ray_training.fabric import listening
from hyperpod_ray_training.folder import RunFolder, check_writable, names_missing
from hyperpod_ray_training.hangs import watched
from hyperpod_ray_training.journal import Journal, log
from hyperpod_ray_training.merging import Asked, merged, resources_of
from hyperpod_ray_training.metrics import Metrics
from hyperpod_ray_training.open_runs import closing
from hyperpod_ray_training.publish import publish
from hyperpod_ray_training.run_parts import Parts
from hyperpod_ray_training.settings import Settings
from hyperpod_ray_training.submissions import Submissions, cause_of


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training run and where it lives; plain data, travels to the workers.

    Args:
        storage: Folder of all runs: a path mounted on every node, or a URL that fsspec and pyarrow know
            (`s3://bucket/runs`).
        name: The run. The same storage and name again continue it.
        save_every_steps: Checkpoint interval in steps, 1 or more.
        async_save: True (default) writes in the background on its own process group; False stops the step for the
            write.
        keep: How many checkpoints Ray keeps (the newest is always kept); None keeps all.
        best: Metric whose best checkpoints are kept, with "min" or "max"; None (default) keeps the newest.
        writer: `auto` (default: shared on a mounted path, else fsspec), `shared`, `fsspec` or `tiered`.
        start_from: Folder of another run whose newest complete checkpoint a *new* run starts from; ignored when
            resuming.
        rebuild_snapshot: Set Ray's snapshot aside where it cannot be used (another Ray version, folders deleted by
            hand) and continue from the newest complete checkpoint on disk. False (default) refuses with a message.
        event_every_steps: One `step` event per so many steps.
        settings: Timeouts and intervals; default from the environment.
    """

    storage: str
    name: str
    save_every_steps: int = 50
    async_save: bool = True
    keep: int | None = 3
    best: tuple[str, str] | None = None
    writer: str = "auto"
    start_from: str | None = None
    rebuild_snapshot: bool = False
    event_every_steps: int = 1
    settings: Settings = field(default_factory=Settings.from_env)

    def __post_init__(self) -> None:
        problems = []
        if "://" not in self.storage and not os.path.isabs(self.storage):  # noqa: PTH117 - may be a URL
            problems.append(
                in_three_parts(
                    f"storage: {self.storage!r}",
                    expected="an absolute path, because workers have other folders, or a URL",
                    fix="correct it",
                )
            )
        if not self.name or "/" in self.name or self.name.startswith("."):
            problems.append(in_three_parts(f"name: {self.name!r}", expected="one folder name", fix="correct it"))
        if self.save_every_steps < 1 or self.event_every_steps < 1:
            problems.append(
                in_three_parts(
                    f"save_every_steps, event_every_steps: {self.save_every_steps}, {self.event_every_steps}",
                    expected="1 or more",
                    fix="correct them",
                )
            )
        if self.keep is not None and self.keep < 1:
            problems.append(
                in_three_parts(f"keep: {self.keep}", expected="1 or more, or none to keep all", fix="correct it")
            )
        if self.best is not None and self.best[1] not in {"min", "max"}:
            problems.append(
                in_three_parts(f"best: {':'.join(self.best)}", expected="METRIC:min or METRIC:max", fix="correct it")
            )
        if problems:
            raise InputError("; ".join(problems))

    @property
    def url(self) -> str:
        """The run's folder."""
        return f"{self.storage.rstrip('/')}/{self.name}"

    def folder(self) -> RunFolder:
        """The run's folder, opened."""
        return RunFolder(self.url)

    def fit(
        self,
        loop: Callable[[dict[str, Any]], Any],
        *,
        config: Mapping[str, Any] | None = None,
        workers: str | int | None = None,
        gpus_per_worker: float | None = None,
        cpus_per_worker: float | None = None,
        spares: int | None = None,
        scaling_config: Any = None,
        run_config: Any = None,
        torch_config: Any = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: Any = None,
    ) -> Any:
        """Train to the end and return Ray's `Result`; the loop gets `config` plus `run` (this object).

        Args:
            loop: Training loop, run in every worker.
            config: What the loop needs; plain data.
            workers: A number (default 1), `min:max` for an elastic size, or 0 for local mode:
                this process alone, or the ranks that torchrun started.
            gpus_per_worker: GPUs per worker; 0 (default) trains on CPU over gloo.
            cpus_per_worker: CPUs per worker (default 1).
            spares: Workers beyond `workers` that stand by, each in a place of its own: a lost one is replaced within a
                second and the others never restart. Default: the setting `spares` (0). Needs a fixed number of workers.
            scaling_config: Your `ray.train.ScalingConfig`: number and resources of workers, labels, placement.
            run_config: Your `ray.train.RunConfig`: callbacks, runtime environment, logging. Name, storage, failures and
                checkpoints are the run's.
            torch_config: Your `ray.train.torch.TorchConfig`: the backend.
            datasets: Ray Data's, by name, for `ray.train.get_dataset_shard`.
            dataset_config: Your `ray.train.DataConfig`; not with spares.

        Raises InputError (nothing was started, or the size cannot be formed) and Unrecoverable (no retry can help).
        """
        request = merged(
            self, workers=workers, gpus=gpus_per_worker, cpus=cpus_per_worker, scaling=scaling_config,
            run_config=run_config, torch_config=torch_config, datasets=datasets, dataset_config=dataset_config,
        )  # fmt: skip
        sizes = parse_workers(request.workers)
        if request.gpus < 0 or request.cpus < 0 or request.gpus + request.cpus == 0:
            raise InputError(
                f"resources: {request.gpus} GPU and {request.cpus} CPU per worker",
                expected="some of one",
                fix="set gpus_per_worker or cpus_per_worker",
            )
        spares = self.settings.spares if spares is None else spares
        if spares < 0 or (spares and sizes[0] != sizes[1]):
            raise InputError(
                f"spares: {spares} with workers {request.workers}",
                expected="0 or more, and 0 for an elastic size (MIN:MAX)",
                fix="correct one of the two",
            )
        if spares and dataset_config is not None:
            raise InputError(
                "dataset_config: one with spares",
                expected="none: each rank takes its rows of each batch",
                fix="remove it, or set spares to 0",
            )
        if spares and isinstance(getattr(scaling_config, "label_selector", None), list):
            raise InputError(
                "ScalingConfig(label_selector): a list with spares",
                expected="one for all workers",
                fix="correct it, or set spares to 0",
            )
        self.settings.apply()
        folder = self.preflight()
        journal = Journal(folder, name=self.name, enabled=os.environ.get("RANK", "0") == "0")
        journal.event("start", role="driver", pid=os.getpid(), workers=str(request.workers))
        journal.update(at_once=True, state="starting", started_t=round(time.time(), 3), last_error=None)
        if journal.enabled:
            publish(folder)
        try:
            run = replace(self, settings=replace(self.settings, spares=spares))
            result = run._fit(loop, dict(config or {}), sizes, spares=spares, request=request)
        except Exception as error:
            text = cause_of(error)
            journal.progress |= journal._read()
            journal.event("error", role="driver", message=text[:2000])
            journal.update(at_once=True, state="failed", last_error=text[:2000])
            if MARK in str(error):
                raise Unrecoverable(text) from error
            raise
        journal.progress |= journal._read()
        journal.update(at_once=True, state="done")
        return result

    def _fit(
        self,
        loop: Callable[[dict[str, Any]], Any],
        config: dict[str, Any],
        sizes: tuple[int, int],
        *,
        spares: int,
        request: Asked,
    ) -> Any:
        import ray
        from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        from hyperpod_ray_training.watch import Watch

        resources = resources_of(request)
        min_workers, max_workers = sizes
        if max_workers > 0:
            if not ray.is_initialized():
                ray.init(log_to_driver=True)
            publish(self.folder())
            wait_for_placement(min_workers=min_workers, resources=resources, wait_s=self.settings.placement_wait_s)
            # `ray job stop` and a deleted submitter pod send SIGTERM; Ray aborts a run cleanly on SIGINT only, and an
            # elastic run that was cut off leaves a resource request that holds the next one up for 180 s
            signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
            spares = spares_with_room(
                workers=max_workers, spares=spares, resources=resources, wait_s=self.settings.spare_wait_s
            )
        limit = self.settings.process_group_timeout_s
        torch_config = replace(request.torch, timeout_s=limit) if request.torch else TorchConfig(timeout_s=limit)
        prepared = closing(watched(listening(loop)))
        if max_workers == 0 and torchrun.started():
            prepared = torchrun.prepared(prepared, limit_s=limit)
        parts = Parts(loop=prepared, torch_config=torch_config, dataset_config=request.dataset_config)
        if max_workers > 0 and (spares or self._survives(request, elastic=min_workers < max_workers)):
            from hyperpod_ray_training.spares.driver import surviving

            parts = surviving(
                self, parts, workers=max_workers, min_workers=min_workers, spares=spares, on_gpu=request.gpus > 0
            )
            if parts.survive:
                min_workers = max_workers = max_workers + parts.spares
        best, order = self.best or (None, "max")
        theirs = list(request.run.callbacks or []) if request.run else []

        def trainer() -> Any:
            return TorchTrainer(
                parts.loop,
                train_loop_config=config | {"run": self},
                torch_config=parts.torch_config,
                scaling_config=replace(
                    request.scaling or ScalingConfig(),
                    num_workers=max_workers if min_workers == max_workers else (min_workers, max_workers),
                    use_gpu=request.gpus > 0,
                    resources_per_worker=resources if max_workers > 0 else None,
                    elastic_resize_monitor_interval_s=self.settings.elastic_resize_monitor_interval_s,
                ),
                run_config=replace(
                    request.run or RunConfig(),
                    name=self.name,
                    storage_path=self.storage,
                    failure_config=FailureConfig(max_failures=-1),
                    checkpoint_config=CheckpointConfig(
                        num_to_keep=self.keep, checkpoint_score_attribute=best, checkpoint_score_order=order
                    ),
                    callbacks=[Watch(self, elastic=min_workers < max_workers), *parts.callbacks, *theirs],
                ),
                datasets=None if request.datasets is None else dict(request.datasets),
                dataset_config=parts.dataset_config,
            )

        with Metrics(self.name).beating():
            return Submissions(self).until_done(lambda: trainer().fit())

    def _survives(self, request: Asked, *, elastic: bool) -> bool:
        """Whether a run without spares keeps the workers that live when others are lost."""
        if not elastic and not self.settings.standby_workers:
            return False
        obstacle = _obstacle(request, elastic=elastic)
        if obstacle:
            log(f"standby: none, {obstacle}; a lost worker costs a restart of all from the checkpoint")
        return not obstacle

    def preflight(self) -> RunFolder:
        """Everything that can be refused before a worker starts; returns the run's folder. Overwrites nothing."""
        folder = self.folder()
        check_writable(folder)
        try:
            snapshot = folder.snapshot()
        except ValueError as error:
            # Ray writes this file in place: a controller killed in that moment leaves half of it, and Ray would
            # refuse it forever
            aside = folder.set_snapshot_aside()
            log(
                f"{folder.url}: Ray's snapshot was cut short ({error}); set aside as {aside}, the checkpoints on "
                "disk count"
            )
            return folder
        if snapshot is None:
            return folder
        problem = self._problem_with(folder, snapshot.ray_version, snapshot.names)
        if problem is None:
            return folder
        if self.rebuild_snapshot:
            aside = folder.set_snapshot_aside()
            log(
                f"{folder.url}: {problem}; snapshot set aside as {aside}, continuing from the newest complete "
                "checkpoint"
            )
            return folder
        raise InputError(
            f"run: {folder.url}: {problem}; nothing was changed",
            expected="the snapshot of this run by this Ray",
            fix=(
                "resume from the newest complete checkpoint with --rebuild-snapshot, or start a new name with "
                f"--start-from {folder.url}"
            ),
        )

    @staticmethod
    def _problem_with(folder: RunFolder, version: str | None, names: frozenset[str]) -> str | None:
        import ray

        if version != ray.__version__:
            return (
                f"its snapshot was written by Ray {version or 'of an unknown version'}, this is Ray {ray.__version__}"
            )
        missing = names_missing(folder, names)
        if missing:
            return f"Ray's snapshot names checkpoints that are gone: {', '.join(missing)} (deleted by hand?)"
        return None


def _obstacle(request: Asked, *, elastic: bool) -> str:
    """Why a run cannot keep its survivors: Ray must split its data, or its workers differ. Empty: it can."""
    if isinstance(getattr(request.scaling, "label_selector", None), list):
        return "ScalingConfig(label_selector) is a list"
    if request.dataset_config is not None:
        return "dataset_config asks Ray to split data"
    if request.datasets and not elastic:  # each rank would read the whole of them
        return "Ray splits the datasets, and fit(spares=) is not set"
    return ""


def parse_workers(text: str | int) -> tuple[int, int]:
    """`4` to (4, 4), `2:8` to (2, 8), 0 to local mode; InputError for a size that cannot be formed."""
    parts = str(text).split(":")
    if len(parts) > 2 or not all(part.isdigit() for part in parts):
        raise InputError(f"workers: {text!r}", expected="N, MIN:MAX or 0 for local mode", fix="correct the argument")
    min_workers, max_workers = int(parts[0]), int(parts[-1])
    if min_workers > max_workers or (len(parts) == 2 and min_workers < 1):
        raise InputError(f"workers: {text!r}", expected="1 <= MIN <= MAX", fix="correct the argument")
    return min_workers, max_workers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments every job shares; `run_from` reads them back.

    Defaults come from the environment variables `RUN_STORAGE`, `RUN_NAME`, `RUN_WORKERS`, `RUN_GPUS_PER_WORKER` and
    `RUN_SPARES`, which `hyperpod-ray submit` sets from a job file.
    """
    variable = os.environ.get
    group = parser.add_argument_group("run")
    group.add_argument(
        "--storage", default=variable("RUN_STORAGE"), required="RUN_STORAGE" not in os.environ,
        help="folder of all runs, on storage that every node sees (default: RUN_STORAGE)",
    )  # fmt: skip
    group.add_argument(
        "--name", default=variable("RUN_NAME"), required="RUN_NAME" not in os.environ,
        help="the run; the same name again resumes it (default: RUN_NAME)",
    )  # fmt: skip
    group.add_argument(
        "--workers", default=variable("RUN_WORKERS", "2"),
        help="N, MIN:MAX for an elastic size, 0 for local mode and torchrun (default: RUN_WORKERS or 2)",
    )  # fmt: skip
    group.add_argument(
        "--spares", type=int, default=variable("RUN_SPARES"),
        help="workers that stand by (default: RUN_SPARES, RESILIENCE_SPARES or 0)",
    )  # fmt: skip
    group.add_argument(
        "--gpus-per-worker", type=float, default=variable("RUN_GPUS_PER_WORKER", "0"),
        help="0 trains on CPU over gloo (default: RUN_GPUS_PER_WORKER or 0)",
    )  # fmt: skip
    group.add_argument("--cpus-per-worker", type=float, default=1)
    group.add_argument("--save-every-steps", type=int, default=50)
    group.add_argument("--save", choices=["async", "sync"], default="async")
    group.add_argument("--keep", type=int, default=3, help="checkpoints to keep (default 3)")
    group.add_argument("--best", default=None, help="METRIC:min or METRIC:max: keep the best instead of the newest")
    group.add_argument("--writer", default="auto", help="auto, shared, fsspec or tiered")
    group.add_argument("--start-from", default=None, help="folder of another run to take the newest checkpoint from")
    group.add_argument("--rebuild-snapshot", action="store_true", help="set a snapshot aside that Ray cannot use")


def run_from(arguments: argparse.Namespace) -> Run:
    """The run that the shared arguments describe."""
    best = None
    if arguments.best is not None:
        metric, _, order = arguments.best.partition(":")
        best = (metric, order)
    settings = Settings.from_env()
    if arguments.spares is not None:
        settings = replace(settings, spares=arguments.spares)
    return Run(
        settings=settings,
        storage=arguments.storage,
        name=arguments.name,
        save_every_steps=arguments.save_every_steps,
        async_save=arguments.save == "async",
        keep=arguments.keep,
        best=best,
        writer=arguments.writer,
        start_from=arguments.start_from,
        rebuild_snapshot=arguments.rebuild_snapshot,
    )


def main_of(body: Callable[[], None]) -> None:
    """Run a job's body: bad input exits 2 and a failed run 1, each with one line and no traceback."""
    try:
        body()
    except InputError as error:
        log(f"error: {error}")
        sys.exit(2)
    except Unrecoverable as error:
        log(f"error: {cause_of(error)}")
        sys.exit(1)
