"""Each sample once per epoch: every step of every kind of data can be the last, and any number of ranks goes on."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from torchdata.stateful_dataloader import StatefulDataLoader

from hyperpod_ray_training import EpochBatches, InputError, Rows, exact, rows
from hyperpod_ray_training.looping import Looping
from hyperpod_ray_training.state import TrainingState
from tests.resilience.exact_helpers import ids_of

SAMPLES, GLOBAL, EPOCHS = 53, 6, 2
torch.set_num_threads(1)


class Ids(Dataset[int]):  # type: ignore[misc]
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        return index


KINDS: dict[str, Callable[[Path], Any]] = {
    "loader": lambda _: DataLoader(Ids(), batch_sampler=EpochBatches(Ids(), global_batch=GLOBAL, seed=3)),
    "ordered": lambda _: DataLoader(Ids(), batch_sampler=EpochBatches(SAMPLES, global_batch=GLOBAL, shuffle=False)),
    "stateful": lambda _: StatefulDataLoader(Ids(), batch_sampler=EpochBatches(Ids(), global_batch=GLOBAL)),
    "rows": lambda folder: Rows(str(folder), global_batch=GLOBAL, columns=["id"], seed=3),
    "rows-in-order": lambda folder: Rows(f"file://{folder}", global_batch=GLOBAL, shuffle=False, lanes=3),
}


class Kept(Looping):
    """A rank's training whose place goes through what a checkpoint holds, to any number of ranks."""

    def __init__(self, rank: int, world: int, saved: Any, *, stop: int) -> None:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        self.state = TrainingState(model=model, optimizer=optimizer, extra={}, per_rank={}, rank=rank, world=world)
        self.position, self.device, self.saved, self.stop = self.state.position, self.state.device, saved, stop
        self.kept: Any = None

    def restore(self) -> None:
        if self.saved is not None:
            self.step, shared, own = self.saved
            self.state.fill_own(shared, own if shared["world"] == self.state.world else None)

    def finished(self, step: int, **_: float) -> None:
        self.step = step + 1
        if self.step == self.stop:
            self.kept = (self.step, self.state.shared(), self.state.own())
            raise InterruptedError

    def finish(self) -> None:
        """Nothing."""


def run(
    kind: str, folder: Path, world: int, monkeypatch: pytest.MonkeyPatch, *, saved: Any = None, stop: int = -1
) -> tuple[list[tuple[int, int, list[int]]], Any]:
    """All ranks, one after the other: epoch, step and ids of each batch, and what was saved."""
    seen, kept = [], None
    for rank in range(world):
        monkeypatch.setattr(exact, "ranks_now", lambda rank=rank: (rank, world))
        monkeypatch.setattr(rows, "ranks_now", lambda rank=rank: (rank, world))
        training, loader = Kept(rank, world, saved, stop=stop), KINDS[kind](folder)
        try:
            for epoch in training.epochs(EPOCHS):
                for batch in training.batches(loader):
                    assert len(ids_of(batch)) > 0, "an empty share leaves the others waiting"
                    seen.append((epoch, training.step, ids_of(batch)))
        except InterruptedError:
            pass
        kept = training.kept
    return seen, kept


def once_per_epoch(seen: list[tuple[int, int, list[int]]]) -> bool:
    of_epoch: dict[int, Counter[int]] = {}
    for epoch, _, ids in seen:
        of_epoch.setdefault(epoch, Counter()).update(ids)
    return of_epoch == {epoch: Counter(range(SAMPLES)) for epoch in range(EPOCHS)}


def by_step(seen: list[tuple[int, int, list[int]]]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for _, step, ids in seen:
        found.setdefault(step, set()).update(ids)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_sample_once_per_epoch_whatever_the_size_before_and_after(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = run(kind, folder, 2, monkeypatch)
    assert once_per_epoch(whole)
    steps = by_step(whole)
    assert sorted(steps) == list(range(2 * (SAMPLES // GLOBAL)))
    assert {len(ids) for ids in steps.values()} <= set(range(GLOBAL, GLOBAL + 4))
    first, second = ([ids for epoch, _, ids in whole if epoch == number] for number in (0, 1))
    ordered = kind in ("ordered", "rows-in-order")
    assert (first == second) == ordered
    sizes = itertools.product((1, 2, 3), (1, 2, 3)) if kind in ("loader", "rows") else [(2, 3), (2, 2)]
    for before, after in sizes:
        for stop in (1, 5, 8, 9, 13):
            done, kept = run(kind, folder, before, monkeypatch, stop=stop)
            rest, _ = run(kind, folder, after, monkeypatch, saved=kept)
            assert once_per_epoch(done + rest), (before, after, stop)
            assert by_step(done + rest) == steps, "the step has the samples that it would have had"


@pytest.mark.parametrize(("samples", "size"), [(1, 4), (9, 1)])
def test_ranks_without_samples_are_refused(samples: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "ranks_now", lambda: (0, 2))
    with pytest.raises(InputError, match="at least one sample for each of the 2 workers"):
        EpochBatches(samples, global_batch=size)


def test_other_data_in_the_middle_of_an_epoch_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, kept = run("rows", folder, 1, monkeypatch, stop=3)
    for other in ("loader", "rows-in-order"):
        with pytest.raises(InputError, match="the epoch was left after 3 batches, and the data is another one now"):
            run(other, folder, 1, monkeypatch, saved=kept)
    _, kept = run("rows", folder, 1, monkeypatch, stop=8)
    seen, _ = run("loader", folder, 1, monkeypatch, saved=kept)
    assert {epoch for epoch, _, _ in seen} == {1}, "the epoch was over: the next one may have other data"


@pytest.mark.parametrize(
    "other", [{"data": 25}, {"global_batch": 12}, {"seed": 8}, {"shuffle": False}], ids=lambda other: next(iter(other))
)
def test_whatever_the_order_follows_from_is_in_the_fingerprint(
    other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "ranks_now", lambda: (0, 4))
    usual: dict[str, Any] = {"data": 24, "global_batch": 8, "seed": 7, "shuffle": True}
    assert exact.EpochBatches(**usual).fingerprint == exact.EpochBatches(**usual).fingerprint
    assert exact.EpochBatches(**usual | other).fingerprint != exact.EpochBatches(**usual).fingerprint
