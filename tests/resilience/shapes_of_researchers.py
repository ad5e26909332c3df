"""Shapes whose state is in plain Python: counters, schedules and statistics by hand."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import collections
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from shapes import STEPS, ddp, mean_gradients, rows, shape, total
from torch import nn
from torch.nn import functional

from hyperpod_ray_training import Resumable, Run, Values


def _fit(run: Run, net: nn.Module, optimizer: Any = None, **arguments: Any) -> None:
    """A loop that has nothing of its own: what a module or an optimizer keeps is all there is."""
    optimizer = optimizer or torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer, **arguments)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        optimizer.step()
        training.finished(step, loss=total(loss))


class WarmingUp(nn.Module):  # type: ignore[misc]
    """Counts its own calls, and keeps a mean and the newest norms in attributes that are no buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls, self.mean = nn.Linear(8, 8), 0, None
        self.norms: collections.deque[float] = collections.deque(maxlen=20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.norms.append(float(x.norm()))
        mean = x.detach().mean(0)
        self.mean = mean if self.mean is None else 0.9 * self.mean + 0.1 * mean
        return self.inner(x - self.mean) * min(1.0, self.calls / 20) * (sum(self.norms) / len(self.norms) / 8)


@shape
def attributes_of_a_module(run: Run) -> None:
    torch.manual_seed(0)
    _fit(run, nn.Sequential(WarmingUp(), nn.Linear(8, 8)))


@shape
def compiled_attributes(run: Run) -> None:
    torch.manual_seed(0)
    _fit(run, torch.compile(WarmingUp(), backend="eager"))


class Slowing(torch.optim.Optimizer):  # type: ignore[misc]
    """Counts its steps and keeps a mean of norms on itself."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.number, self.norm = 0, torch.zeros(())

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.number += 1
        parameters = self.param_groups[0]["params"]
        self.norm = 0.9 * self.norm + 0.1 * sum(p.grad.norm() for p in parameters)
        for p in parameters:
            p.sub_(p.grad * self.param_groups[0]["lr"] / math.sqrt(self.number) / (1 + self.norm))


@shape
def attributes_of_an_optimizer(run: Run) -> None:
    torch.manual_seed(0)
    net = nn.Linear(8, 8)
    _fit(run, net, Slowing(net.parameters(), lr=0.5))


@shape
def frozen_and_thawed(run: Run) -> None:
    """Parts are frozen and thawed at a step, and dropout is switched off."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 8), nn.Linear(8, 8))
    net[4].requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        if step == 5:
            net[0].requires_grad_(False)
            net[2].eval()
        if step == 6:
            net[4].requires_grad_(True)
        x = rows(step)
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        optimizer.step()
        training.finished(step, loss=total(loss))


class LateStatistics(nn.Module):  # type: ignore[misc]
    """Makes its buffer with the first batch, and one grows."""

    mean: torch.Tensor
    grows: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.register_buffer("grows", torch.zeros(1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "mean"):
            self.register_buffer("mean", torch.zeros(8))
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.grows = torch.cat([self.grows, x.detach()[:1]])[-12:]
        return self.inner(x - self.mean) + self.grows.mean(0)


@shape
def buffers_made_late(run: Run) -> None:
    torch.manual_seed(0)
    _fit(run, LateStatistics())


@shape
def quantization_aware(run: Run) -> None:
    """Observers of torch.ao, whose buffers are resized by the first batch."""
    from torch.ao import quantization

    torch.manual_seed(0)
    net = nn.Sequential(
        quantization.QuantStub(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), quantization.DeQuantStub()
    )
    net.train()
    net.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    quantization.prepare_qat(net, inplace=True)
    _fit(run, net)


@shape
def norms_and_ties(run: Run) -> None:
    """Spectral norm in both forms, weight norm, a tied weight."""
    torch.manual_seed(0)
    tied = nn.Linear(8, 8)
    net = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)), nn.utils.spectral_norm(nn.Linear(8, 8)),
        nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), tied, nn.Linear(8, 8),
    )  # fmt: skip
    net[4].weight = tied.weight
    _fit(run, net)


@shape
def pruned_later(run: Run) -> None:
    from torch.nn.utils import prune

    torch.manual_seed(0)
    net = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        if step == 4:
            prune.l1_unstructured(net, "weight", amount=0.3)
        x = rows(step)
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def optimizer_changed_later(run: Run) -> None:
    """Adam, then SGD with momentum, as SWATS: the second one is in no argument."""
    torch.manual_seed(0)
    net = nn.Linear(8, 8)
    optimizer: Any = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        if step == 3:
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        x = rows(step)
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        optimizer.step()
        training.finished(step, loss=total(loss))


class CountingHook:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, module: nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return output * (1 + self.calls / 10)


def _hooked(run: Run, choose: Callable[[Any], dict[str, Any]]) -> None:
    torch.manual_seed(0)
    net, hook = nn.Linear(8, 8), CountingHook()
    net.register_forward_hook(hook)
    _fit(run, net, **choose(hook))


@shape
def counting_hook(run: Run) -> None:
    _hooked(run, lambda hook: {"per_rank": {"hook": hook}})


@shape
def counting_hook_forgotten(run: Run) -> None:
    _hooked(run, lambda _: {})


def _scaled_by_hand(run: Run, state: Any, choose: Callable[[Any], dict[str, Any]]) -> None:
    """A loss scale that falls with an overflow, and a limit for gradients that follows their norms."""
    torch.manual_seed(0)
    net = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    training = Resumable(run, model=net, optimizer=optimizer, **choose(state))
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        (loss * state.scale).backward()
        mean_gradients(*net.parameters())
        for parameter in net.parameters():
            parameter.grad = parameter.grad.half().float() / state.scale
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.8 * state.norm)
        state.norm = 0.9 * state.norm + 0.1 * float(norm)
        state.scale = state.scale / 3 if step % 7 == 3 else state.scale * 1.5
        optimizer.step()
        training.finished(step, loss=total(loss))


class Scale:
    def __init__(self) -> None:
        self.scale, self.norm = 1024.0, 1.0


@shape
def own_loss_scale(run: Run) -> None:
    _scaled_by_hand(run, Scale(), lambda state: {"per_rank": {"state": state}})


@shape
def own_loss_scale_in_values(run: Run) -> None:
    _scaled_by_hand(run, Values(scale=1024.0, norm=1.0), lambda state: {"per_rank": {"state": state}})


@shape
def own_loss_scale_forgotten(run: Run) -> None:
    _scaled_by_hand(run, Scale(), lambda _: {})


@shape
def clipping_by_a_mean_forgotten(run: Run) -> None:
    """A number of the loop, which no line shows."""
    torch.manual_seed(0)
    net, norms = nn.Linear(8, 8), 1.0
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (net(x) - x).square().sum()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        norm = nn.utils.clip_grad_norm_(net.parameters(), 2 * norms)
        norms = 0.9 * norms + 0.1 * min(float(norm), 10.0)
        optimizer.step()
        training.finished(step, loss=total(loss))


class AutoClip:
    """Clips at a percentile of all norms so far."""

    def __init__(self) -> None:
        self.history: list[float] = []

    def __call__(self, net: nn.Module) -> None:
        self.history.append(math.sqrt(sum(float(p.grad.square().sum()) for p in net.parameters())))
        nn.utils.clip_grad_norm_(net.parameters(), float(np.percentile(self.history, 30)))


def _clipped(run: Run, choose: Callable[[Any], dict[str, Any]]) -> None:
    torch.manual_seed(0)
    net, clip = nn.Linear(8, 8), AutoClip()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer, **choose(clip))
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (net(x) - x).square().sum()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        clip(net)
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def autoclip_forgotten(run: Run) -> None:
    _clipped(run, lambda _: {})


class OwnTrainer:
    """As many repositories have one: a class with everything on itself."""

    def __init__(self, run: Run, *, keeps: bool) -> None:
        torch.manual_seed(0)
        self.net = nn.Linear(8, 8)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.05)
        self.iteration, self.beta = 0, 1.0
        self.shown: list[float] = []
        arguments: dict[str, Any] = {"per_rank": {"self": self}} if keeps else {}
        self.training = Resumable(run, model=self.net, optimizer=self.optimizer, **arguments)

    def train_step(self, step: int) -> float:
        self.iteration += 1
        self.beta *= 0.95
        for group in self.optimizer.param_groups:
            group["lr"] = 0.05 / self.iteration
        x = rows(step)
        loss = (self.net(x) - x).square().mean() + self.beta * self.net(x).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        mean_gradients(*self.net.parameters())
        self.optimizer.step()
        self.shown.append(float(loss))
        return float(total(loss))

    def fit(self) -> None:
        for step in self.training.steps(STEPS):
            self.training.finished(step, loss=self.train_step(step))


@shape
def trainer_of_ones_own(run: Run) -> None:
    OwnTrainer(run, keeps=True).fit()


@shape
def trainer_of_ones_own_forgotten(run: Run) -> None:
    OwnTrainer(run, keeps=False).fit()


def _recurrent(run: Run, choose: Callable[[Any], dict[str, Any]]) -> None:
    """Backpropagation through time that is cut after each step: the hidden state goes on."""
    torch.manual_seed(0)
    net = nn.ModuleList([nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 8)])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    kept = Values(hidden=None)
    training = Resumable(run, model=net, optimizer=optimizer, **choose(kept))
    for step in training.steps(STEPS):
        x = rows(step, 4).unsqueeze(1)
        if kept.hidden is not None:
            kept.hidden = tuple(part.detach() for part in kept.hidden)
        y, kept.hidden = net[0](x, kept.hidden)
        loss = (net[1](y) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        optimizer.step()
        kept.hidden = tuple(part.detach() for part in kept.hidden)
        training.finished(step, loss=total(loss))


@shape
def recurrent(run: Run) -> None:
    _recurrent(run, lambda kept: {"per_rank": {"kept": kept}})


@shape
def recurrent_forgotten(run: Run) -> None:
    _recurrent(run, lambda _: {})


class Curriculum:
    """Draws by three sorts of random numbers from rows that become harder with each draw."""

    def __init__(self) -> None:
        self.chance, self.numbers = random.Random(1), np.random.default_rng(2)
        self.generator, self.draws = torch.Generator().manual_seed(3), 0

    def draw(self, data: torch.Tensor) -> torch.Tensor:
        self.draws += 1
        limit = min(len(data), 8 + 2 * self.draws)
        places = [self.chance.randrange(limit) for _ in range(3)] + self.numbers.integers(0, limit, 3).tolist()
        places += torch.randint(limit, (2,), generator=self.generator).tolist()
        return data[places]


def _drawn(run: Run, draw: Callable[[torch.Tensor], torch.Tensor], **arguments: Any) -> None:
    torch.manual_seed(0)
    net, data = ddp(nn.Linear(8, 1)), torch.randn(64, 8)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer, **arguments)
    for step in training.steps(STEPS):
        x = draw(data)
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def curriculum(run: Run) -> None:
    sampler = Curriculum()
    _drawn(run, sampler.draw, per_rank={"sampler": sampler})


@shape
def curriculum_forgotten(run: Run) -> None:
    _drawn(run, Curriculum().draw)


def _counter() -> Callable[[torch.Tensor], torch.Tensor]:
    number = 0

    def draw(data: torch.Tensor) -> torch.Tensor:
        nonlocal number
        number += 1
        return data[random.Random(number).sample(range(len(data)), 8)]

    return draw


@shape
def closure_that_counts_forgotten(run: Run) -> None:
    _drawn(run, _counter())


@shape
def partial_that_counts_forgotten(run: Run) -> None:
    def draw(box: dict[str, int], data: torch.Tensor) -> torch.Tensor:
        box["number"] += 1
        return data[random.Random(box["number"]).sample(range(len(data)), 8)]

    _drawn(run, functools.partial(draw, {"number": 0}))


def _shuffled(run: Run, choose: Callable[[Any], dict[str, Any]]) -> None:
    torch.manual_seed(0)
    random.seed(dist.get_rank())
    net, data, order = ddp(nn.Linear(8, 1)), torch.randn(64, 8), list(range(64))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer, **choose(order))
    for step in training.steps(STEPS):
        if step % 4 == 0:
            random.shuffle(order)
        x = data[order[step % 4 * 16 : (step % 4 + 1) * 16]]
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def list_shuffled_in_place(run: Run) -> None:
    _shuffled(run, lambda order: {"per_rank": {"order": order}})


@shape
def list_shuffled_in_place_forgotten(run: Run) -> None:
    _shuffled(run, lambda _: {})


@shape
def rows_shuffled_in_place_forgotten(run: Run) -> None:
    """A list of tensors, whose order alone changes."""
    torch.manual_seed(0)
    random.seed(0)
    net, data = ddp(nn.Linear(8, 1)), list(torch.randn(32, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        if step % 4 == 0:
            random.shuffle(data)
        x = torch.stack(data[step % 4 * 8 : (step % 4 + 1) * 8])
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def cycled_rates_forgotten(run: Run) -> None:
    torch.manual_seed(0)
    net, rates = ddp(nn.Linear(8, 1)), itertools.cycle([0.1, 0.01, 0.05, 0.02, 0.2])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        optimizer.param_groups[0]["lr"] = next(rates)
        x = rows(step)
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def accumulation_by_enumerate_forgotten(run: Run) -> None:
    torch.manual_seed(0)
    net = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8, shuffle=True)
    training = Resumable(run, model=net, optimizer=optimizer)
    for _ in training.epochs(2):
        for number, x in enumerate(training.batches(loader)):
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            if (number + 1) % 3 == 0:
                mean_gradients(*net.parameters())
                optimizer.step()
                optimizer.zero_grad()
            training.note(loss=total(loss))


@shape
def accumulation_by_position(run: Run) -> None:
    """The same with the line that the refusal names."""
    torch.manual_seed(0)
    net = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8, shuffle=True)
    training = Resumable(run, model=net, optimizer=optimizer)
    for _ in training.epochs(2):
        for x in training.batches(loader):
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            if training.position.batch % 3 == 0:
                mean_gradients(*net.parameters())
                optimizer.step()
                optimizer.zero_grad()
            training.note(loss=total(loss))


class OwnOrder(torch.utils.data.Dataset[torch.Tensor]):  # type: ignore[misc]
    """Shuffles itself, and becomes harder, when an epoch begins."""

    def __init__(self) -> None:
        self.order, self.data, self.level = list(range(32)), torch.randn(32, 8), 1.0

    def on_epoch(self) -> None:
        random.shuffle(self.order)
        self.level *= 1.5

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.data[self.order[index]] * self.level


@shape
def dataset_with_an_order_forgotten(run: Run) -> None:
    torch.manual_seed(0)
    random.seed(0)
    net, dataset = ddp(nn.Linear(8, 1)), OwnOrder()
    loader = torch.utils.data.DataLoader(dataset, batch_size=8)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for _ in training.epochs(4):
        dataset.on_epoch()
        for x in training.batches(loader):
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.note(loss=total(loss))


def _bank(run: Run, choose: Callable[[Any], dict[str, Any]]) -> None:
    """The newest output for each sample, as InstDisc keeps it; by hand, in a dictionary."""
    torch.manual_seed(0)
    net = nn.Linear(8, 8)
    bank: dict[int, torch.Tensor] = {}
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer, **choose(bank))
    for step in training.steps(STEPS):
        sample = step % 4
        y = net(rows(sample))
        loss = (y - rows(sample)).square().mean()
        if sample in bank:
            loss = loss + (y - bank[sample]).square().mean()
        bank[sample] = y.detach()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def memory_bank(run: Run) -> None:
    _bank(run, lambda bank: {"per_rank": {"bank": bank}})


@shape
def memory_bank_forgotten(run: Run) -> None:
    _bank(run, lambda _: {})


@shape
def plateau_by_hand_forgotten(run: Run) -> None:
    torch.manual_seed(0)
    net, best, bad = nn.Linear(8, 8), float("inf"), 0
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*net.parameters())
        optimizer.step()
        shown = total(loss)
        best, bad = (shown, 0) if shown < best else (best, bad + 1)
        if bad >= 2:
            bad = 0
            optimizer.param_groups[0]["lr"] *= 0.5
        training.finished(step, loss=shown)


@shape
def lbfgs_with_a_closure(run: Run) -> None:
    torch.manual_seed(0)
    net = nn.Linear(8, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.2, max_iter=4)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()  # noqa: B023
            loss.backward()
            mean_gradients(*net.parameters())
            return loss

        training.finished(step, loss=total(optimizer.step(closure)))


@shape
def only_shown(run: Run) -> None:
    """What a loop prints, averages and plots needs no argument, and the epoch's number none either."""
    torch.manual_seed(0)
    net = ddp(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 1)))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8, shuffle=True)
    history: dict[str, list[float]] = collections.defaultdict(list)
    running, count, best = 0.0, 0, float("inf")
    training = Resumable(run, model=net, optimizer=optimizer)
    for epoch in training.epochs(2):
        for number, x in enumerate(training.batches(loader)):
            for group in optimizer.param_groups:
                group["lr"] = 0.05 / (1 + epoch)
            loss = functional.mse_loss(net(x), x.sum(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running, count, best = running + float(loss), count + 1, min(best, float(loss))
            history["loss"].append(float(loss))
            if number % 5 == 4:
                print(f"{epoch} {number} {running / 5:.3f} {sum(history['loss'][-7:]) / 7:.3f} {best:.3f} {count}")
                running = 0.0
            training.note(loss=total(loss))


class OwnSampler(torch.utils.data.Sampler[int]):  # type: ignore[misc]
    """Counts its epochs, and draws as it goes."""

    def __init__(self, count: int) -> None:
        self.count, self.epoch, self.chance = count, 0, random.Random(dist.get_rank())

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        for _ in range(self.count):
            yield self.chance.randrange(min(self.count, 8 * self.epoch))


@shape
def sampler_of_ones_own(run: Run) -> None:
    torch.manual_seed(0)
    net, data = ddp(nn.Linear(8, 1)), torch.randn(32, 8)
    loader = torch.utils.data.DataLoader(data, batch_size=8, sampler=OwnSampler(len(data)))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for _ in training.epochs(4):
        for x in training.batches(loader):
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.note(loss=total(loss))


def packed(length: int) -> Iterator[torch.Tensor]:
    """Documents of any length, one after another, in rows of one length; the rest of a document is in a list."""
    numbers, rest = random.Random(dist.get_rank()), []  # type: random.Random, list[int]
    while True:
        rest += [numbers.randrange(32) for _ in range(numbers.randrange(3, 17))]
        while len(rest) >= length:
            yield torch.tensor(rest[:length])
            rest = rest[length:]


def _next_token(model: nn.Module, optimizer: Any, ids: torch.Tensor) -> float:
    loss = functional.cross_entropy(model(ids[:-1]), ids[1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(total(loss))


@shape
def packer(run: Run) -> None:
    torch.manual_seed(0)
    model = ddp(nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 32)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for _ in training.epochs(2):
        for ids in training.batches(itertools.islice(packed(12), STEPS // 2)):
            training.note(loss=_next_token(model, optimizer, ids))


@shape
def packer_forgotten(run: Run) -> None:
    torch.manual_seed(0)
    model = ddp(nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 32)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    stream = packed(12)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        training.finished(step, loss=_next_token(model, optimizer, next(stream)))
