"""Loads the newest checkpoint that is complete and undamaged."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

import ray.train
import torch.distributed.checkpoint as dcp

from hyperpod_ray_training import checkpoint
from hyperpod_ray_training.errors import InputError, Unrecoverable
from hyperpod_ray_training.folder import Found, RunFolder
from hyperpod_ray_training.journal import Journal, log
from hyperpod_ray_training.ranks import Ranks
from hyperpod_ray_training.run import Run
from hyperpod_ray_training.saving import DCP_ERRORS, Report, reasons
from hyperpod_ray_training.state import TrainingState
from hyperpod_ray_training.tiered import Tier
from hyperpod_ray_training.writers import reader_for


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What was loaded; `own` is False for a checkpoint of the run named by `start_from`."""

    step: int
    own: bool


class Restorer:
    """Looks for a checkpoint to continue from: Ray's, or a newer one on disk whose report the controller missed.

    Args:
        run: What the driver described.
        folder: The run's folder.
        state: Where the checkpoint is loaded into.
        ranks: This rank among the others.
        journal: Where restores and damage are written down.
        attempt: This attempt's part of a checkpoint's name.
        tier: The tier, where the writer is `tiered`.
        report: Announces a complete checkpoint to Ray.
        node: This rank's node, for the journal.
    """

    def __init__(
        self,
        *,
        run: Run,
        folder: RunFolder,
        state: TrainingState,
        ranks: Ranks,
        journal: Journal,
        attempt: str,
        tier: Tier | None,
        report: Report,
        node: str,
    ) -> None:
        self.run, self.folder, self.state, self.ranks, self.journal = run, folder, state, ranks, journal
        self.attempt, self.tier, self.report, self.node = attempt, tier, report, node

    def restore(self) -> Restored | None:
        """Load the newest usable checkpoint; None where the run has none yet.

        A damaged one is named and passed over. With none usable among some, Unrecoverable: starting over would hide
        the loss.
        """
        started = time.monotonic()
        folder = self.folder
        candidates = self._candidates(folder)
        if not candidates and self.run.start_from:
            folder = RunFolder(self.run.start_from)
            candidates = self._candidates(folder)
            if not candidates:
                raise InputError(
                    f"start_from: {self.run.start_from}",
                    expected="a run with a checkpoint folder step-*",
                    fix="correct the path",
                )
        restored = self._first_usable(folder, candidates, started)
        if self.ranks.rank == 0:
            self._remove()
        return restored

    def sweep(self) -> None:
        """Remove, in the background, what a lost rank left unfinished; for a return that reads no checkpoint.

        Only what is there now: a later attempt saves while this one still looks. Object storage is left to the next
        start.
        """
        if self.ranks.rank == 0 and self.folder.local:
            names = frozenset(candidate.name for candidate in self.folder.checkpoints())
            threading.Thread(target=self._remove, args=(names,), name="resilience-sweep", daemon=True).start()

    def _remove(self, among: Collection[str] | None = None) -> None:
        for name in self.folder.remove_unfinished(keep_attempt=self.attempt, among=among):
            self.journal.event("error", message="unfinished checkpoint removed", path=self.folder.at(name))

    def _first_usable(self, folder: RunFolder, candidates: list[Found], started: float) -> Restored | None:
        troubles = []
        unfinished = 0
        for candidate in candidates:
            trouble = self.ranks.from_rank_zero(_why_not(folder, candidate.name) if self.ranks.rank == 0 else None)
            if trouble is None:
                trouble, step = self._load(folder, candidate.name)
                if trouble is None:
                    return self._restored(folder, candidate, step, time.monotonic() - started)
            if str(trouble).startswith("unfinished"):
                unfinished += 1
                continue
            troubles.append(f"{candidate.name}: {trouble}")
            if self.ranks.rank == 0:
                log(f"checkpoint {folder.at(candidate.name)} is passed over: {trouble}")
            self.journal.event("error", message=f"checkpoint passed over: {trouble}", path=folder.at(candidate.name))
        if troubles:
            raise Unrecoverable(
                f"run: {folder.url} has no usable checkpoint: {'; '.join(troubles)}; nothing was overwritten",
                expected="a complete one" + (" that you wrote" if "foreign: " in str(troubles) else ""),
                fix="bring one back from a backup, or start under a new name"
                + ("; to trust who wrote it, copy it and start_from the copy" if "foreign: " in str(troubles) else ""),
            )
        if unfinished and ray.train.get_checkpoint() is not None:
            raise Unrecoverable(
                f"run: {folder.url}: Ray's snapshot names a checkpoint, and no folder is complete; nothing "
                "was overwritten",
                expected="a complete one",
                fix="bring one back from a backup, or start under a new name",
            )
        return None

    def _candidates(self, folder: RunFolder) -> list[Found]:
        checkpoints = folder.checkpoints() if self.ranks.rank == 0 else []
        pairs = self.ranks.from_rank_zero([(candidate.step, candidate.name) for candidate in checkpoints])
        return [Found(step, name) for step, name in pairs]

    def _load(self, folder: RunFolder, name: str) -> tuple[str | None, int]:
        """Load one checkpoint: the reason on every rank if it failed on any, and the step."""
        trouble = ""
        if self.run.settings.verify_checksums:
            try:
                trouble = "; ".join(folder.spoilt_files(name, rank=self.ranks.rank, world=self.ranks.world))
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}"
            trouble = self.ranks.first_of_all(trouble)
        if trouble:
            return trouble, 0
        step = 0
        try:
            reader = self.tier.reader(folder, name) if self.tier is not None else reader_for(folder, name)
            metadata, group = reader.read_metadata(), self.ranks.patient
            step = checkpoint.load(
                self.state, metadata, self.ranks,
                lambda state: dcp.load(state, storage_reader=reader, process_group=group),
                strict=self.run.settings.strict, say=self._log,
            )  # fmt: skip
        except checkpoint.MisfitError as error:
            raise checkpoint.refused(folder.at(name), str(error)) from None
        except DCP_ERRORS as error:
            trouble = " ".join(reasons(error))
        trouble = self.ranks.first_of_all(trouble)
        return (trouble, 0) if trouble else (None, step)

    def _log(self, text: str) -> None:
        if self.ranks.rank == 0:
            log(f"restore: {text}")
        self.journal.event("note", message=text)

    def _restored(self, folder: RunFolder, candidate: Found, step: int, seconds: float) -> Restored:
        about = self.ranks.from_rank_zero(folder.about(candidate.name) if self.ranks.rank == 0 else None)
        before, world = about.get("world"), self.ranks.world
        path = folder.at(candidate.name)
        same_folder = folder.url == self.folder.url
        self.journal.event("restore", step=step, path=path, seconds=round(seconds, 3), world=world, node=self.node)
        if before and before != world:
            self.journal.event("resize", step=step, world=world, world_before=before)
        self.journal.update(last_step=step, restored_step=step, restored_path=path)
        if same_folder:
            self.journal.update(last_checkpoint_step=step, last_checkpoint_path=path)
            if not self.ranks.from_rank_zero(self.ranks.rank == 0 and self._known_to_ray(candidate.name)):
                # complete on disk, unknown to Ray: its worker died before the controller looked. Reporting it now puts
                # it under Ray's book-keeping, so that it is pruned in its turn. (A second report of a known one would
                # get it deleted twice.)
                self.report(candidate.name, about.get("metrics") or {"step": step})
        return Restored(step=step, own=same_folder)

    def _known_to_ray(self, name: str) -> bool:
        try:
            snapshot = self.folder.snapshot()
        except ValueError:
            return False
        return snapshot is not None and name in snapshot.names


def _why_not(folder: RunFolder, name: str) -> str | None:
    """Why a checkpoint is not taken: it is not whole, or somebody else can have written it."""
    try:
        return folder.why_unusable(name) or folder.why_foreign(name)
    except OSError as error:
        return f"it cannot be looked at ({error.strerror or error})"
