"""The training loop's half: resume, save in the background, react to a drain notice, report only what is complete.

    with Resumable(run, model=model, optimizer=optimizer) as training:
        for step in training.steps(1000):
            loss = train_one(step)
            training.finished(step, loss=loss)

Every rank runs the same lines in the same order. Decisions that depend on a clock or on one rank's luck (has a notice
come, is the save done, is the deadline near) are agreed on first, by one small all-reduce over gloo.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import ray.train
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, CheckpointUploadMode
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful

from resilience.errors import InputError, Unrecoverable
from resilience.faults import FaultHooks
from resilience.folder import ABOUT, Found, RunFolder, checkpoint_name
from resilience.journal import Journal, say
from resilience.run import Run
from resilience.tiered import Tier
from resilience.writers import kind_for, reader_for, writer_for

_LAST_SAVE_S = 5.0
# what went wrong on any rank arrives on all, wrapped in dcp's own exception, which is no `Exception`
_DCP_ERRORS = (Exception, CheckpointException)


@dataclass
class _Save:
    """A save in flight."""

    name: str
    step: int
    reason: str
    metrics: dict[str, Any]
    future: Future[Any]
    started: float
    stall_s: float = 0.0


class Resumable:
    """Keeps one run's model, optimizer and step through faults.

    Args:
        run: What the driver described; in the loop it is `config["run"]`.
        model: The module, plain, DDP or FSDP2 (`fully_shard`); wrap it first.
        optimizer: Its optimizer.
        extra: Further state by name, each with `state_dict` and `load_state_dict` (a scheduler, a data reader).

    Needs a process group; in Ray's local mode without torchrun it makes one of a single process.
    """

    def __init__(
        self,
        run: Run,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        extra: Mapping[str, Stateful] | None = None,
    ) -> None:
        self.run, self.settings = run, run.settings
        self.model, self.optimizer, self.extra = model, optimizer, dict(extra or {})
        if not dist.is_initialized():
            ensure_process_group()
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device = next(model.parameters()).device
        # gloo, whatever the training uses: the first for the short agreements, the second for what may take long. A
        # shared group hung or aborted under async_save, whose thread runs collectives while the loop runs its own.
        self.agreement = dist.new_group(
            backend="gloo", timeout=timedelta(seconds=self.settings.process_group_timeout_s)
        )
        self.checkpoint_group = dist.new_group(
            backend="gloo", timeout=timedelta(seconds=self.settings.checkpoint_group_timeout_s)
        )
        # one stager for all saves: it keeps its buffers, and touching 150 MB of new memory costs more than copying
        # into old. A save waits for the one before, so a buffer is never overwritten while it is being written out.
        on_gpu = self.device.type == "cuda"
        self.stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=on_gpu, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=on_gpu
            )
        )
        self.folder = run.folder()
        self.kind = kind_for(self.folder, run.writer)
        self.tier = Tier(namespace=run.name, world=self.world) if self.kind == "tiered" else None
        self.journal = Journal(self.folder, name=run.name, enabled=self.rank == 0)
        self.hooks = FaultHooks(
            folder=Path(self.folder.at("faults")) if self.folder.local else None,
            rank=self.rank,
            announce=self._announce,
        )
        self.step = 0
        self.total_steps: int | None = None
        self.attempt = str(self._from_rank_zero(secrets.token_hex(3)))
        self.metrics: dict[str, Any] = {}
        self.saved_step = -1
        self.save_failures = 0
        self.last_save_s = 0.0
        self.in_flight: _Save | None = None
        self.drain: Any = None
        self.drain_saved_again = False
        self.next_drain_check = 0
        self.checked_at = (0, time.monotonic())

    def __enter__(self) -> Resumable:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.in_flight is None:
            return
        if kind is None:
            self._settle(wait=True)
        else:
            # the loop failed, the background thread need not: a save that gets done now is found on disk by the next
            # attempt. Bounded, because a peer that is gone or frozen would keep it waiting.
            save = self.in_flight
            ended, _left = concurrent.futures.wait([save.future], timeout=_LAST_SAVE_S)
            if ended and save.future.exception() is None and self.tier is None:
                self._note_saved(save, time.monotonic() - save.started)

    # ---- the loop ----

    def steps(self, total: int) -> Iterator[int]:
        """Yield the steps that are left of `total`, from the newest complete checkpoint on; save when due."""
        self.total_steps = total
        self.restore()
        while self.step < total:
            self.hooks.at_step()
            step = self.step
            yield step
            if self.step != step + 1:
                raise InputError(f"step {step}: call finished({step}, …) once at the end of each step")
        if self.in_flight is not None:
            self._settle(wait=True)
        if self.saved_step != self.step:
            self.save("final", wait=True)
        if self.saved_step != self.step:
            raise Unrecoverable(f"the final checkpoint of step {self.step} could not be written: {self._last_error()}")
        noted: dict[str, Any] = {**self.metrics, "step": self.step, "world": self.world}
        self.journal.event("done", **noted)
        self.journal.update(now=True, state="done")

    def finished(self, step: int, **metrics: float) -> None:
        """Note that `step` is done with these metrics, and save if it is time; the same call on every rank."""
        if step != self.step:
            raise InputError(f"finished: got step {step}, expected {self.step}")
        self.step = step + 1
        self.metrics = metrics
        if self.step % self.run.event_every_steps == 0:
            noted: dict[str, Any] = {**metrics, "step": self.step, "world": self.world}
            self.journal.event("step", **noted)
        state = "draining" if self.drain is not None else "running"
        self.journal.update(
            state=state, last_step=self.step, last_step_t=round(time.time(), 3), metrics=metrics, world_size=self.world,
            total_steps=self.total_steps, attempt=self.attempt,
        )  # fmt: skip
        if self.in_flight is not None:
            self._settle(wait=False)
        reason = self._drain_reason()
        if reason is None and self.step % self.run.save_every_steps == 0 and self.step != self.total_steps:
            reason = "interval"
        if reason is not None:
            self.save(reason, wait=reason == "deadline")

    # ---- saving ----

    def save(self, reason: str = "interval", *, wait: bool = False) -> None:
        """Write a checkpoint of this moment; in the background unless the run says otherwise or `wait` is set.

        It is reported to Ray, and so counts there, once every rank's part and the completeness mark are on storage.
        """
        if self.in_flight is not None:
            self._settle(wait=True)
        started = time.monotonic()
        name = checkpoint_name(step=self.step, attempt=self.attempt)
        metrics = {"step": self.step, **self.metrics}
        if self.rank == 0:
            try:
                self.folder.note(
                    name, ABOUT, {"step": self.step, "world": self.world, "metrics": metrics, "t": time.time()}
                )
            except OSError as error:  # the writers will fail on the same disk, and all ranks will hear of it
                say(f"{self.folder.at(name, ABOUT)}: {error.strerror or error}")
        if self.tier is not None:
            writer = self.tier.writer(step=self.step, durable=reason != "interval")
        else:
            writer = writer_for(kind=self.kind, folder=self.folder, name=name, rank=self.rank, hooks=self.hooks)
        future: Future[Any] = Future()
        group = self.checkpoint_group
        try:
            if self.run.async_save:
                future = cast(
                    "Future[Any]",
                    dcp.async_save(self._state(), storage_writer=writer, process_group=group, async_stager=self.stager),
                )
            else:
                future.set_result(dcp.save(self._state(), storage_writer=writer, process_group=group))
        except _DCP_ERRORS as error:
            future.set_exception(error)
        self.in_flight = _Save(name, self.step, reason, metrics, future, started, time.monotonic() - started)
        if wait or not self.run.async_save:
            self._settle(wait=True)

    def _settle(self, *, wait: bool) -> None:
        """Report the save in flight if all ranks are done with it; with `wait`, make them be."""
        save = self.in_flight
        assert save is not None  # noqa: S101
        waited = time.monotonic()
        if wait:
            _wait(save.future)
            # ranks may finish their parts far apart: meet on the patient group before anything with a short limit
            dist.barrier(group=self.checkpoint_group)
        elif self._agree(0.0 if save.future.done() else 1.0)[0] > 0:
            return
        save.stall_s += time.monotonic() - waited
        error = save.future.exception()
        self.in_flight = None
        if self._agree(0.0 if error is None else 1.0)[0] > 0:
            self._failed(save, error)
            return
        if self.tier is not None and self.rank == 0:
            self.tier.point(self.folder, save.name, step=save.step)
        self._report(save.name, save.metrics)
        self.saved_step, self.save_failures = save.step, 0
        seconds = time.monotonic() - save.started
        self.last_save_s = self._agree(seconds)[0]
        self._note_saved(save, seconds)

    def _note_saved(self, save: _Save, seconds: float) -> None:
        path = self.folder.at(save.name)
        self.journal.event(
            "save", step=save.step, reason=save.reason, path=path, world=self.world,
            seconds=round(seconds, 3), stall_s=round(save.stall_s, 4),
        )  # fmt: skip
        self.journal.update(
            now=True, last_checkpoint_step=save.step, last_checkpoint_t=round(time.time(), 3), last_checkpoint_path=path
        )

    def _failed(self, save: _Save, error: BaseException | None) -> None:
        self.save_failures += 1
        text = " ".join(reasons(error)) if error is not None else "another rank could not write its part"
        if self.rank == 0:
            try:
                self.folder.remove_failed(save.name)
            except OSError as problem:
                say(f"{self.folder.at(save.name)}: not removed ({problem})")
        say(
            f"checkpoint {self.folder.at(save.name)} was not written: {text}; earlier checkpoints are untouched "
            "and training goes "
            f"on ({self.save_failures} of {self.settings.save_failure_limit} failures in a row)"
        )
        self.journal.event("error", step=save.step, message=f"save failed: {text}", path=self.folder.at(save.name))
        self.journal.update(now=True, last_error=f"save failed at step {save.step}: {text}")
        if self.save_failures >= self.settings.save_failure_limit:
            raise Unrecoverable(
                f"{self.save_failures} saves in a row failed under {self.folder.url}, last: {text}; the newest "
                "complete checkpoint "
                f"is step {max(self.saved_step, 0)} and untouched; free space or mend the storage and submit the "
                "same run again"
            )

    def _report(self, name: str, metrics: Mapping[str, Any]) -> None:
        context = ray.train.get_context()
        filesystem = None
        if not self.folder.local:
            filesystem = context.get_storage().storage_filesystem
        checkpoint = Checkpoint(self.folder.at(name), filesystem=filesystem)
        ray.train.report(
            dict(metrics),
            checkpoint=checkpoint,
            checkpoint_dir_name=name,
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        extra = {key: value.state_dict() for key, value in self.extra.items()}
        return {"model": model, "optimizer": optimizer, "extra": extra, "step": self.step}

    # ---- resuming ----

    def restore(self) -> None:
        """Load the newest complete checkpoint: Ray's, or a newer one on disk whose report the controller missed.

        A damaged one is told and passed over. With none usable among some, Unrecoverable: starting over would hide
        the loss.
        """
        started = time.monotonic()
        self.journal.update(now=True, state="restoring", world_size=self.world, attempt=self.attempt)
        self.journal.event(
            "start",
            role="worker",
            world=self.world,
            rank=self.rank,
            node=_node(),
            pid=os.getpid(),
            attempt=self.attempt,
        )
        folder = self.folder
        candidates = self._candidates(folder)
        if not candidates and self.run.start_from:
            folder = RunFolder(self.run.start_from)
            candidates = self._candidates(folder)
            if not candidates:
                raise InputError(f"start_from: got {self.run.start_from}, which holds no checkpoint folder step-*")
        troubles = []
        unfinished = 0
        for found in candidates:
            trouble = self._from_rank_zero(folder.why_unusable(found.name) if self.rank == 0 else None)
            if trouble is None:
                trouble = self._load(folder, found.name)
            if trouble is None:
                self._restored(folder, found, time.monotonic() - started)
                break
            if str(trouble).startswith("unfinished"):
                unfinished += 1
                continue
            troubles.append(f"{found.name}: {trouble}")
            if self.rank == 0:
                say(f"checkpoint {folder.at(found.name)} is passed over: {trouble}")
            self.journal.event("error", message=f"checkpoint passed over: {trouble}", path=folder.at(found.name))
        else:
            if troubles:
                raise Unrecoverable(
                    f"run {folder.url} has checkpoints but none can be used: {'; '.join(troubles)}; nothing was "
                    "overwritten. Bring "
                    "one back from a backup, or start under a new name"
                )
            if unfinished and ray_has_checkpoint():
                raise Unrecoverable(
                    f"run {folder.url}: Ray's snapshot names a checkpoint, and no folder is complete; nothing was "
                    "overwritten. "
                    "Bring one back from a backup, or start under a new name"
                )
        if self.rank == 0:
            for name in self.folder.remove_unfinished(keep_attempt=self.attempt):
                self.journal.event("error", message="unfinished checkpoint removed", path=self.folder.at(name))
        # the ranks come out of a restore far apart; the first step has the short limit
        dist.barrier(group=self.checkpoint_group)
        self.journal.update(now=True, state="running")
        self.next_drain_check = self.step
        self.checked_at = (self.step, time.monotonic())

    def _candidates(self, folder: RunFolder) -> list[Found]:
        found = folder.checkpoints() if self.rank == 0 else []
        return [Found(step, name) for step, name in self._from_rank_zero([(item.step, item.name) for item in found])]

    def _load(self, folder: RunFolder, name: str) -> str | None:
        """Load one checkpoint; the reason on every rank if it failed on any."""
        trouble = ""
        if self.settings.verify_checksums:
            try:
                trouble = "; ".join(folder.spoilt_files(name, rank=self.rank, world=self.world))
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}"
            trouble = self._first_of_all(trouble)
        if trouble:
            return trouble
        state = self._state()
        try:
            reader = self.tier.reader(folder, name) if self.tier is not None else reader_for(folder, name)
            dcp.load(state, storage_reader=reader, process_group=self.checkpoint_group)
        except _DCP_ERRORS as error:
            trouble = " ".join(reasons(error))
        trouble = self._first_of_all(trouble)
        if trouble:
            return trouble
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        for key, value in self.extra.items():
            value.load_state_dict(state["extra"][key])
        self.step = int(state["step"])
        return None

    def _restored(self, folder: RunFolder, found: Found, seconds: float) -> None:
        about = self._from_rank_zero(folder.about(found.name) if self.rank == 0 else None)
        before = about.get("world")
        path = folder.at(found.name)
        own = folder.url == self.folder.url
        self.journal.event(
            "restore", step=self.step, path=path, seconds=round(seconds, 3), world=self.world, node=_node()
        )
        if before and before != self.world:
            self.journal.event("resize", step=self.step, world=self.world, world_before=before)
        self.journal.update(last_step=self.step, restored_step=self.step, restored_path=path)
        if not own:
            return
        self.saved_step = self.step
        self.journal.update(last_checkpoint_step=self.step, last_checkpoint_path=path)
        if not self._from_rank_zero(self.rank == 0 and self._known_to_ray(found.name)):
            # complete on disk, unknown to Ray: its worker died before the controller looked. Reporting it now puts it
            # under Ray's book-keeping, so that it is pruned in its turn. (A second report of a known one would get it
            # deleted twice.)
            self._report(found.name, about.get("metrics") or {"step": self.step})

    def _known_to_ray(self, name: str) -> bool:
        try:
            snapshot = self.folder.snapshot()
        except ValueError:
            return False
        return snapshot is not None and name in snapshot.names

    # ---- draining ----

    def _drain_reason(self) -> str | None:
        """`drain` when a notice has come, `deadline` when its end is near, else None; the same on every rank."""
        if self.step < self.next_drain_check:
            return None
        info = ray.train.get_preemption_info()
        now = time.monotonic()
        steps_done = max(1, self.step - self.checked_at[0])
        near = 0.0
        if info is not None and info.deadline_ms:
            margin_s = max(self.settings.deadline_margin_s, 3 * self.last_save_s)
            near = 1.0 if time.time() >= info.deadline_ms / 1000 - margin_s else 0.0
        step_s, near = self._agree((now - self.checked_at[1]) / steps_done, near)
        self.checked_at = (self.step, time.monotonic())
        every = (
            1
            if info is not None
            else max(1, min(int(self.settings.drain_check_interval_s / max(step_s, 1e-6)), 10_000))
        )
        self.next_drain_check = self.step + every
        if info is None:
            return None
        known = (info.deadline_ms, tuple(info.preempted_node_ids))
        if known != self.drain:
            self.drain, self.drain_saved_again = known, False
            self.journal.event(
                "drain", step=self.step, deadline_t=(info.deadline_ms or 0) / 1000, ranks=info.preempted_ranks,
                node=",".join(node[:8] for node in info.preempted_node_ids),
            )  # fmt: skip
            self.journal.update(now=True, state="draining")
            return "drain"
        if near and not self.drain_saved_again:
            self.drain_saved_again = True
            return "deadline"
        return None

    # ---- agreement ----

    def _agree(self, *values: float) -> list[float]:
        """The largest of each value over all ranks."""
        if self.world == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self.agreement)
        return [float(value) for value in tensor]

    def _from_rank_zero(self, value: Any) -> Any:
        box = [value]
        if self.world > 1:
            dist.broadcast_object_list(box, src=0, group=self.checkpoint_group, device=torch.device("cpu"))
        return box[0]

    def _first_of_all(self, text: str) -> str:
        texts: list[Any] = [None] * self.world
        if self.world == 1:
            return text
        dist.all_gather_object(texts, text, group=self.checkpoint_group)
        return next((str(item) for item in texts if item), "")

    def _announce(self, kind: str, **fields: Any) -> None:
        self.journal.event(kind, always=True, step=self.step, node=_node(), **fields)

    def _last_error(self) -> str:
        return str(self.journal.progress.get("last_error") or "see the errors above")


def ensure_process_group() -> None:
    """A process group of one, for local mode without torchrun; a job that shards its model calls it before it does."""
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def ray_has_checkpoint() -> bool:
    """Whether Ray's snapshot names a checkpoint to resume from."""
    return ray.train.get_checkpoint() is not None


def reasons(error: BaseException) -> list[str]:
    """The distinct causes inside a failed save or load, one line each; dcp carries one per rank."""
    failures = getattr(error, "failures", None)
    inner = [item[0] if isinstance(item, tuple) else item for item in failures.values()] if failures else [error]
    texts = []
    for item in inner:
        lines = [line for line in str(item).splitlines() if line.strip()]
        text = f"{type(item).__name__}: {lines[0].strip() if lines else ''}"
        if text not in texts:
            texts.append(text)
    return texts


def _wait(future: Future[Any]) -> None:
    with contextlib.suppress(*_DCP_ERRORS):  # told by the caller, on every rank
        future.result()


def _node() -> str:
    return str(ray.util.get_node_ip_address()) if ray.is_initialized() else "local"
