"""Epochs and batches of a loader that the loop already has: the place in them is part of the state.

A loader has no state of its own, so the place is counted here: epoch, batches done in it, and the random numbers as
they were when the loader was started. After a restore the loader is started with those numbers, which makes its
shuffle the same again, the batches that are done are passed over, and the random numbers of the restored step follow.

A loader with `state_dict` and `load_state_dict` (torchdata's `StatefulDataLoader`) is asked for its own state instead.
Data that is `Exact` (`EpochBatches`, `Rows`) is started at its place, which is the same for every number of ranks.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch.utils.data import DataLoader, IterableDataset

from hyperpod_ray_training import rng
from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.exact import Exact
from hyperpod_ray_training.stateful import put_back, state_of_object

if TYPE_CHECKING:
    from torch.distributed.checkpoint.stateful import Stateful

_END = object()


@dataclass
class Position:
    """The place in the data, of one rank.

    Attributes:
        epoch: Epochs done.
        part: Loaders that this epoch has gone through.
        batch: Batches done of the loader under way.
    """

    epoch: int = 0
    part: int = 0
    batch: int = 0
    exact: int = 0
    """Fingerprint of the data under way, where it is `Exact`: `batch` then counts for every number of ranks."""
    started: tuple[bytes, list[torch.Tensor]] | None = None
    """The random numbers of the process, and of the loader's own generators, as the loader was started."""
    loader: Stateful | None = None
    """The loader under way, where it has a state of its own."""
    saved_loader: Any = None
    """Its restored state, until it is started."""
    generators: dict[int, list[torch.Generator]] = field(default_factory=dict)
    """Of each loader of an epoch, by its place among them: the generators that the user gave it."""
    saved_generators: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    """Their restored states, until the loader is met."""
    samplers: dict[int, list[Any]] = field(default_factory=dict)
    """Of each loader of an epoch: the samplers of classes of the user's, which may have a state of their own."""
    saved_samplers: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """Their restored states, until the loader is met."""
    samplers_started: list[dict[str, Any]] = field(default_factory=list)
    """Their states as the loader under way was started."""

    def shared(self) -> dict[str, int]:
        """What is the same on every rank."""
        return {"epoch": self.epoch, "part": self.part, "batch": self.batch, "exact": self.exact}

    def own(self) -> dict[str, Any]:
        """What is this rank's own."""
        state = self.loader.state_dict() if self.loader is not None else self.saved_loader
        generators = {part: [generator.get_state() for generator in held] for part, held in self.generators.items()}
        samplers = {
            part: [state_of_object(sampler) for sampler in held] for part, held in self.samplers.items() if held
        }
        return {
            "started": self.started, "loader": state, "generators": self.saved_generators | generators,
            "samplers": self.saved_samplers | samplers, "samplers_started": self.samplers_started,
        }  # fmt: skip

    def restore(
        self, shared: Mapping[str, int], rank_state: Mapping[str, Any] | None, *, before: int, size: int
    ) -> None:
        """Go to a saved place.

        `before` and `size` are numbers of ranks: where they differ, to the last batch that all have surely done, unless
        the data is exact.
        """
        self.epoch, self.part = int(shared["epoch"]), int(shared["part"])
        self.exact = int(shared.get("exact", 0))  # a checkpoint of an older version has none
        self.batch = int(shared["batch"]) if self.exact else int(shared["batch"]) * before // size
        self.started = self.loader = self.saved_loader = None
        if rank_state is not None:
            self.started, self.saved_loader = rank_state["started"], rank_state["loader"]
            self.saved_generators = dict(rank_state["generators"])
            self.saved_samplers = dict(rank_state.get("samplers", {}))
            self.samplers_started = rank_state.get("samplers_started", [])

    def meet(self, part: int, loader: Iterable[Any]) -> list[torch.Generator]:
        """The loop has come to a loader: its generators, in the restored state where there is one."""
        generators = self.generators[part] = _generators(loader)
        for generator, state in zip(generators, self.saved_generators.pop(part, []), strict=False):
            generator.set_state(state)
        self.samplers[part] = _samplers(loader)
        for sampler, saved in zip(self.samplers[part], self.saved_samplers.pop(part, []), strict=False):
            put_back(sampler, saved)
        return generators

    def next_epoch(self) -> None:
        """An epoch is done."""
        self.epoch, self.part, self.batch, self.exact = self.epoch + 1, 0, 0, 0
        self.started = self.loader = self.saved_loader = None

    def next_part(self) -> None:
        """A loader has been gone through."""
        self.part, self.batch, self.exact = self.part + 1, 0, 0
        self.started = self.loader = self.saved_loader = None


class Steps(Protocol):
    """What batches need of the training they belong to."""

    position: Position
    device: torch.device

    def begin_step(self) -> None:
        """A step begins."""

    def draws(self, iterator: Iterator[Any]) -> None:
        """Batches come from this iterator."""

    def handed(self, batch: Any) -> None:
        """A batch goes to the loop."""

    def part_done(self) -> None:
        """A batch of the step under way is done, and it has more."""

    def end_step(self) -> None:
        """The step under way, if any, is done."""

    def between(self, begins: bool) -> None:
        """What is between two loaders begins or ends: a validation, say."""


class Batches:
    """The batches of `loader` that this epoch has left; made by `Resumable.batches`.

    The body of the loop is a step: it counts as done when the next batch is asked for, or the loader has ended.
    """

    def __init__(self, training: Steps, loader: Iterable[Any], *, accumulate: int, part: int) -> None:
        self.training, self.loader, self.accumulate, self.part = training, loader, accumulate, part

    @property
    def done(self) -> bool:
        """Whether this epoch is through with the loader."""
        return self.part < self.training.position.part

    def __len__(self) -> int:
        total = len(cast("Any", self.loader))
        return 0 if self.done else max(0, total - self.training.position.batch)

    def __iter__(self) -> Iterator[Any]:
        training, position = self.training, self.training.position
        generators = position.meet(self.part, self.loader)
        if self.done:
            return
        total = _length(self.loader)
        if total is not None and 0 < total <= position.batch:  # restored at the loader's end
            batches: Iterator[Any] = iter(())
        else:
            batches = self._started(position, generators)
            training.draws(batches)
        training.between(False)
        while (batch := next(batches, _END)) is not _END:
            training.begin_step()
            for remaining in reversed(range(self.accumulate)):
                position.batch += 1
                training.handed(batch)
                yield batch
                if not remaining or (batch := next(batches, _END)) is _END:
                    break
                training.part_done()
            training.end_step()
        position.next_part()
        training.between(True)

    def _started(self, position: Position, generators: list[torch.Generator]) -> Iterator[Any]:
        """The loader's iterator, at this place in it; the random numbers of the process continue as they were."""
        loader, device, samplers = self.loader, self.training.device, position.samplers[self.part]
        if hasattr(loader, "set_epoch") and hasattr(loader, "iteration"):  # Accelerate's counts its epochs itself
            cast("Any", loader).set_epoch(position.epoch)
        resumes = position.batch > 0
        rng_state = rng.capture(device)
        if resumes and position.started is not None:
            numbers, states = position.started
            rng.restore(numbers, device)
            for generator, state in zip(generators, states, strict=False):  # one may be made late (Accelerate)
                generator.set_state(state)
            for sampler, saved in zip(samplers, position.samplers_started, strict=False):
                put_back(sampler, saved)
        else:
            position.started = (rng_state, [generator.get_state() for generator in generators])
            position.samplers_started = [state_of_object(sampler) for sampler in samplers]
        exact = exact_of(loader)
        _require_the_same(position, exact)
        if exact is not None:
            position.exact = exact.fingerprint
            exact.start(epoch=position.epoch, batch=position.batch)
            resumes = False
        elif _knows_its_place(loader):
            position.loader = cast("Stateful", loader)
            if resumes and position.saved_loader is not None:
                cast("Any", loader).load_state_dict(position.saved_loader)
                resumes = False
            position.saved_loader = None
        if not position.batch:
            return iter(loader)
        batches = _passed_over(loader, position.batch) if resumes else iter(loader)
        rng.restore(rng_state, device)
        return batches


def exact_of(loader: Any) -> Exact | None:
    """The part of a loader that starts at any place: the loader itself, or the batch sampler of torch's or Ray's."""
    for candidate in (loader, getattr(_inner(loader), "batch_sampler", None)):
        if isinstance(candidate, Exact):
            return candidate
    return None


def _require_the_same(position: Position, exact: Exact | None) -> None:
    """A place within an epoch means something in the data only that it was saved in."""
    if position.batch and position.exact != (exact.fingerprint if exact is not None else 0):
        raise InputError(
            f"data: the epoch was left after {position.batch} batches, and the data is another one now",
            expected="the files, samples, seed and global batch that the epoch began with",
            fix="bring the data back until the epoch is over",
        )


def _length(loader: Iterable[Any]) -> int | None:
    try:
        return len(cast("Any", loader))
    except TypeError:
        return None


def _knows_its_place(loader: Any) -> bool:
    """Whether a loader has a state; Accelerate's have the methods always, and a state only where they were asked to."""
    return hasattr(loader, "load_state_dict") and getattr(loader, "use_stateful_dataloader", True)


def _inner(loader: Any) -> Any:
    """The loader that loads: Ray's and Accelerate's are around another."""
    return getattr(loader, "_dataloader", None) or getattr(loader, "base_dataloader", None) or loader


def _generators(loader: Iterable[Any]) -> list[torch.Generator]:
    """The generators that a loader and its samplers have been given, each once; Accelerate gives one of its own."""
    generators: dict[int, torch.Generator] = {}
    visited: set[int] = set()
    owners: list[Any] = [loader]
    while owners:
        owner = owners.pop(0)
        if owner is None or id(owner) in visited:
            continue
        visited.add(id(owner))
        for name in ("generator", "synchronized_generator"):
            generator = getattr(owner, name, None)
            if isinstance(generator, torch.Generator):
                generators[id(generator)] = generator
        owners += [
            getattr(owner, name, None) for name in ("_dataloader", "base_dataloader", "sampler", "batch_sampler")
        ]
    return list(generators.values())


def _samplers(loader: Iterable[Any]) -> list[Any]:
    """The samplers of a loader that are of classes of the user's, and a dataset that is drawn from in its own order."""
    from hyperpod_ray_training.variables import is_object

    samplers: dict[int, Any] = {}
    owners: list[Any] = [_inner(loader)]
    while owners:
        owner = owners.pop(0)
        inner = [getattr(owner, name, None) for name in ("sampler", "batch_sampler")]
        dataset = getattr(owner, "dataset", None)
        if isinstance(dataset, IterableDataset) and not getattr(owner, "num_workers", 0):
            inner.append(dataset)
        fresh = [part for part in inner if part is not None and id(part) not in samplers]
        samplers |= {id(part): part for part in fresh}
        owners += fresh
    return [part for part in samplers.values() if is_object(part) and exact_of(part) is None]


def _passed_over(loader: Iterable[Any], count: int) -> Iterator[Any]:
    """Start a loader behind its first `count` batches: by index where it has any, else by loading them."""
    inner = _inner(loader)
    indexed = isinstance(inner, DataLoader) and not isinstance(inner.dataset, IterableDataset)
    if not indexed or inner.batch_sampler is None or _knows_its_place(inner):
        return _without(iter(loader), count)
    real = inner.batch_sampler
    # set in the instance's dictionary: a DataLoader refuses the assignment, as a running one must not change
    behind = inner.__dict__["batch_sampler"] = _Behind(real, count)
    try:
        batches = iter(loader)
        if not inspect.isgeneratorfunction(type(loader).__iter__):
            behind.pass_over()
            return batches
        batch = next(batches, _END)  # a generator (Accelerate's) starts as late as this
    finally:
        inner.__dict__["batch_sampler"] = real
    if not behind.asked:
        return _without(batches, count - 1)
    return iter(()) if batch is _END else itertools.chain([batch], batches)


def _without(batches: Iterator[Any], count: int) -> Iterator[Any]:
    # by `next` alone: `iter` of Ray's wrapper, which is its own iterator, starts it again
    for _ in range(count):
        next(batches, None)
    return batches


class _Behind:
    """The index batches of a sampler without its first `count`, once.

    A sampler draws its seed at its first batch, after the loader has drawn its own: as late as that they are passed
    over, and no later than `pass_over`.
    """

    def __init__(self, sampler: Iterable[Any], count: int) -> None:
        self.batches, self.count, self.asked = iter(sampler), count, False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self.asked = True
        self.pass_over()
        return next(self.batches)

    def pass_over(self) -> None:
        """Draw what is done and drop it."""
        count, self.count = self.count, 0
        _without(self.batches, count)
