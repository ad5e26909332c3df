"""The shapes of a loop: which steps and epochs are left, what is called once, and what a wrong loop reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

from hyperpod_ray_training.batches import Position
from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.looping import Looping


class Written(Looping):
    """Writes down what is called."""

    def __init__(self, *, step: int = 0, epoch: int = 0) -> None:
        self.calls: list[object] = []
        self.position, self.device = Position(), torch.device("cpu")
        self.came_to = (step, epoch)

    def restore(self) -> None:
        self.calls.append("restore")
        self.step, self.position.epoch = self.came_to

    def finished(self, step: int, **metrics: float) -> None:
        self.calls.append((step, metrics) if metrics else step)
        self.step = step + 1

    def finish(self) -> None:
        self.calls.append("finish")

    def about_to_step(self) -> None:
        self.calls.append("begins")

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        self.calls.append("pause")
        yield
        self.calls.append("goes on")


@pytest.mark.parametrize(
    ("done", "total", "left"), [(0, 3, [0, 1, 2]), (2, 3, [2]), (3, 3, []), (5, 3, []), (0, 0, [])]
)
def test_the_steps_that_are_left(done: int, total: int, left: list[int]) -> None:
    training = Written(step=done)
    for step in training.steps(total):
        training.finished(step)
    steps = [call for step in left for call in ("begins", step)]
    assert training.calls == ["restore", *steps, "finish"]
    assert training.total_steps == total


@pytest.mark.parametrize("times", [0, 2])
def test_a_step_that_ends_twice_or_not_at_all_is_refused(times: int) -> None:
    training = Written(step=4)
    with pytest.raises(InputError, match=r"step: 4 ended twice or not at all\. Expected one call of finished\(4, …\)"):
        for _ in training.steps(9):
            for _ in range(times):
                training.finished(training.step)
    assert "finish" not in training.calls


@pytest.mark.parametrize(("done", "total", "left"), [(0, 2, [0, 1]), (1, 2, [1]), (2, 2, []), (0, 0, [])])
def test_the_epochs_that_are_left(done: int, total: int, left: list[int]) -> None:
    training = Written(epoch=done)
    assert list(training.epochs(total)) == left
    assert training.position.epoch == max(done, total)
    assert training.calls == ["restore", "finish"]


def test_a_loop_over_batches_has_a_step_for_each_and_what_it_noted() -> None:
    training = Written()
    for epoch in training.epochs(2):
        for batch in training.batches([10, 20]):
            if batch == 10:
                training.note(loss=2.0, lr=1.0)
            if epoch:
                training.note(loss=0.5)
    steps = [call for call in training.calls if isinstance(call, (tuple, int))]
    assert steps == [(0, {"loss": 2.0, "lr": 1.0}), 1, (2, {"loss": 0.5, "lr": 1.0}), (3, {"loss": 0.5})]
    assert training.calls.count("begins") == 4
    assert training.calls.count("pause") == training.calls.count("goes on")
    assert training.calls[-1] == "finish"


def test_a_step_of_several_batches_ends_with_its_last_and_an_epoch_with_what_is_left() -> None:
    training = Written()
    for _ in training.epochs(1):
        for _ in training.batches(range(5), accumulate=2):
            pass
    assert [call for call in training.calls if isinstance(call, int)] == [0, 1, 2]


@pytest.mark.parametrize("accumulate", [0, -1])
def test_no_batch_makes_no_step(accumulate: int) -> None:
    training = Written()
    with pytest.raises(InputError, match=f"accumulate: {accumulate}. Expected 1 or more"):
        training.batches([1], accumulate=accumulate)
    assert training.calls == []


def test_it_begins_and_ends_once() -> None:
    training = Written()
    training.begin()
    list(training.steps(0))
    training.end()
    assert training.calls == ["restore", "finish"]


def test_the_end_of_a_trainers_loop_is_the_end_of_its_step() -> None:
    training = Written()
    training.begin_step()
    training.end()
    assert training.calls == ["begins", 0, "finish"]


def test_the_time_between_two_loaders_is_one_pause() -> None:
    training = Written()
    training.between(False)
    assert training.calls == []
    training.between(True)
    training.between(True)
    training.end()
    assert training.calls == ["pause", "goes on", "pause", "goes on", "finish"]


def test_who_gives_no_steps_of_its_own_is_told() -> None:
    for call in (Looping().restore, lambda: Looping().finished(0), Looping().finish):
        with pytest.raises(NotImplementedError):
            call()
