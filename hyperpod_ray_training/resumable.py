"""The training loop's half: resume, save in the background, react to a drain notice, report only what is complete.

    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(1000):
        loss = train_one(step)
        training.finished(step, loss=loss)

or, around a loader that the loop has already,

    for epoch in training.epochs(10):
        for batch in training.batches(loader):
            training.note(loss=train_one(batch))

Every rank runs the same lines in the same order. This class is the order of things in a loop; the parts do the work:
`saving`, `restoring`, `draining`, `ranks` (what the ranks agree on) and `state` (what a checkpoint holds).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train import Checkpoint, CheckpointUploadMode
from ray.train.v2._internal.execution.train_fn_utils import get_train_fn_utils

from hyperpod_ray_training import fabric, flight, hangs, rng, torchrun
from hyperpod_ray_training.batches import Position
from hyperpod_ray_training.completeness import Completeness
from hyperpod_ray_training.draining import NONE, DrainWatch
from hyperpod_ray_training.errors import InputError, Unrecoverable
from hyperpod_ray_training.faults import FOLDER, FaultHooks
from hyperpod_ray_training.interval import SaveClock
from hyperpod_ray_training.journal import Journal, log
from hyperpod_ray_training.looping import Looping
from hyperpod_ray_training.metrics import Metrics
from hyperpod_ray_training.open_runs import LIVE
from hyperpod_ray_training.pace import Pace, Parts
from hyperpod_ray_training.ranks import Ranks, patience
from hyperpod_ray_training.restoring import Restorer
from hyperpod_ray_training.run import Run
from hyperpod_ray_training.saving import Save, Saver
from hyperpod_ray_training.spares import warm_up
from hyperpod_ray_training.spares.loop import HandOverError, current
from hyperpod_ray_training.spares.memory import memory_of
from hyperpod_ray_training.spares.ray_group import report_alone
from hyperpod_ray_training.spares.stragglers import NOBODY, described
from hyperpod_ray_training.state import TrainingState, module_of
from hyperpod_ray_training.tiered import Tier
from hyperpod_ray_training.tracking import tracker_of
from hyperpod_ray_training.variables import loop_frames
from hyperpod_ray_training.waits import Waits
from hyperpod_ray_training.writers import kind_for

STAY, MOVE, RESIZE = 0.0, 1.0, 2.0
TRANSPORT_STEPS = 3
"""Steps after which NCCL's log is read for the way it sends; it says it before the first."""


class Resumable(Looping):
    """Keeps one run's model, optimizer, random numbers, place in the data and step through faults.

    Args:
        run: What the driver described; in the loop it is `config["run"]`.
        model: The module, plain, DDP or FSDP2 (`fully_shard`), or several in a list or mapping; wrap it first. All its
            parameters and buffers are saved.
        optimizer: Its optimizer, several in a list or mapping, or a container of them.
        extra: Further state by name: what has `state_dict` and `load_state_dict` (a scheduler, a `GradScaler`, an
            `AveragedModel`), a tensor, or a list, dict or deque. What differs by rank is saved for each.
        per_rank: State by name that each rank has its own of, any that can be pickled: `Values` of the loop, a
            generator, a replay buffer. It is omitted where another number of ranks takes the run up.
        recomputed: Tensors, generators and objects that the loop keeps and that need not come back after a fault,
            such as the figures of a progress bar; names of the loop's variables count too.

    Needs a process group; in Ray's local mode without torchrun it makes one of a single process. Works with and
    without `with`: a loop that `Run.fit` started leaves it at its end.
    """

    def __new__(cls, *_: Any, **__: Any) -> Resumable:
        """A spare that rehearses the loop gets one that only counts steps."""
        if not warm_up.under_way():
            return super().__new__(cls)
        return super().__new__(Rehearsed)

    def __init__(
        self,
        run: Run,
        *,
        model: torch.nn.Module | Sequence[torch.nn.Module] | Mapping[str, torch.nn.Module],
        optimizer: Any,
        extra: Mapping[str, Any] | None = None,
        per_rank: Mapping[str, Any] | None = None,
        recomputed: Sequence[Any] = (),
    ) -> None:
        fabric.listen()
        flight.record()
        ensure_process_group()
        self.run, self.settings = run, run.settings
        self.folder = run.folder()
        self.generation = current()
        self.ranks = Ranks(run.settings)
        self.rank, self.world = self.ranks.rank, self.ranks.world
        self.state = TrainingState(
            model=model, optimizer=optimizer, extra=extra or {}, per_rank=per_rank or {}, rank=self.rank,
            world=self.world,
        )  # fmt: skip
        self.complete = Completeness(self.state, recomputed)
        self._groups, self._shapes = self.state.group_sizes(), self.state.parameter_shapes()
        self.position, self.device = self.state.position, self.state.device
        self.journal = Journal(self.folder, name=run.name, enabled=self.rank == 0)
        self.pace, self.parts = Pace(self.journal.progress, world=self.world), Parts()
        self.shown = Metrics(run.name, enabled=self.rank == 0)
        self.attempt = str(self.ranks.from_rank_zero(secrets.token_hex(3)))
        self.hooks = FaultHooks(
            folder=Path(self.folder.at(FOLDER)) if self.folder.local else None,
            rank=self.rank,
            announce=self._announce,
        )
        writer_kind = kind_for(self.folder, run.writer)
        tier = Tier(namespace=run.name, world=self.world) if writer_kind == "tiered" else None
        self.saver = Saver(
            run=run, folder=self.folder, state=self.state, ranks=self.ranks, journal=self.journal, hooks=self.hooks,
            attempt=self.attempt, writer_kind=writer_kind, tier=tier, report=self._report,
        )  # fmt: skip
        self.complete.quiesce = self.saver.wait_until_written
        self.restorer = Restorer(
            run=run, folder=self.folder, state=self.state, ranks=self.ranks, journal=self.journal,
            attempt=self.attempt, tier=tier, report=self._report, node=node_address(),
        )  # fmt: skip
        self.drains = DrainWatch(run.settings, self.journal)
        self.clock = SaveClock(
            every_steps=run.save_every_steps, every_s=run.settings.save_every_s, agree=self.ranks.agree
        )
        self.memory = None
        if self.generation is not None:
            self.memory = memory_of(self.generation, self.state, self.settings, quiet=self.ranks.patient)
        # a coordinator hears of all ranks by itself
        self.waits = Waits(self.rank, self.world if self.generation is None else 1)
        self.metrics: dict[str, Any] = {}
        self.tracker = tracker_of(run.name, run.url) if self.journal.enabled else None
        self.journal.progress |= {"transport": "", "efa": False, "across_nodes": False}  # those of an earlier start
        self._asked_for_transport = 0 if self.journal.enabled and fabric.uses_nccl() else TRANSPORT_STEPS
        hangs.begin()  # a loop that another trainer runs
        self.draining = False
        self.alone = torchrun.started() and not ray.is_initialized()
        self.prunes = self.generation is None and in_local_mode()
        self.leaving = self.resizing = False
        self._asked_about: Save | None = None
        LIVE.append(self)

    def __enter__(self) -> Resumable:
        return self

    def __exit__(self, exception_type: type[BaseException] | None, *_: object) -> None:
        if self in LIVE:
            LIVE.remove(self)
            self.leave(failed=exception_type is not None)

    def leave(self, *, failed: bool) -> None:
        """The loop has ended, well or not; a second call does nothing."""
        self.complete.abandon()
        self.waits.end()
        try:
            self._leave(failed=failed)
        finally:
            tracker, self.tracker = self.tracker, None
            # with spares the process stays after a fault, and takes its tracker along
            if tracker is not None and not (failed and self.generation is not None):
                tracker.close(failed=failed)

    def _leave(self, *, failed: bool) -> None:
        if failed:
            if self.generation is None:
                with contextlib.suppress(Exception):  # the loop's own error counts
                    flight.keep(self.folder, attempt=self.attempt, rank=self.rank)
                self.saver.abandon()
            elif self.memory is not None:
                self.memory.neighbour.salvage()
        elif self._loaders:
            self.end()  # a loop over batches that ended early, or has no epochs
        else:
            self._finish_save()

    # ---- the loop ----

    def about_to_step(self) -> None:
        """Faults on request; the first steps are watched."""
        if self.hooks.holds(self.step):
            with self.unhurried():
                self.hooks.wait(self.step)
        self.hooks.at_step()
        self.complete.step_begins(self.step, loop_frames())

    def finish(self) -> None:
        """All steps are done: save the last, unless it is."""
        self.journal.update(at_once=True, state="saving")
        self._finish_save()
        if self.saver.saved_step != self.step:
            self.save("final", wait=True)
        if self.saver.saved_step != self.step:
            raise Unrecoverable(
                f"the final checkpoint of step {self.step} could not be written: {self._last_error()}",
                expected="storage that can be written",
                fix="free space or repair the storage, then submit the same run again",
            )
        noted: dict[str, Any] = {**self.metrics, "step": self.step, "world": self.world}
        hangs.ended(self.step)
        self.journal.event("done", **noted)
        self.journal.update(at_once=True, state="done")

    def finished(self, step: int, **metrics: float) -> None:
        """Note that `step` is done with these metrics, and save if it is time; the same call on every rank."""
        if step != self.step:
            raise InputError(f"finished: step {step}", expected=f"{self.step}", fix="correct the loop")
        self._prove_complete(step)
        self.step = step + 1
        hangs.stepped(self.step)
        self.shown.stepped(self.step, world=self.world, metrics=metrics)
        self.metrics = metrics
        if self.step % self.run.event_every_steps == 0:
            noted: dict[str, Any] = {**metrics, "step": self.step, "world": self.world}
            self.journal.event("step", **noted)
        if self.tracker is not None:
            self.tracker.log(self.step, metrics)
        pace = {}
        if self.journal.enabled:
            self.pace.stepped(time.monotonic())
            self.parts.stepped(time.monotonic())
            pace = self.pace.fields() | self.parts.fields()
        self.journal.update(
            state=self._running, last_step=self.step, metrics=metrics,
            last_step_t=round(time.time(), 3), world_size=self.world, total_steps=self.total_steps,
            attempt=self.attempt, copy_every_steps=self.memory.interval if self.memory else None, **pace,
        )  # fmt: skip
        if self.generation is not None:
            self.generation.member.now.step = self.step
            self.generation.store.saved_step = max(self.generation.store.saved_step, self.saver.saved_step)
        self._note_transport()
        reason = self._talk()
        if self.memory is not None:
            self.memory.finished(self.step, settle=self.leaving)
        if self.resizing:
            self.save("resize", wait=True)
        if self.leaving:
            self._hand_over()
        if self.generation is not None:
            self.generation.member.now.saving = self.saver.in_flight is not None
        if self.clock.due(self.step) and reason is None and self.step != self.total_steps:
            reason = "interval"
        if reason is not None:
            self.save(reason, wait=reason in {"deadline", "leave"})
        if reason == "leave" and self.step != self.total_steps:
            raise SystemExit(torchrun.LEFT)

    def _prove_complete(self, step: int) -> None:
        """Refuse to continue where the step that has ended needed state that no copy holds."""
        missing = self.complete.step_ended(step)
        noted = [gap for gap in missing if gap.noted]
        missing = [gap for gap in missing if not gap.noted]
        if noted:
            self._warn(f"not saved, and lost with the process: {', '.join(gap.path for gap in noted[:8])}")
        sizes = self.state.group_sizes()
        if sizes != self._groups:
            text = f"optimizer: {sizes} parameters in its groups, {self._groups} when Resumable was created"
            fix = "add every group before Resumable is created, with lr=0 until it is trained"
            self._groups = sizes
            self._refuse(text, expected="groups that stay", fix=fix)
        shapes, before = self.state.parameter_shapes(), self._shapes
        if shapes != before:
            self._shapes = shapes
            changed = sorted(name for name in shapes.keys() | before.keys()
                             if shapes.get(name) != before.get(name, ()) or name not in shapes)  # fmt: skip
            changed = [name for name in changed if before.get(name, ()) is not None]
            if changed:
                self._refuse(
                    f"model: {', '.join(changed[:4])} changed since Resumable was created: a restart builds it as "
                    "it was",
                    expected="parameters that stay, by name and shape",
                    fix="make, prune or resize parameters before Resumable is created",
                )
        if missing:
            names = "; ".join(f"{gap.path} ({gap.sort})" for gap in missing[:6])
            suffix = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
            fixes = list(dict.fromkeys(gap.fix for gap in missing))
            self._refuse(
                f"the loop keeps state that no copy and no checkpoint holds: {names}{suffix}",
                expected="all of it in Resumable's arguments, or in recomputed=",
                fix=f"{'; '.join(fixes[:4])}; or recomputed=[{missing[0].path!r}] where it need not come back",
            )

    def _refuse(self, text: str, *, expected: str, fix: str) -> None:
        if self.settings.strict:
            raise Unrecoverable(text, expected=expected, fix=fix)
        self._warn(f"{text}. Fix: {fix}")

    def _warn(self, text: str) -> None:
        log(f"rank {self.rank}: {text}")
        self.journal.event("note", message=text)

    def draws(self, iterator: Iterator[Any]) -> None:
        """The run keeps the place of this iterator."""
        self.complete.draws(iterator)

    def handed(self, batch: Any) -> None:
        """A batch goes to the loop from a place that the run keeps."""
        self.complete.handed(batch)

    def fetched_ahead(self, through: str) -> None:
        """Another trainer fetches its batches by itself, ahead of their steps, from a place that the run keeps.

        Args:
            through: The call that brings further state to the run.
        """
        self.complete.fetches_by_itself, self.complete.through = True, through

    def looks_at(self, objects: Mapping[str, Any]) -> None:
        """Objects by path that take part in each step, and that no variable of the user's reaches."""
        self.complete.beside = objects

    def _note_transport(self) -> None:
        """Write down how ranks talk, as soon as NCCL has said it."""
        if self._asked_for_transport >= TRANSPORT_STEPS:
            return
        self._asked_for_transport += 1
        if transport := fabric.chosen():
            self._asked_for_transport = TRANSPORT_STEPS
            noted: dict[str, Any] = {
                "transport": transport,
                "efa": fabric.has_efa(),
                "across_nodes": fabric.across_nodes(self.world),
            }
            self.journal.event("transport", **noted)
            self.journal.update(**noted)

    def part_done(self) -> None:
        """Note that a part of the step under way is done, such as a micro-batch.

        Steps may take minutes; with their parts, `status` reports a hang as soon as of short steps. Loops over
        `batches`, of Lightning and of transformers note them by themselves.
        """
        if self.journal.enabled:
            self.parts.noted(time.monotonic())
            self.journal.update(last_part_t=round(time.time(), 3))

    def save(self, reason: str = "interval", *, wait: bool = False) -> None:
        """Write a checkpoint of this moment; in the background unless the run says otherwise or `wait` is set."""
        if self.generation is not None:
            self.generation.member.now.saving = True
        stands = wait or not self.run.async_save
        if stands:
            self.journal.update(at_once=True, state="saving")
        with self.unhurried():
            self.saver.finish()
            self.complete.noticed(self.step, frozenset(self.state.content().tensors))
            if self.rank == 0 and self.run.keep is not None:  # a full disk has room for this one then
                keep = max(1, self.run.keep - 1)
                if self.prunes:
                    torchrun.prune(self.folder, self.run, keep=keep)
                elif self.run.best is None:  # by a metric, Ray may remove the new one
                    self.folder.make_room(keep=keep)
            self.saver.begin(step=self.step, metrics=self.metrics, reason=reason, wait=wait)
        if self.memory is not None:
            self.memory.neighbour.left()
        if stands:
            self.parts.pace.left()
            self.journal.update(at_once=True, state=self._running)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Announce what takes long on this rank, while others may wait for it: an evaluation, a download.

        Only the ranks that do it enter it. With spares, this rank does not count as hung inside. Without spares,
        collectives of the others still end after `process_group_timeout_s`: let every rank enter `pause` then.

        Args:
            name: What it is, for whoever looks at the run.
        """
        self.journal.update(at_once=True, phase=name)
        with self.waits.busy(alone=True), self.unhurried():
            yield
        self._left()
        self.journal.update(at_once=True, phase="")

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        """As `phase`, without a name."""
        if self.generation is None:
            with self.waits.busy():
                yield
            return
        with self.generation.member.busy():
            yield

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Declare a pause that may take minutes: a validation, an export, a download.

        Every rank enters it, also those that have nothing to do there. No rank counts as hung in it, a collective in it
        may take `checkpoint_group_timeout_s`, and the ranks meet at its end.
        """
        self.journal.update(at_once=True, state="paused")
        limit = self.settings.checkpoint_group_timeout_s
        self.shown.began()
        with hangs.paused(self.step, limit_s=limit), self.unhurried(), patience(limit):
            yield
            self.ranks.meet()
        self.shown.began()
        self._left()
        self.journal.update(at_once=True, state=self._running)

    def _left(self) -> None:
        """What it took is no part of a step."""
        self.parts.pace.left()
        if self.memory is not None:
            self.memory.neighbour.left()

    def told(self, metrics: Mapping[str, Any]) -> None:
        """Metrics of a `ray.train.report` without a checkpoint, in a run with spares."""
        self.metrics = {**self.metrics, **metrics}
        self.journal.update(reported=dict(metrics))

    @property
    def _running(self) -> str:
        return "draining" if self.draining else "running"

    def _finish_save(self) -> None:
        with self.unhurried():
            self.saver.finish()

    def _hand_over(self) -> None:
        """All ranks hold this step in memory, and some of them are about to lose their node."""
        self.ranks.agree(0.0)  # nobody leaves before everybody's copy has arrived
        raise HandOverError

    def restore(self) -> None:
        """Load the newest complete checkpoint; `steps` does it first of all."""
        self.journal.update(
            at_once=True, state="restoring", begun_t=round(time.time(), 3), world_size=self.world, attempt=self.attempt,
            device=self.state.device.type, last_part_t=None, **self.parts.fields(),
        )  # fmt: skip
        self.journal.event(
            "start", role="worker", world=self.world, rank=self.rank, node=node_address(), pid=os.getpid(),
            attempt=self.attempt,
        )  # fmt: skip
        self.shown.began()
        with self.unhurried():
            if not self._from_memory():
                self._from_checkpoint()
            # the ranks come out of a restore far apart; the first step has the short limit
            self.ranks.meet()
        self.journal.update(at_once=True, state="running")
        self.complete.begin(self.step)
        self.waits.begin(self.step)
        self.drains.begin(self.step)
        self.clock.begin(self.step)

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
        self.step, generation, finished = step, self.generation, time.monotonic()
        self.journal.event(
            "restore", step=step, path="memory", seconds=round(finished - started, 3), world=self.world,
            node=node_address(), gen=generation.number, group_s=round(generation.group_s, 3),
            build_s=round(started - generation.begun - generation.group_s, 3),
        )  # fmt: skip
        self.journal.update(last_step=step, restored_step=step, restored_path="memory")
        self.restorer.sweep()
        return True

    # ---- what the ranks tell each other ----

    def _talk(self) -> str | None:
        """Hear what was asked at the last step, ask what there is to ask; the reason to save now, or None."""
        reason = self._hear()
        saving, looking = self.saver.in_flight is not None, self.drains.due(self.step)
        if saving or looking:
            code, every = NONE, 0
            if looking and (self.rank == 0 or self.alone):
                code, every = self.drains.look(self.step, last_save_s=self.saver.last_save_s)
            self._asked_about = self.saver.in_flight
            leaving = self._asked_to_leave()
            self.ranks.ask(
                float(saving and not self.saver.done_here),
                self.saver.outcome_here,
                code,
                float(every),
                leaving,
                *self.waits.question(),
            )
            if self.world == 1:
                reason = self._hear() or reason
        return reason

    def _asked_to_leave(self) -> float:
        """Whether the coordinator has asked this rank that all leave the loop at the end of a step."""
        if self.generation is None or not self.generation.member.move_asked:
            return STAY
        return RESIZE if self.generation.member.resize_asked else MOVE

    def _hear(self) -> str | None:
        answer = self.ranks.answer()
        if answer is None:
            return None
        unfinished, outcome, code, every, leaving, *waits = answer
        self._name_straggler(self.waits.answer(waits, self.step))
        self.leaving, self.resizing = leaving > STAY, leaving > MOVE
        save, self._asked_about = self._asked_about, None
        if save is not None and save is self.saver.in_flight and not unfinished:
            self.saver.settle(outcome=outcome)
        if not every:  # nobody looked for a notice
            return None
        reason = self.drains.heard(self.step, code=code, every=every)
        self.draining = self.draining or reason is not None
        return reason

    def _name_straggler(self, verdict: tuple[int, float, float] | str) -> None:
        """Write down who holds the others up, or that nobody does any more; the same on every rank."""
        if isinstance(verdict, str):
            if verdict:
                self.journal.event("slow", **NOBODY)
            return
        slow, share, others_wait = verdict
        node, at = self.ranks.from_rank(slow, (node_address(), self.waits.line))
        self.journal.event("slow", **described(slow, node=node, at=at, share=share, others_wait=others_wait))

    def _report(self, name: str, metrics: Mapping[str, Any]) -> None:
        if self.prunes and self.rank == 0:
            torchrun.prune(self.folder, self.run, keep=self.run.keep)
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

    def _announce(self, event_kind: str, **fields: Any) -> None:
        self.journal.event(event_kind, always=True, step=self.step, node=node_address(), **fields)

    def _last_error(self) -> str:
        return str(self.journal.progress.get("last_error") or "see the errors above")


def ensure_process_group() -> None:
    """A process group of one, for local mode without torchrun; a job that shards its model calls it before it does."""
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def in_local_mode() -> bool:
    """Whether no controller of Ray's answers for the checkpoints: `--workers 0`, with or without torchrun."""
    try:
        return not get_train_fn_utils().is_distributed()
    except RuntimeError:  # no trainer at all
        return False


def node_address() -> str:
    """This process's node, as Ray or Slurm knows it; `local` without both."""
    return str(ray.util.get_node_ip_address()) if ray.is_initialized() else torchrun.node()


class Rehearsed(Resumable):
    """What a spare gets while it rehearses the loop: two steps from 0, nothing restored, nothing written."""

    def __init__(self, run: Run, *, model: Any, **_: Any) -> None:
        self.run, self.settings, self.position = run, run.settings, Position()
        self.device = next(module_of(model).parameters()).device
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.generation, self.memory = None, None

    def leave(self, *, failed: bool) -> None:
        """Nothing to save."""

    def restore(self) -> None:
        """Nothing."""

    def about_to_step(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """The rehearsal is over."""
        raise warm_up.RehearsalOverError

    def finished(self, step: int, **metrics: float) -> None:
        """Count."""
        self.step = step + 1
        if self.step >= warm_up.STEPS:
            raise warm_up.RehearsalOverError

    def draws(self, iterator: Iterator[Any]) -> None:
        """Nothing."""

    def handed(self, batch: Any) -> None:
        """Nothing."""

    def fetched_ahead(self, through: str) -> None:
        """Nothing."""

    def looks_at(self, objects: Mapping[str, Any]) -> None:
        """Nothing."""

    def part_done(self) -> None:
        """Nothing."""

    def save(self, reason: str = "interval", *, wait: bool = False) -> None:
        """Nothing."""

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Nothing."""
        yield

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        """Nothing."""
        yield

    pause = unhurried
