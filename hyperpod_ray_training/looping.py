"""The shapes of a loop: steps by number, or epochs and the batches of a loader. What a step does is `Resumable`'s."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch

from hyperpod_ray_training.batches import Batches, Position
from hyperpod_ray_training.errors import InputError


class Looping:
    """Counts steps, epochs and batches around `restore`, `finished` and `finish`, which a subclass gives."""

    step: int = 0
    position: Position
    device: torch.device
    total_steps: int | None = None
    _restored = False
    _open = False
    _ended = False
    _loaders = 0
    _noted: Mapping[str, float] = MappingProxyType({})
    _pause: contextlib.ExitStack | None = None

    # ---- what a subclass gives ----

    def restore(self) -> None:
        """Go to where the run stands."""
        raise NotImplementedError

    def finished(self, step: int, **metrics: float) -> None:
        """A step is done."""
        raise NotImplementedError

    def finish(self) -> None:
        """All steps are done."""
        raise NotImplementedError

    def about_to_step(self) -> None:
        """A step is about to begin."""

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Declare a pause."""
        yield

    # ---- the loop ----

    def steps(self, total: int) -> Iterator[int]:
        """Yield the steps that are left of `total`, from the newest complete checkpoint on; save when due.

        Args:
            total: Steps of the whole run.
        """
        self.total_steps = total
        self.begin()
        while self.step < total:
            self.about_to_step()
            step = self.step
            yield step
            if self.step != step + 1:
                raise InputError(
                    f"step: {step} ended twice or not at all",
                    expected=f"one call of finished({step}, …) at the end of each step",
                    fix="correct the loop",
                )
        self.end()

    def epochs(self, total: int) -> Iterator[int]:
        """Yield the epochs that are left of `total`; the first may be one that was under way.

        What the loop does between its batches and the next epoch, a validation say, may take any time: no rank counts
        as hung there, and all ranks meet again at the next epoch.

        Args:
            total: Epochs of the whole run.
        """
        self.begin()
        while self.position.epoch < total:
            self._loaders = 0
            yield self.position.epoch
            self.end_step()
            self.position.next_epoch()
        self.end()

    def batches(self, loader: Iterable[Any], *, accumulate: int = 1) -> Batches:
        """The batches that the epoch under way has left of `loader`. The body of a `for` over them is a step.

        A step counts as done when the next batch is asked for; `note` says what to write down about it.

        Args:
            loader: A DataLoader (also one that `ray.train.torch.prepare_data_loader` or Accelerate made), a
                `StatefulDataLoader`, Ray Data's `iter_torch_batches(…)`, or any iterable that yields the same batches
                in the same order when it is started again.
            accumulate: Batches that make one step of the optimizer, 1 or more. An epoch's last step may have fewer.

        Batches that are done are passed over without being loaded where the loader is torch's and its dataset has an
        index; else they are loaded and dropped.
        """
        if accumulate < 1:
            raise InputError(f"accumulate: {accumulate}", expected="1 or more", fix="correct the argument")
        self.begin()
        self.end_step()
        self._loaders += 1
        return Batches(self, loader, accumulate=accumulate, part=self._loaders - 1)

    def note(self, **metrics: float) -> None:
        """Metrics of the step under way in a loop over batches; `steps` gets them by `finished`."""
        self._noted = {**self._noted, **metrics}

    # ---- what `Batches` asks for ----

    def begin_step(self) -> None:
        """A step over batches begins."""
        self.about_to_step()
        self._open = True

    def draws(self, iterator: Iterator[Any]) -> None:
        """Batches of the loop come from this iterator."""

    def handed(self, batch: Any) -> None:
        """A batch goes to the loop."""

    def part_done(self) -> None:
        """A batch of the step is done, and it has more."""

    def end_step(self) -> None:
        """The step over batches that is under way, if any, is done."""
        if self._open:
            self._open = False
            metrics, self._noted = self._noted, {}
            self.finished(self.step, **metrics)

    def between(self, begins: bool) -> None:
        """The time between two loaders is a pause."""
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.close()
        if begins:
            self._pause = contextlib.ExitStack()
            self._pause.enter_context(self.pause())

    def begin(self) -> None:
        """Restore, once; `steps`, `epochs` and `batches` do it first of all."""
        if not self._restored:
            self._restored = True
            self.restore()

    def end(self) -> None:
        """All steps are done, once; `steps` and `epochs` do it last of all."""
        if not self._ended:
            self._ended = True
            self.end_step()
            self.between(False)
            self.finish()
