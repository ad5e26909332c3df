"""What a loop keeps from step to step and nobody saves is named; what is no state is not."""

from __future__ import annotations

import copy
import importlib
import random
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.utils
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

from hyperpod_ray_training import Values, completeness, iterators
from hyperpod_ray_training.completeness import (
    AGAIN_FROM,
    WATCHED,
    Completeness,
    Missing,
    _begins_pair,
    _in_state,
    _is_data,
)
from hyperpod_ray_training.state import TrainingState
from hyperpod_ray_training.variables import loop_frames


class Watched:
    """The watched steps of a loop, and what they found; no run, no files."""

    def __init__(self, model: Any, optimizer: Any, *, recomputed: Any = (), **more: Any) -> None:
        more = {"extra": {}, "per_rank": {}} | more
        self.state = TrainingState(model=model, optimizer=optimizer, rank=0, world=1, **more)
        self.complete = Completeness(self.state, recomputed)
        self.missing: list[Missing] = []

    def steps(self, total: int = 7, *, first: int = 0) -> Iterator[int]:
        self.complete.begin(first)
        try:
            for step in range(first, first + total):
                self.complete.step_begins(step, loop_frames(sys._getframe(1)))
                yield step
                self.missing += self.complete.step_ended(step)
        finally:
            self.complete.abandon()

    @property
    def refused(self) -> dict[str, str]:
        mine = "watched."  # this object is a variable of the loop too
        return {one.path: one.fix for one in self.missing if not one.noted and not one.path.startswith(mine)}

    @property
    def noted(self) -> set[str]:
        return {one.path for one in self.missing if one.noted}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.1), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))


def train(model: nn.Module, optimizer: Any, x: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss)


def test_the_heap_is_walked_only_when_no_other_thread_makes_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    model, order = net(), list[str]()
    watched = Watched(model, optimizer := torch.optim.SGD(model.parameters()))
    watched.complete.quiesce = lambda: order.append("quiesce")
    walk = iterators.at_work

    def noted(*given: Any) -> Any:
        order.append("walk")
        return walk(*given)

    monkeypatch.setattr(iterators, "at_work", noted)
    for step in watched.steps(WATCHED[-1] + 3):
        order.append(str(step))
        train(model, optimizer, torch.randn(8, 16))
    at = [number for number, word in enumerate(order) if word == "walk"]
    assert len(at) == len(WATCHED) == order.count("quiesce")
    assert all(order[number - 1] == "quiesce" for number in at)


def test_one_model_with_one_optimizer_misses_nothing_and_its_gradients_are_no_state() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    watched = Watched(model, optimizer)
    losses, count, began = [], 0, time.time()
    for step in watched.steps():
        losses.append(train(model, optimizer, torch.randn(8, 16)))
        count += 1 + step // 100
        began = time.time() - (time.time() - began)
    assert watched.refused == {}
    assert watched.noted == {"losses", "count"}, "a moment of the clock is neither"
    assert not watched.state.gradients


def test_constants_and_gradients_that_are_zeroed_in_place_are_no_state() -> None:
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(8)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    watched = Watched(model, optimizer)
    for _ in watched.steps():
        optimizer.zero_grad(set_to_none=False)
        x = torch.randn(2, 8, 16)
        model(x, x, tgt_mask=mask).square().mean().backward()
        optimizer.step()
    assert watched.missing == []
    assert not watched.state.gradients


def test_a_forgotten_optimizer_is_named_with_the_argument() -> None:
    model, judge = net(), nn.Linear(4, 1)
    one, two = torch.optim.AdamW(model.parameters()), torch.optim.AdamW(judge.parameters())
    watched = Watched([model, judge], one)
    for _ in watched.steps():
        one.zero_grad()
        two.zero_grad()
        judge(model(torch.randn(8, 16))).mean().backward()
        one.step()
        two.step()
    assert watched.refused == {"two": "optimizer=[…, two]"}


@pytest.mark.slow
@pytest.mark.parametrize("declared", [False, True])
def test_a_target_network_is_named_unless_it_is_declared(declared: bool) -> None:
    model = net()
    target = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters())
    watched = Watched(model, optimizer, recomputed=["target"] if declared else [])
    for _ in watched.steps():
        x = torch.randn(8, 16)
        optimizer.zero_grad()
        (model(x) - target(x).detach()).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for slow, quick in zip(target.parameters(), model.parameters(), strict=True):
                slow.mul_(0.9).add_(quick, alpha=0.1)
    assert watched.refused == ({} if declared else {"target": "model=[…, target]"})


def test_gradients_that_outlive_a_step_become_state() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    watched = Watched(model, optimizer)
    for step in watched.steps():
        model(torch.randn(8, 16)).square().mean().backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    assert watched.missing == []
    assert watched.state.gradients


def test_a_generator_counts_where_it_goes_on_and_not_where_it_is_seeded_in_each_step() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    goes_on, seeded = torch.Generator().manual_seed(1), torch.Generator()
    watched = Watched(model, optimizer)
    for step in watched.steps():
        x = torch.randn(8, 16, generator=goes_on) + torch.randn(8, 16, generator=seeded.manual_seed(step))
        train(model, optimizer, x)
    assert watched.refused == {"goes_on": "per_rank={'goes_on': goes_on}"}


def test_a_generator_in_the_arguments_is_held() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    noise = torch.Generator().manual_seed(1)
    watched = Watched(model, optimizer, per_rank={"noise": noise})
    for _ in watched.steps():
        train(model, optimizer, torch.randn(8, 16, generator=noise))
    assert watched.missing == []


class Replay:
    def __init__(self) -> None:
        self.memory: deque[tuple[Any, int]] = deque(maxlen=100)


def test_containers_streams_and_random_numbers_of_the_loop_are_named() -> None:
    def stream() -> Iterator[torch.Tensor]:
        number = 0
        while True:
            yield torch.full((2, 16), float(number))
            number += 1

    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    replay, table, chance, batches = Replay(), np.zeros(4), random.Random(1), stream()
    numbers = np.random.default_rng(1)
    loader = iter(torch.utils.data.DataLoader(torch.randn(50, 16), batch_size=2))
    watched = Watched(model, optimizer)
    for step in watched.steps():
        replay.memory.append((numbers.random(), step))
        table[step % 4] += chance.random()
        train(model, optimizer, next(batches) + next(loader))
        scheduler.step()
    assert watched.refused.keys() == {"replay.memory", "table", "chance", "batches", "numbers", "loader", "scheduler"}
    assert watched.refused["replay.memory"] == "per_rank={'replay': replay}"
    assert watched.refused["scheduler"] == "extra={'scheduler': scheduler}"
    assert "training.batches" in watched.refused["loader"]


def test_what_they_are_given_as_is_held() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    replay, table, chance = Replay(), np.zeros(4), random.Random(1)
    shadow = [parameter.detach().clone() for parameter in model.parameters()]
    per_rank = {"replay": replay, "table": table, "chance": chance, "shadow": shadow}
    watched = Watched(model, optimizer, extra={"scheduler": scheduler}, per_rank=per_rank)
    for step in watched.steps():
        replay.memory.append((torch.randn(16), step))
        table[step % 4] += chance.random()
        train(model, optimizer, torch.stack([x for x, _ in replay.memory] * 2))
        torch._foreach_lerp_(shadow, [parameter.detach() for parameter in model.parameters()], 0.1)
        scheduler.step()
    assert watched.refused == {}


def test_what_is_used_in_every_second_step_only_is_seen() -> None:
    model, rare = net(), torch.zeros(4)
    optimizer = torch.optim.AdamW(model.parameters())
    watched = Watched(model, optimizer)
    for step in watched.steps():
        train(model, optimizer, torch.randn(8, 16))
        if step % 2:
            rare += 0.1 * model(torch.randn(8, 16)).detach().mean(0)
    assert watched.refused.keys() == {"rare"}


@pytest.mark.parametrize(
    ("saved", "again"),
    [
        ({"model.a"}, False),
        ({"model.a", "model.b"}, True),
        ({"model.b"}, True),
        (set(), True),
        ({"model.a", "gradients.a"}, False),
    ],
    ids=str,
)
def test_steps_are_watched_again_where_other_tensors_are_saved(saved: set[str], again: bool) -> None:
    watched = Watched(net(), [])
    watched.state.proved, watched.complete.names = True, frozenset({"model.a"})
    watched.complete.noticed(12, frozenset(saved))
    assert watched.complete.over is not again


@pytest.mark.slow
def test_other_tensors_at_a_save_are_watched_again() -> None:
    model, late = net(), torch.zeros(4)
    optimizer = torch.optim.AdamW(model.parameters())
    watched = Watched(model, optimizer)
    for step in watched.steps(20):
        train(model, optimizer, torch.randn(8, 16))
        if step == 10:
            model.register_buffer("scale", torch.ones(1))
        if step > 10:
            late += model(torch.randn(8, 16)).detach().mean(0)
        if step % 4 == 3:
            watched.complete.noticed(step + 1, frozenset(watched.state.content().tensors))
        if step == 12:
            assert not watched.refused
    assert watched.refused.keys() == {"late"}


@pytest.mark.slow
def test_a_constant_that_somebody_writes_is_looked_at_at_once() -> None:
    """A target network that begins to follow between two pairs of watched steps, here of 32 and of 64."""
    model, target = net(), net().eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())
    watched = Watched(model, optimizer, recomputed=["named_at"])
    named_at = None
    for step in watched.steps(50):
        train(model, optimizer, torch.randn(8, 16) + target(torch.randn(8, 16)).mean())
        if step >= 40:
            with torch.no_grad():
                for slow, quick in zip(target.parameters(), model.parameters(), strict=True):
                    slow.lerp_(quick, 0.1)
        if named_at is None and watched.refused:
            named_at = step
    assert watched.refused.keys() == {"target"}
    assert named_at is not None and 40 < named_at <= 44


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "copy_": (torch.ones(4),), "zero_": (), "fill_": (2.0,), "normal_": (), "uniform_": (), "random_": (),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(completeness._FILLS))
def test_what_fills_a_tensor_needs_nothing_of_it(name: str) -> None:
    """As torch documents them: an operator that reads its tensor (lerp_, mul_) shows state, and fills nothing."""
    results = []
    for before in (0.0, 7.0):
        torch.manual_seed(0)
        tensor = torch.full((4,), before)
        if name.startswith("_foreach_"):
            getattr(torch, name)([tensor], *([[torch.ones(4)]] if name == "_foreach_copy_" else []))
        else:
            getattr(tensor, name)(*ARGUMENTS[name])
        results.append(tensor)
    assert torch.equal(*results)


AVERAGES = {
    "lerp": lambda slow, quick: slow.lerp_(quick, 0.1),
    "mul and add": lambda slow, quick: slow.mul_(0.9).add_(quick, alpha=0.1),
    "addcmul": lambda slow, quick: slow.addcmul_(quick, quick),
    "out": lambda slow, quick: torch.lerp(slow, quick, 0.1, out=slow),
    "copy": lambda slow, quick: slow.copy_(0.9 * slow + 0.1 * quick),
    "foreach": lambda slow, quick: torch._foreach_lerp_([slow], [quick], 0.1),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_an_average_is_state_however_it_is_written(name: str) -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    average = torch.zeros(16)
    watched = Watched(model, optimizer)
    for _ in watched.steps():
        x = torch.randn(8, 16)
        train(model, optimizer, x)
        AVERAGES[name](average, x.mean(0))
    assert watched.refused.keys() == {"average"}


def test_a_loop_that_is_left_within_a_watched_step_leaves_no_mode_behind() -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    model = net()
    watched = Watched(model, torch.optim.AdamW(model.parameters()))
    for step in watched.steps():
        if step == 2:
            assert _get_current_dispatch_mode() is not None
            break
    watched.complete.abandon()
    assert _get_current_dispatch_mode() is None


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 100])
def test_under_torch_compile_steps_are_watched_by_their_number(first: int) -> None:
    torch._dynamo.reset()  # what an earlier test has compiled is compiled again
    torch._dynamo.utils.counters.clear()
    model, judge = torch.compile(nn.Linear(16, 4), backend="eager"), nn.Linear(4, 1)
    one, two = torch.optim.AdamW(model.parameters()), torch.optim.AdamW(judge.parameters())
    watched = Watched([model, judge], one)
    try:
        for _ in watched.steps(first=first):
            one.zero_grad()
            two.zero_grad()
            judge(model(torch.randn(8, 16))).mean().backward()
            one.step()
            two.step()
        assert watched.refused == ({} if first else {"two": "optimizer=[…, two]"})
        before = sum(torch._dynamo.utils.counters["frames"].values())
        torch.compile(nn.Linear(16, 4), backend="eager")(torch.randn(2, 16))
        assert sum(torch._dynamo.utils.counters["frames"].values()) > before, "it compiles again"
    finally:
        torch._dynamo.utils.counters.clear()


@pytest.mark.parametrize("first", [0, 1, 3, 4, 5, 6, 8, 9, 10, 26, 27])
def test_a_restored_process_that_has_compiled_nothing_yet_watches_the_same_steps(first: int) -> None:
    """A watched step is not compiled, so that its last bits, and what dropout draws, are others."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watched = Watched(model, optimizer, recomputed=["eager"])
    watched.state.fill_own(
        watched.state.shared(), {"position": watched.state.position.own(), "per_rank": {}, "compiled": True}
    )
    eager = []
    for step in watched.steps(30 - first, first=first):
        if watched.complete._under_way is not None:
            eager.append(step)
        train(model, optimizer, torch.randn(8, 16))
    assert eager == [step for step in (2, 3, 5, 8, 9, 26, 27) if step >= first]
    assert watched.refused == {}
    assert watched.state.own()["compiled"]


def test_a_watched_step_has_the_same_bits() -> None:
    def losses(watch: bool) -> list[float]:
        torch.manual_seed(0)
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        told = []
        for _ in Watched(model, optimizer).steps() if watch else range(7):
            told.append(train(model, optimizer, torch.randn(8, 16)))
        return told

    assert losses(True) == losses(False)


def refused_of_fetched_ahead(*, handed: bool) -> dict[str, str]:
    """What is refused of a loop like transformers' Trainer: batches come before their step, and one more is held."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    watched = Watched(model, optimizer)
    watched.complete.fetches_by_itself = handed
    ahead = deque([torch.randn(8, 16)])
    steps = watched.steps()
    while True:
        ahead.append(torch.randn(8, 16))
        batch = ahead.popleft()
        if handed:
            watched.complete.handed([batch])
        if next(steps, None) is None:
            return watched.refused
        train(model, optimizer, batch)
        del batch


@pytest.mark.parametrize("handed", [True, False])
def test_batches_fetched_ahead_are_data_where_the_run_knows_of_them(handed: bool) -> None:
    """What a step has written is told by its memory, which a batch may get by chance, so several loops are asked."""
    outcomes = [refused_of_fetched_ahead(handed=handed) for _ in range(5)]
    assert any(outcomes) is not handed, outcomes


def test_what_a_trainers_class_replaces_in_each_step_is_no_batch() -> None:
    class Own:
        def __init__(self) -> None:
            self.mean: Any = None
            self.kept = Values(mean=None)

    trainer = Own()
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    watched = Watched(model, optimizer)
    watched.complete.fetches_by_itself, watched.complete.through = True, "survive"
    watched.complete.beside = {"trainer": trainer}
    for _ in watched.steps():
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16)).square().mean()
        now = loss.detach()
        for holder in (trainer, trainer.kept):
            holder.mean = now if holder.mean is None else 0.9 * holder.mean + 0.1 * now
            loss = loss / holder.mean
        loss.backward()
        optimizer.step()
    in_values = "trainer.kept = Values(mean=…), survive(…, per_rank={'kept': trainer.kept}), and self.kept.mean"
    assert in_values in watched.refused["trainer.mean"]
    assert watched.refused["trainer.kept"] == "survive(…, per_rank={'kept': trainer.kept})"


def test_values_that_are_in_no_argument_are_state() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept, saved = Values(scale=1.0), Values(scale=1.0)
    watched = Watched(model, optimizer, per_rank={"saved": saved})
    for _ in watched.steps():
        kept.scale *= 0.9
        saved.scale *= 0.9
        train(model, optimizer, torch.randn(8, 16) * kept.scale * saved.scale)
    assert watched.refused == {"kept": "per_rank={'kept': kept}"}


def _slow_weights(period: int, first: int, steps: int) -> Watched:
    """Lookahead by hand: weights that a step reads and writes, once in so many steps."""
    model = nn.Linear(16, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    slow = model.weight.detach().clone()
    watched = Watched(model, optimizer)
    for step in watched.steps(steps):
        train(model, optimizer, torch.randn(8, 16))
        if step % period == first:
            with torch.no_grad():
                slow.lerp_(model.weight, 0.5)
                model.weight.copy_(slow)
    return watched


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1, 2, 3, 4])
def test_state_that_each_fifth_step_alone_reads_and_writes_is_named(first: int) -> None:
    watched = _slow_weights(5, first, steps=28)
    assert set(watched.refused) == {"slow"}, "steps 2, 3, 5, 8, 9, 26 and 27 are watched"


@pytest.mark.parametrize("period", range(2, 10))
def test_what_is_due_once_in_a_few_steps_meets_a_watched_step(period: int) -> None:
    pairs = [number for number in range(310) if _begins_pair(number)]
    assert pairs[:4] == [AGAIN_FROM, 26, 52, 94]
    watched = {*WATCHED, *pairs, *(number + 1 for number in pairs)}
    assert {number % period for number in watched} == set(range(period))


@pytest.mark.slow
def test_a_buffer_that_a_step_empties_again_is_no_state() -> None:
    model = nn.Linear(16, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    total, table = torch.zeros(()), torch.arange(16.0)
    watched = Watched(model, optimizer)
    for _ in watched.steps(12):
        x = torch.randn(8, 16) + table
        total += train(model, optimizer, x)
        total.zero_()
    assert watched.refused == {}


@pytest.mark.parametrize("given", [False, True])
def test_a_model_averager_of_torchs_that_counts_steps_is_state(given: bool) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    averager = PeriodicModelAverager.__new__(PeriodicModelAverager)
    averager.step, averager.period = 0, 4
    more = {"per_rank": {"averager": averager}} if given else {}
    watched = Watched(model, optimizer, **more)
    for _ in watched.steps():
        loss = train(model, optimizer, torch.randn(8, 16))
        averager.step += 1
        if averager.step % averager.period == 0:
            train(model, optimizer, torch.full((8, 16), loss))
    assert watched.refused == ({} if given else {"averager.step": "per_rank={'averager': averager}"})


class Kept:
    scale: Any = None
    late: Any


@pytest.mark.parametrize("form", ["variable", "attribute", "key", "array", "tensor", "late"])
@pytest.mark.parametrize("first", [0, 40])
def test_what_the_first_steps_set_and_later_ones_read_is_named(form: str, first: int) -> None:
    """A restored process would set it by its own first batch, and no two watched steps differ."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    watched = Watched(model, optimizer)
    kept, ranges, first_loss, mean = Kept(), {}, None, None
    array = np.zeros(3)
    for step in watched.steps(first=first):
        x = torch.randn(8, 16)
        loss = train(model, optimizer, x)
        number = step - first
        if form == "variable" and first_loss is None:
            first_loss = loss
        elif form == "attribute" and kept.scale is None:
            kept.scale = loss
        elif form == "key" and "scale" not in ranges:
            ranges["scale"] = loss
        elif form == "array" and not number:
            array[1] = loss
        elif form == "tensor" and mean is None:
            mean = x.mean(0)
        elif form == "late" and number == 1:
            kept.late = loss
        if step > first + 1:
            late = kept.late if form == "late" else 0.0
            x = x * (first_loss or kept.scale or ranges.get("scale") or late + array[1])
            x = x if mean is None else x - mean
            train(model, optimizer, x)
    named = {"variable": "first_loss", "attribute": "kept.scale", "key": "ranges", "array": "array",
             "tensor": "mean", "late": "kept.late"}[form]  # fmt: skip
    assert watched.refused.keys() == {named}, watched.missing


def test_what_the_first_steps_set_of_no_batch_is_no_state() -> None:
    """Numbers of steps, words, masks, what is declared, and tensors that no step reads."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    watched = Watched(model, optimizer, recomputed=["declared"])
    count, phase, mask, declared, unread, shown = None, None, None, None, None, None
    for _ in watched.steps():
        x = torch.randn(8, 16)
        count = count or len(x)
        phase = phase or "train"
        mask = torch.ones(16, dtype=torch.bool) if mask is None else mask
        unread = x.mean() if unread is None else unread
        loss = train(model, optimizer, (x * mask)[:count])
        declared = declared or loss
        shown = shown or loss
        print(shown, phase, unread is None)
        train(model, optimizer, x * declared)
    assert watched.refused == {}
    assert watched.noted == {"shown"}


@pytest.mark.parametrize("form", ["array", "attribute", "list"])
def test_what_is_carried_in_an_array_and_replaced_in_each_step_is_named(form: str) -> None:
    """No operator of a step shows it. The line to add holds what the variable has, and not what it had."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    watched = Watched(model, optimizer)
    kept, carried, drawn = Kept(), np.zeros(16), [0.0] * 16
    kept.scale = np.zeros(16)
    for _ in watched.steps():
        batch = np.random.rand(16)  # made anew, and no state
        if form == "array":
            carried = np.tanh(carried + batch)
        elif form == "attribute":
            kept.scale = np.tanh(kept.scale + batch)
        else:
            drawn = [number * 0.5 + 1 for number in drawn]
        train(model, optimizer, torch.tensor(carried + kept.scale + drawn, dtype=torch.float32).expand(8, 16))
    named = {"array": "carried", "attribute": "kept.scale", "list": "drawn"}[form]
    assert watched.refused.keys() - {"watched"} == {named}
    assert watched.refused[named].endswith(
        "per_rank={'kept': kept}" if form == "attribute" else f"and kept.{named} in its place"
    )


PACKAGE = """
import numpy

class Warmup:
    def __init__(self): self.last_step = 0
    def step(self): self.last_step += 1
    def state_dict(self): return {"last_step": self.last_step}
    def load_state_dict(self, state): self.last_step = state["last_step"]

class Environment:
    action_space = 2
    def __init__(self): self.np_random, self.observed = numpy.random.default_rng(0), 0.0
    def reset(self): ...
    def step(self, action):
        self.observed += self.np_random.normal()
        return self.observed

class Bar:
    def __init__(self): self.n = 0
    def update(self): self.n += 1
"""


@pytest.mark.parametrize(("name", "fix"), [("Warmup", "extra"), ("Environment", "per_rank"), ("Bar", "")])
@pytest.mark.parametrize("given", [False, True])
def test_objects_of_packages_that_have_a_state_are_named(
    name: str, fix: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "of_others.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    made = getattr(importlib.import_module("of_others"), name)()
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = Watched(model, optimizer, **({fix: {"made": made}} if given and fix else {}))
    for _ in watched.steps():
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * min(1.0, getattr(made, "last_step", 4) / 9)
        train(model, optimizer, torch.randn(8, 16) + (made.step(0) if name == "Environment" else 0.0))
        if name != "Environment":
            (made.update if name == "Bar" else made.step)()
    sys.modules.pop("of_others")
    assert watched.refused == ({"made": f"{fix}={{'made': made}}"} if fix and not given else {})


def test_a_container_that_contains_itself_ends_nothing() -> None:
    """As trees with links to their parents do. The buffer beside it is still found."""
    tree: dict[str, Any] = {"children": []}
    tree["children"].append({"parent": tree, "mean": torch.zeros(16)})
    model = net()
    watched = Watched(model, optimizer := torch.optim.SGD(model.parameters()))
    for _ in watched.steps():
        x = torch.randn(8, 16)
        tree["children"][0]["mean"].mul_(0.9).add_(x.mean(0))
        train(model, optimizer, x - tree["children"][0]["mean"])
    assert list(watched.refused), watched.missing
    assert all(path.startswith("tree") for path in watched.refused)


class Bunch(dict[str, Any]):
    """As data sets of scikit-learn come."""


def test_a_container_of_any_class_is_looked_into_once() -> None:
    step: Any = SimpleNamespace(read=set())
    itself: list[Any] = []
    itself.append(itself)
    assert _is_data(Bunch(images=np.zeros(2), names=["a"]), step)
    assert not _is_data(Bunch(count=3, names=["a"]), step)
    assert not _is_data(itself, step)
    assert _is_data([itself, (1, {"rate": 0.5})], step)
    assert not _is_data(torch.zeros(2), step), "no step has read it"


class Counter:
    """Counts calls, and may save something of it."""

    def __init__(self, saved: Any) -> None:
        self.calls, self.ready, self.saved = 1, True, saved

    def state_dict(self) -> Any:
        return self.saved


@pytest.mark.parametrize(
    ("saved", "has"),
    [
        ({"calls": 1}, True),
        ({"_calls": 5}, True),
        ({"count": 1}, True),
        ({"inner": {"count": 1}}, True),
        ({"ready": True}, False),
        ({"ready": True, "count": 7}, False),
        ({"count": None}, False),
        ({}, False),
        ({"text": "calls 1"}, True),
        ({"packed": b"1"}, True),
        ([1], True),
    ],
    ids=str,
)
def test_a_flag_in_a_state_is_no_number_in_it(saved: Any, has: bool) -> None:
    """`True == 1` in Python: https://docs.python.org/3/library/stdtypes.html#boolean-type-bool ."""
    assert _in_state(Counter(saved), "calls") is has
