"""The training loop's half: resume, save in the background, react to a drain notice, report only what is complete.

    with Resumable(run, model=model, optimizer=optimizer) as training:
        for step in training.steps(1000):
            loss = train_one(step)
            training.finished(step, loss=loss)

Every rank runs the same lines in the same order. This class is the order of things in a loop; the parts do the work:
`saving`, `restoring`, `draining`, `ranks` (what the ranks agree on) and `state` (what a checkpoint holds).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping
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
        self.step = 0
        self.total_steps: int | None = None
        self.metrics: dict[str, Any] = {}
        self.draining = False
        self._asked_about: Save | None = None

    def __enter__(self) -> Resumable:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.saver.finish()
        else:
            self.saver.abandon()

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
        self.saver.finish()
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
        reason = self._talk()
        if reason is None and self.step % self.run.save_every_steps == 0 and self.step != self.total_steps:
            reason = "interval"
        if reason is not None:
            self.save(reason, wait=reason == "deadline")

    def save(self, reason: str = "interval", *, wait: bool = False) -> None:
        """Write a checkpoint of this moment; in the background unless the run says otherwise or `wait` is set."""
        self.saver.begin(step=self.step, metrics=self.metrics, reason=reason, wait=wait)

    def restore(self) -> None:
        """Load the newest complete checkpoint; `steps` does it first of all."""
        self.journal.update(now=True, state="restoring", world_size=self.world, attempt=self.attempt)
        self.journal.event(
            "start", role="worker", world=self.world, rank=self.rank, node=node_address(), pid=os.getpid(),
            attempt=self.attempt,
        )  # fmt: skip
        # loading may draw random numbers (a lazy module, a collective's shuffle); a new run must not notice
        before = rng.capture(self.state.device)
        restored = self.restorer.restore()
        if restored is None:
            rng.restore(before, self.state.device)
        else:
            self.step = restored.step
            self.saver.saved_step = restored.step if restored.own else -1
        # the ranks come out of a restore far apart; the first step has the short limit
        self.ranks.meet()
        self.journal.update(now=True, state="running")
        self.drains.begin(self.step)

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
            self.ranks.ask(
                float(saving and not self.saver.done_here), float(self.saver.failed_here), code, float(every)
            )
            if self.world == 1:
                reason = self._hear() or reason
        return reason

    def _hear(self) -> str | None:
        answer = self.ranks.answer()
        if answer is None:
            return None
        unfinished, failed, code, every = answer
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
        ray.train.report(
            dict(metrics),
            checkpoint=Checkpoint(self.folder.at(name), filesystem=filesystem),
            checkpoint_dir_name=name,
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )

    def _announce(self, kind: str, **fields: Any) -> None:
        self.journal.event(kind, always=True, step=self.step, node=node_address(), **fields)

    def _last_error(self) -> str:
        return str(self.journal.progress.get("last_error") or "see the errors above")


def ensure_process_group() -> None:
    """A process group of one, for local mode without torchrun; a job that shards its model calls it before it does."""
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def node_address() -> str:
    """This process's node, as Ray knows it; `local` without Ray."""
    return str(ray.util.get_node_ip_address()) if ray.is_initialized() else "local"
