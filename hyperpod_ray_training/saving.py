"""Saves in the background, and reports only what is complete."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

import hyperpod_ray_training as resilience
from hyperpod_ray_training.checkpoint import FORMAT, to_save
from hyperpod_ray_training.errors import Unrecoverable
from hyperpod_ray_training.faults import FaultHooks
from hyperpod_ray_training.folder import ABOUT, RunFolder, checkpoint_name
from hyperpod_ray_training.journal import Journal, log
from hyperpod_ray_training.ranks import Ranks
from hyperpod_ray_training.room import advice, causes, is_full
from hyperpod_ray_training.run import Run
from hyperpod_ray_training.state import TrainingState
from hyperpod_ray_training.tiered import Tier
from hyperpod_ray_training.writers import writer_for

LAST_SAVE_S = 5.0
WRITES_S = 60.0
"""The longest that a watched step waits for the thread of a save; slow storage may not stop the run."""
WRITTEN, NO_ROOM, BROKEN = 0.0, 1.0, 2.0
"""How a rank's part of a save ended. The ranks agree on the largest: a save that nothing but room is missing for."""
# what went wrong on any rank arrives on all, wrapped in dcp's own exception, which is no `Exception`
DCP_ERRORS = (Exception, CheckpointException)
Report = Callable[[str, Mapping[str, Any]], None]


@dataclass
class Save:
    """A save in flight."""

    name: str
    step: int
    reason: str
    metrics: dict[str, Any]
    future: Future[Any]
    started: float
    stall_s: float = 0.0


class Saver:
    """Writes the checkpoints of one attempt, one at a time.

    Args:
        run: What the driver described.
        folder: The run's folder.
        state: What to save.
        ranks: This rank among the others.
        journal: Where saves and failures are written down.
        hooks: Faults on request.
        attempt: The attempt's part of a checkpoint's name.
        kind: The writer's kind.
        tier: The tier, where the kind is `tiered`.
        report: Announces a complete checkpoint to Ray.
    """

    def __init__(
        self,
        *,
        run: Run,
        folder: RunFolder,
        state: TrainingState,
        ranks: Ranks,
        journal: Journal,
        hooks: FaultHooks,
        attempt: str,
        writer_kind: str,
        tier: Tier | None,
        report: Report,
    ) -> None:
        self.run, self.folder, self.state, self.ranks, self.journal = run, folder, state, ranks, journal
        self.hooks, self.attempt, self.kind, self.tier, self.report = hooks, attempt, writer_kind, tier, report
        # one stager for all saves: it keeps its buffers, and touching 150 MB of new memory costs more than copying
        # into old. A save waits for the one before, so a buffer is never overwritten while it is being written out.
        on_gpu = state.device.type == "cuda"
        self.stager = _KeptStager(
            StagingOptions(
                use_pinned_memory=on_gpu, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=on_gpu
            )
        )
        self.in_flight: Save | None = None
        self.saved_step = -1
        self.failures = 0
        self.last_save_s = 0.0

    def begin(self, *, step: int, metrics: Mapping[str, Any], reason: str, wait: bool) -> None:
        """Write a checkpoint of this moment; in the background unless the run says otherwise or `wait` is set.

        It is reported to Ray, and so counts there, once every rank's part and the completeness mark are on storage.
        """
        self.finish()
        started = time.monotonic()
        name = checkpoint_name(step=step, attempt=self.attempt)
        metrics = {"step": step, **metrics}
        if self.ranks.rank == 0:
            try:
                self.folder.note(
                    name,
                    ABOUT,
                    {
                        "step": step,
                        "world": self.ranks.world,
                        "metrics": metrics,
                        "t": time.time(),
                        "format": FORMAT,
                        "version": resilience.__version__,
                    },
                )
            except OSError as error:  # the writers will fail on the same disk, and all ranks will hear of it
                log(f"{self.folder.at(name, ABOUT)}: {error.strerror or error}")
        if self.tier is not None:
            writer = self.tier.writer(step=step, durable=reason != "interval")
        else:
            writer = writer_for(
                writer_kind=self.kind, folder=self.folder, name=name, rank=self.ranks.rank, hooks=self.hooks
            )
        future: Future[Any] = Future()
        group = self.ranks.patient
        try:
            content = to_save(self.state, step, self.ranks)
            if self.run.async_save:
                future = cast(
                    "Future[Any]",
                    dcp.async_save(content, storage_writer=writer, process_group=group, async_stager=self.stager),
                )
            else:
                future.set_result(dcp.save(content, storage_writer=writer, process_group=group))
        except DCP_ERRORS as error:
            future.set_exception(error)
        self.in_flight = Save(name, step, reason, metrics, future, started, time.monotonic() - started)
        if wait or not self.run.async_save:
            self.finish()

    @property
    def done_here(self) -> bool:
        """Whether this rank's part of the save in flight has ended, well or not."""
        return self.in_flight is not None and self.in_flight.future.done()

    def wait_until_written(self) -> None:
        """Wait a while for this rank's part of the save in flight; nobody else is asked."""
        if self.in_flight is not None:
            concurrent.futures.wait([self.in_flight.future], timeout=WRITES_S)

    @property
    def outcome_here(self) -> float:
        """How it has ended: `WRITTEN`, also while it has not, `NO_ROOM` or `BROKEN`."""
        error = self.in_flight.future.exception() if self.done_here and self.in_flight is not None else None
        return WRITTEN if error is None else NO_ROOM if is_full(error) else BROKEN

    def finish(self) -> None:
        """Wait for the save in flight, if any, and report it."""
        save = self.in_flight
        if save is None:
            return
        waited = time.monotonic()
        with contextlib.suppress(*DCP_ERRORS):  # the exception is looked at below, on every rank
            save.future.result()
        # ranks may finish their parts far apart: meet on the patient group before anything with a short limit
        self.ranks.meet()
        save.stall_s += time.monotonic() - waited
        self.settle(outcome=self.ranks.agree(self.outcome_here)[0])

    def settle(self, *, outcome: float) -> None:
        """All ranks are done with the save in flight, with the worst outcome of any. The same call on every rank."""
        save = self.in_flight
        assert save is not None  # noqa: S101
        error = save.future.exception()
        self.in_flight = None
        if outcome > WRITTEN:
            self._failed(save, error, full=outcome == NO_ROOM)
            return
        if self.tier is not None and self.ranks.rank == 0:
            self.tier.point(self.folder, save.name, step=save.step)
        self.report(save.name, save.metrics)
        self.saved_step, self.failures = save.step, 0
        self.last_save_s = time.monotonic() - save.started
        self._note(save)

    def abandon(self) -> None:
        """The loop failed, the background thread need not: a save that completes now is found on disk later.

        The wait is bounded, because a peer that is gone or frozen would keep it waiting.
        """
        save = self.in_flight
        if save is None:
            return
        ended, _left = concurrent.futures.wait([save.future], timeout=LAST_SAVE_S)
        if ended and save.future.exception() is None and self.tier is None:
            self.last_save_s = time.monotonic() - save.started
            self._note(save)

    def _note(self, save: Save) -> None:
        path = self.folder.at(save.name)
        self.journal.event(
            "save", step=save.step, reason=save.reason, path=path, world=self.ranks.world,
            seconds=round(self.last_save_s, 3), stall_s=round(save.stall_s, 4),
        )  # fmt: skip
        self.journal.update(
            at_once=True,
            last_checkpoint_step=save.step,
            last_checkpoint_t=round(time.time(), 3),
            last_checkpoint_path=path,
        )

    def _failed(self, save: Save, error: BaseException | None, *, full: bool) -> None:
        """Say it, and end the run where saves fail in a row; but for want of room, which somebody makes while it runs.

        A run that ends has lost the steps since its last checkpoint. One that continues keeps them when there is room.
        """
        self.failures += not full
        limit = self.run.settings.save_failure_limit
        text = " ".join(reasons(error)) if error is not None else "another rank could not write its part"
        hint = advice(error, self.folder.path) if error is not None else ""
        told = f"{text}. To make room, {hint}" if hint else text
        if self.ranks.rank == 0:
            try:
                self.folder.remove_failed(save.name)
            except OSError as problem:
                log(f"{self.folder.at(save.name)}: not removed ({problem})")
        goes_on = "saves again at its next checkpoint" if full else f"{self.failures} of {limit} failures in a row"
        log(
            f"checkpoint {self.folder.at(save.name)} was not written: {told}. Earlier checkpoints are untouched "
            f"and training continues ({goes_on})"
        )
        self.journal.event("error", step=save.step, message=f"save failed: {told}", path=self.folder.at(save.name))
        self.journal.update(at_once=True, last_error=f"save failed at step {save.step}: {told}")
        if problems := self.state.unsavable():  # no storage will ever take it
            raise Unrecoverable(
                f"no checkpoint can hold {'; '.join(problems[:4])}",
                expected="objects whose attributes are numbers, tensors, generators and containers of those",
                fix="give it state_dict and load_state_dict, or keep what the loop needs of it in Values",
            )
        if self.failures >= limit:
            raise Unrecoverable(
                f"{self.failures} saves in a row failed under {self.folder.url}, last: {text}; step "
                f"{max(self.saved_step, 0)}, the newest complete checkpoint, is untouched",
                expected="storage that can be written",
                fix="free space or repair the storage, then submit the same run again",
            )


class _KeptStager(DefaultStager):  # type: ignore[misc]
    """A stager for all saves of a process: torch 2.11 empties its inner one after each save."""

    def __init__(self, options: StagingOptions) -> None:
        super().__init__(options)
        self._state_dict_stager.close = lambda: None


def reasons(error: BaseException) -> list[str]:
    """The distinct causes inside a failed save or load, one line each; dcp carries one per rank."""
    texts = []
    for cause in causes(error):
        lines = [line for line in str(cause).splitlines() if line.strip()]
        text = f"{type(cause).__name__}: {lines[0].strip() if lines else ''}"
        if text not in texts:
            texts.append(text)
    return texts
