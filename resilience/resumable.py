"""The training loop's half: resume, save in the background, react to a drain notice, report only what is complete.

    with Resumable(run, model=model, optimizer=optimizer) as training:
        for step in training.steps(1000):
            loss = train_one(step)
            training.finished(step, loss=loss)

Every rank runs the same lines in the same order. This class is the order of things in a loop; the parts do the work:
`saving`, `restoring`, `draining`, `ranks` (what the ranks agree on) and `state` (what a checkpoint holds).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train import Checkpoint, CheckpointUploadMode
from torch.distributed.checkpoint.stateful import Stateful

from resilience import rng
from resilience.draining import NONE, DrainWatch
from resilience.errors import InputError, Unrecoverable
from resilience.faults import FaultHooks
from resilience.journal import Journal
from resilience.ranks import Ranks
from resilience.restoring import Restorer
from resilience.run import Run
from resilience.saving import Save, Saver
from resilience.spares import warm_up
from resilience.spares.loop import HandOverError, current
from resilience.spares.memory import Memory, Neighbour, Snapshot
from resilience.spares.ray_group import report_alone
from resilience.state import TrainingState
from resilience.tiered import Tier
from resilience.writers import kind_for


class Resumable:
    """Keeps one run's model, optimizer, random numbers and step through faults.

    Args:
        run: What the driver described; in the loop it is `config["run"]`.
        model: The module, plain, DDP or FSDP2 (`fully_shard`); wrap it first.
        optimizer: Its optimizer.
        extra: Further state by name, each with `state_dict` and `load_state_dict` (a scheduler, a data reader).

    Needs a process group; in Ray's local mode without torchrun it makes one of a single process.
    """

    def __new__(cls, *_: Any, **__: Any) -> Resumable:
        """A spare that rehearses the loop gets one that only counts steps."""
        return super().__new__(Rehearsed if warm_up.under_way() else cls)

    def __init__(
        self,
        run: Run,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        extra: Mapping[str, Stateful] | None = None,
    ) -> None:
        ensure_process_group()
        self.run, self.settings = run, run.settings
        self.folder = run.folder()
        self.generation = current()
        self.ranks = Ranks(run.settings)
        self.rank, self.world = self.ranks.rank, self.ranks.world
        self.state = TrainingState(model=model, optimizer=optimizer, extra=extra or {}, rank=self.rank)
        self.journal = Journal(self.folder, name=run.name, enabled=self.rank == 0)
        self.attempt = str(self.ranks.from_rank_zero(secrets.token_hex(3)))
        self.hooks = FaultHooks(
            folder=Path(self.folder.at("faults")) if self.folder.local else None,
            rank=self.rank,
            announce=self._announce,
        )
        kind = kind_for(self.folder, run.writer)
        tier = Tier(namespace=run.name, world=self.world) if kind == "tiered" else None
        self.saver = Saver(
            run=run, folder=self.folder, state=self.state, ranks=self.ranks, journal=self.journal, hooks=self.hooks,
            attempt=self.attempt, kind=kind, tier=tier, report=self._report,
        )  # fmt: skip
        self.restorer = Restorer(
            run=run, folder=self.folder, state=self.state, ranks=self.ranks, journal=self.journal,
            attempt=self.attempt, tier=tier, report=self._report, node=node_address(),
        )  # fmt: skip
        self.drains = DrainWatch(run.settings, self.journal)
        self.memory = self._make_memory(model, optimizer)
        self.step = 0
        self.total_steps: int | None = None
        self.metrics: dict[str, Any] = {}
        self.draining = False
        self.leaving = False
        self._asked_about: Save | None = None

    def _make_memory(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Memory | None:
        generation = self.generation
        if generation is None:
            return None
        group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.settings.process_group_timeout_s))
        # a save and a copy run beside the loop and may be slow: no sign of a hang
        generation.quiet_groups = {self.ranks.patient, group}
        generation.groups.all_open()
        if not self.settings.memory_every_steps:
            return None
        snapshot = Snapshot(model=model, optimizer=optimizer, extra=self.state.extra)
        neighbour = Neighbour(store=generation.store, group=group, nodes=generation.nodes, rank=self.rank)
        return Memory(snapshot=snapshot, neighbour=neighbour, every=self.settings.memory_every_steps)

    def __enter__(self) -> Resumable:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._finish_save()
        elif self.generation is None:
            self.saver.abandon()
        elif self.memory is not None:
            self.memory.neighbour.salvage()

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
        self._finish_save()
        if self.saver.saved_step != self.step:
            self.save("final", wait=True)
        if self.saver.saved_step != self.step:
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
        self.journal.update(
            state="draining" if self.draining else "running", last_step=self.step, metrics=metrics,
            last_step_t=round(time.time(), 3), world_size=self.world, total_steps=self.total_steps,
            attempt=self.attempt,
        )  # fmt: skip
        if self.generation is not None:
            self.generation.member.now.step = self.step
            self.generation.store.saved_step = max(self.generation.store.saved_step, self.saver.saved_step)
        reason = self._talk()
        if self.memory is not None:
            self.memory.finished(self.step, settle=self.leaving)
        if self.leaving:
            self._hand_over()
        if self.generation is not None:
            self.generation.member.now.saving = self.saver.in_flight is not None
        if reason is None and self.step % self.run.save_every_steps == 0 and self.step != self.total_steps:
            reason = "interval"
        if reason is not None:
            self.save(reason, wait=reason == "deadline")

    def save(self, reason: str = "interval", *, wait: bool = False) -> None:
        """Write a checkpoint of this moment; in the background unless the run says otherwise or `wait` is set."""
        if self.generation is not None:
            self.generation.member.now.saving = True
        with self.unhurried():
            self.saver.begin(step=self.step, metrics=self.metrics, reason=reason, wait=wait)

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        """While inside, no rank counts as hung: for a validation or a download that only some ranks do."""
        if self.generation is None:
            yield
            return
        with self.generation.member.busy():
            yield

    def _finish_save(self) -> None:
        with self.unhurried():
            self.saver.finish()

    def _hand_over(self) -> None:
        """All ranks hold this step in memory, and some of them are about to lose their node."""
        self.ranks.agree(0.0)  # nobody leaves before everybody's copy has arrived
        raise HandOverError

    def restore(self) -> None:
        """Load the newest complete checkpoint; `steps` does it first of all."""
        self.journal.update(now=True, state="restoring", world_size=self.world, attempt=self.attempt)
        self.journal.event(
            "start", role="worker", world=self.world, rank=self.rank, node=node_address(), pid=os.getpid(),
            attempt=self.attempt,
        )  # fmt: skip
        with self.unhurried():
            if not self._from_memory():
                self._from_checkpoint()
            # the ranks come out of a restore far apart; the first step has the short limit
            self.ranks.meet()
        self.journal.update(now=True, state="running")
        self.drains.begin(self.step)

    def _from_checkpoint(self) -> None:
        # loading may draw random numbers (a lazy module, a collective's shuffle); a new run must not notice
        before = rng.capture(self.state.device)
        restored = self.restorer.restore()
        if restored is None:
            rng.restore(before, self.state.device)
            return
        self.step = restored.step
        self.saver.saved_step = restored.step if restored.own else -1
        if self.generation is not None:
            self.generation.store.saved_step = self.saver.saved_step

    def _from_memory(self) -> bool:
        """Take the newest step that the ranks of the last generation hold; False where a checkpoint is as new."""
        if self.memory is None or self.generation is None:
            return False
        started = time.monotonic()
        step = self.memory.restore()
        if step is None:
            return False
        self.step, generation, now = step, self.generation, time.monotonic()
        self.journal.event(
            "restore", step=step, path="memory", seconds=round(now - started, 3), world=self.world,
            node=node_address(), gen=generation.number, group_s=round(generation.group_s, 3),
            build_s=round(started - generation.begun - generation.group_s, 3),
        )  # fmt: skip
        self.journal.update(last_step=step, restored_step=step, restored_path="memory")
        return True

    # ---- what the ranks tell each other ----

    def _talk(self) -> str | None:
        """Hear what was asked at the last step, ask what there is to ask; the reason to save now, or None."""
        reason = self._hear()
        saving, looking = self.saver.in_flight is not None, self.drains.due(self.step)
        if saving or looking:
            code, every = NONE, 0
            if looking and self.rank == 0:
                code, every = self.drains.look(self.step, last_save_s=self.saver.last_save_s)
            self._asked_about = self.saver.in_flight
            leaving = self.generation is not None and self.generation.member.move_asked
            self.ranks.ask(
                float(saving and not self.saver.done_here),
                float(self.saver.failed_here),
                code,
                float(every),
                float(leaving),
            )
            if self.world == 1:
                reason = self._hear() or reason
        return reason

    def _hear(self) -> str | None:
        answer = self.ranks.answer()
        if answer is None:
            return None
        unfinished, failed, code, every, leaving = answer
        self.leaving = leaving > 0
        save, self._asked_about = self._asked_about, None
        if save is not None and save is self.saver.in_flight and not unfinished:
            self.saver.settle(failed=failed > 0)
        if not every:  # nobody looked for a notice
            return None
        reason = self.drains.heard(self.step, code=code, every=every)
        self.draining = self.draining or reason is not None
        return reason

    def _report(self, name: str, metrics: Mapping[str, Any]) -> None:
        filesystem = None if self.folder.local else ray.train.get_context().get_storage().storage_filesystem
        checkpoint = Checkpoint(self.folder.at(name), filesystem=filesystem)
        if self.generation is not None:
            if self.rank == 0:
                report_alone(checkpoint, dict(metrics))
            return
        ray.train.report(
            dict(metrics),
            checkpoint=checkpoint,
            checkpoint_dir_name=name,
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
            # what a save left in its place, S3 included, is the folder's to prune and never Ray's to delete
            delete_local_checkpoint_after_upload=False,
        )

    def _announce(self, kind: str, **fields: Any) -> None:
        self.journal.event(kind, always=True, step=self.step, node=node_address(), **fields)

    def _last_error(self) -> str:
        return str(self.journal.progress.get("last_error") or "see the errors above")


class Rehearsed(Resumable):
    """What a spare gets while it rehearses the loop: two steps from 0, nothing restored, nothing written."""

    def __init__(self, run: Run, **_: Any) -> None:
        self.run, self.step = run, 0

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Nothing to save."""

    def steps(self, total: int) -> Iterator[int]:
        """The first steps; then the rehearsal is over."""
        yield from range(min(total, warm_up.STEPS))
        raise warm_up.RehearsalOverError

    def finished(self, step: int, **metrics: float) -> None:
        """Count."""
        self.step = step + 1
        if self.step >= warm_up.STEPS:
            raise warm_up.RehearsalOverError

    def save(self, reason: str = "interval", *, wait: bool = False) -> None:
        """Nothing."""

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        """Nothing."""
        yield


def ensure_process_group() -> None:
    """A process group of one, for local mode without torchrun; a job that shards its model calls it before it does."""
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def node_address() -> str:
    """This process's node, as Ray knows it; `local` without Ray."""
    return str(ray.util.get_node_ip_address()) if ray.is_initialized() else "local"
