from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.utils

from hyperpod_ray_training import iterators


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("state", ["list", "random", "numpy", "tensor", "another tensor", "object"])
def test_a_generator_has_another_place_where_only_what_it_keeps_has_changed(state: str) -> None:
    """A packer of tokens stands at the same line each time; what is left of a document differs."""

    class Numbers:
        def __init__(self) -> None:
            self.left = [1]

    def packer() -> Iterator[int]:
        keeps: Any = {"list": [0], "random": random.Random(1), "numpy": np.random.default_rng(1),
                      "tensor": torch.zeros(2), "another tensor": torch.ones(2),
                      "object": Numbers()}[state]  # fmt: skip
        while True:
            if isinstance(keeps, list):
                keeps[0] += 1
            elif state == "another tensor":
                keeps = 0.9 * keeps
            elif isinstance(keeps, torch.Tensor):
                keeps += 1
            elif isinstance(keeps, Numbers):
                keeps.left.append(1)
            else:
                keeps.random()
            yield 1

    stream = packer()
    places = []
    for _ in range(3):
        next(stream)
        places.append(repr(iterators.place_of(stream)))
        assert repr(iterators.place_of(stream)) == places[-1], "it has not moved"
    assert len(set(places)) == 3, places


def test_what_stands_in_a_with_around_the_loop_feeds_nothing() -> None:
    """A profiler or a timer of somebody's own: its generator waits at one line for the end, whatever it counts."""

    @contextlib.contextmanager
    def timed(seconds: list[float]) -> Iterator[list[float]]:
        yield seconds

    def packer(seconds: list[float]) -> Iterator[list[float]]:
        while True:
            yield seconds

    stream = packer([])
    next(stream)
    with timed([]) as seconds:
        seconds.append(1.0)
        working = {candidate.gi_code.co_name for candidate, _ in iterators.at_work([], lambda _: False).values()
                   if hasattr(candidate, "gi_code")}  # fmt: skip
    assert "packer" in working
    assert "timed" not in working


def test_a_cycle_over_somebodys_own_iterator_has_a_place() -> None:
    """Of the inner one nothing shows where it stands; what the cycle has kept of it does."""

    class Own:
        def __init__(self) -> None:
            self.inner = iter([1, 2, 3])

        def __iter__(self) -> Own:
            return self

        def __next__(self) -> int:
            return next(self.inner)

    cycle = itertools.cycle(Own())
    places = [iterators.place_of(cycle)]
    for _ in range(2):
        next(cycle)
        places.append(iterators.place_of(cycle))
    assert len({repr(place) for place in places}) == 3, places


def test_what_a_running_generator_draws_from_is_behind_it() -> None:
    """The run's own generator is under way while a step of it is watched."""
    reached: list[Any] = []

    def draws(source: Iterator[int]) -> Iterator[int]:
        for number in source:
            reached.extend(*map(iterators.behind, [[running]]))  # `map` is C's: the collector sees no local then
            yield number

    source = iter([1, 2])
    running = draws(source)
    next(running)
    assert any(value is source for value in reached)
