"""A loop over a loader, interrupted after any step and started again in a new loop, goes on to the last bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from accelerate.data_loader import prepare_data_loader as accelerate_s
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, WeightedRandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from hyperpod_ray_training import InputError, Values
from hyperpod_ray_training.batches import Position
from hyperpod_ray_training.looping import Looping
from hyperpod_ray_training.spares.snapshot import Snapshot
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.state import TrainingState

SAMPLES, BATCH, EPOCHS = 18, 4, 2
torch.set_num_threads(1)


class Numbers(Dataset[torch.Tensor]):  # type: ignore[misc]
    """Samples with a random augmentation; counts what is loaded."""

    loaded = 0

    def __init__(self, *, augment: bool = True) -> None:
        self.augment = augment

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        Numbers.loaded += 1
        noise = torch.rand(3) + random.random() if self.augment else torch.zeros(3)
        return torch.full((3,), float(index)) / SAMPLES + 0.01 * noise


class Stream(IterableDataset[torch.Tensor]):  # type: ignore[misc]
    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(SAMPLES):
            yield torch.full((3,), float(index)) / SAMPLES + 0.01 * torch.rand(3)


class Own(torch.utils.data.Sampler[int]):  # type: ignore[misc]
    """A sampler of the user's, with random numbers of its own, and a count of its rounds."""

    def __init__(self) -> None:
        self.random, self.rounds = random.Random(3), 0

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        self.rounds += 1
        order = list(range(SAMPLES))
        self.random.shuffle(order)
        yield from order[self.rounds :] + order[: self.rounds]


class Prefetching:
    """Fetches a batch ahead, and has no length."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        source = iter(self.loader)
        ahead = next(source)
        for batch in source:
            yield ahead
            ahead = batch
        yield ahead


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def ray_s() -> Any:
    from ray.train.torch.train_loop_utils import _WrappedDataLoader

    loader = DataLoader(Numbers(augment=False), BATCH, shuffle=True)  # it fetches ahead: by index, without a draw
    return _WrappedDataLoader(loader, torch.device("cpu"), auto_transfer=True)


LOADERS: dict[str, Callable[[], Any]] = {
    "shuffled": lambda: DataLoader(Numbers(), BATCH, shuffle=True),
    "drop-last": lambda: DataLoader(Numbers(), BATCH, shuffle=True, drop_last=True),
    "own-generator": lambda: DataLoader(Numbers(), BATCH, shuffle=True, generator=generator()),
    "weighted": lambda: DataLoader(
        Numbers(), BATCH, sampler=WeightedRandomSampler(torch.arange(1.0, SAMPLES + 1), SAMPLES, generator=generator())
    ),
    "distributed": lambda: DataLoader(
        Numbers(), BATCH, sampler=DistributedSampler(Numbers(), num_replicas=2, rank=1, seed=3)
    ),
    "of-the-users": lambda: DataLoader(Numbers(), BATCH, sampler=Own()),
    "workers": lambda: DataLoader(Numbers(augment=False), BATCH, shuffle=True, num_workers=1),
    "stream": lambda: DataLoader(Stream(), BATCH),
    "prefetching": lambda: Prefetching(DataLoader(Numbers(augment=False), BATCH, shuffle=True)),
    "ray": ray_s,
    "accelerate": lambda: accelerate_s(
        DataLoader(Numbers(augment=False), BATCH, shuffle=True),
        num_processes=1,
        process_index=0,
        put_on_device=False,
        use_seedable_sampler=True,
    ),
    "accelerate-own-generator": lambda: accelerate_s(
        DataLoader(Numbers(augment=False), BATCH, shuffle=True),
        num_processes=2,
        process_index=1,
        put_on_device=False,
        rng_types=[],
    ),
    "stateful": lambda: StatefulDataLoader(Numbers(), BATCH, shuffle=True),
    "stateful-stream": lambda: StatefulDataLoader(Stream(), BATCH),
    "stateful-workers": lambda: StatefulDataLoader(Numbers(augment=False), BATCH, shuffle=True, num_workers=1),
}


class Interrupted(Exception):
    """The process is gone."""


class Kept(Looping):
    """A training whose state goes through a copy in memory, as in a run with spares."""

    def __init__(self, state: TrainingState, *, copy: torch.Tensor | None, stop: int) -> None:
        self.state, self.position, self.device = state, state.position, state.device
        self.snapshot, self.copy, self.stop, self.pauses = Snapshot(state), copy, stop, 0
        self.losses: dict[int, float] = {}
        self.parts = 0

    def part_done(self) -> None:
        self.parts += 1

    def restore(self) -> None:
        if self.copy is not None:
            self.step = self.snapshot.load(self.copy)

    def finished(self, step: int, **metrics: float) -> None:
        assert step == self.step
        self.step = step + 1
        self.losses[self.step] = metrics.get("loss", 0.0)
        if self.step == self.stop:
            self.copy = self.snapshot.take(self.step, Store()).clone()
            raise Interrupted

    def finish(self) -> None:
        self.done = True


def loop(kind: str, *, copy: torch.Tensor | None, stop: int = -1, accumulate: int = 1) -> Kept:
    """A script as people write it: epochs, scheduler, EMA, scaler, sums over an epoch, a validation that shuffles."""
    torch.manual_seed(0)
    random.seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Dropout(0.5), torch.nn.Linear(6, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.7)
    ema = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)
    seen = Values(loss=0.0, samples=0)
    loader, unseen = LOADERS[kind](), DataLoader(Numbers(), BATCH, shuffle=True)
    extra = {"scheduler": scheduler, "ema": ema, "scaler": scaler}
    state = TrainingState(model=model, optimizer=optimizer, extra=extra, per_rank={"seen": seen}, rank=0, world=1)
    training = Kept(state, copy=copy, stop=stop)
    try:
        for epoch in training.epochs(EPOCHS):
            if kind == "distributed":
                loader.sampler.set_epoch(epoch)
            for taken, x in enumerate(training.batches(loader, accumulate=accumulate), start=1):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = model(x).square().mean() / accumulate
                scaler.scale(loss).backward()
                seen.loss += float(loss.detach()) + float(ema.module[0].weight.sum()) + scaler.get_scale()
                seen.samples += len(x)
                if taken % accumulate == 0 or training.position.batch == 5:
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
                    scheduler.step()
                    ema.update_parameters(model)
                training.note(loss=seen.loss / seen.samples)
            for _ in unseen:
                pass
    except Interrupted:
        pass
    return training


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOADERS)
def test_every_step_of_every_loader_can_be_the_last(kind: str) -> None:
    whole = loop(kind, copy=None)
    assert whole.done
    last = len(whole.losses)
    steps = range(1, last) if kind == "shuffled" else (1, 5) if "workers" in kind else (3, last // 2, last - 2)
    for stop in steps:
        first = loop(kind, copy=None, stop=stop)
        assert first.step == stop
        second = loop(kind, copy=first.copy)
        assert first.losses | second.losses == whole.losses, f"stopped after {stop}"
        assert len(second.losses) == len(whole.losses) - stop


@pytest.mark.parametrize("kind", ["of-the-users", "weighted", "own-generator"])
@pytest.mark.parametrize("stop", [3, 7])
def test_samplers_and_generators_go_on_where_they_were(kind: str, stop: int) -> None:
    """Within each of two epochs: the order of an epoch that was begun is drawn again, and the next is another."""
    whole, first = loop(kind, copy=None), loop(kind, copy=None, stop=stop)
    assert first.losses | loop(kind, copy=first.copy).losses == whole.losses


def test_gradients_are_accumulated_within_a_step() -> None:
    whole = loop("shuffled", copy=None, accumulate=3)
    assert len(whole.losses) == EPOCHS * 2  # 3 + 2 batches an epoch
    assert whole.parts == EPOCHS * 3  # the last batch of a step is the step's end
    for stop in range(1, len(whole.losses)):
        first = loop("shuffled", copy=None, stop=stop, accumulate=3)
        assert first.losses | loop("shuffled", copy=first.copy, accumulate=3).losses == whole.losses
    with pytest.raises(InputError, match=r"accumulate: 0. Expected 1 or more"):
        whole.batches([], accumulate=0)


@pytest.mark.parametrize("kind", ["shuffled", "ray", "accelerate"])
def test_batches_that_are_done_are_not_loaded_again(kind: str) -> None:
    first = loop(kind, copy=None, stop=4)
    Numbers.loaded = 0
    loader, training = LOADERS[kind](), Kept(first.state, copy=first.copy, stop=-1)
    assert next(training.epochs(1)) == 0
    batches = training.batches(loader)
    assert len(list(batches)) == 1
    assert Numbers.loaded <= BATCH


def test_several_loaders_in_an_epoch_and_a_break() -> None:
    def run(copy: torch.Tensor | None, stop: int) -> tuple[Kept, list[tuple[int, str, float]]]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        state = TrainingState(
            model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1), extra={}, per_rank={}, rank=0, world=1
        )
        training, seen = Kept(state, copy=copy, stop=stop), []
        loaders = {name: DataLoader(Numbers(augment=False), BATCH, shuffle=True) for name in ("a", "b")}
        try:
            for epoch in training.epochs(2):
                for name, loader in loaders.items():
                    for x in training.batches(loader):
                        seen.append((epoch, name, float(x.sum())))
                        training.note(loss=0.0)
                        if name == "b" and training.position.batch == 3:
                            break
        except Interrupted:
            pass
        return training, seen

    whole = run(None, -1)[1]
    assert [name for _, name, _ in whole] == (["a"] * 5 + ["b"] * 3) * 2
    for stop in range(1, len(whole)):
        if stop % 8 == 0:
            continue  # after the break nothing says that the loader is over: that epoch's rest would follow
        first, seen = run(None, stop)
        assert seen + run(first.copy, -1)[1] == whole, stop


def test_another_number_of_ranks_goes_back_to_a_batch_that_all_have_done() -> None:
    place = Position(epoch=2, part=1, batch=10)
    other = Position()
    other.restore(place.shared(), None, before=4, size=3)
    assert (other.epoch, other.part, other.batch) == (2, 1, 13)
    other.restore(place.shared(), None, before=2, size=8)
    assert other.batch == 2
