"""Saves after seconds: the ranks turn them into steps and always save at the same ones. Needs neither torch nor ray."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread

import pytest

from hyperpod_ray_training.interval import MEASURED_STEPS, WARM_STEPS, SaveClock
from hyperpod_ray_training.settings import Settings


def alone(*, every_s: float, step_s: Callable[[int], float], steps: int, begin: int = 0) -> list[int]:
    now = [0.0]
    clock = SaveClock(every_steps=50, every_s=every_s, agree=lambda value: [value], clock=lambda: now[0])
    clock.begin(begin)
    found = []
    for step in range(begin + 1, begin + steps + 1):
        now[0] += step_s(step)
        if clock.due(step):
            found.append(step)
    return found


def test_without_seconds_the_steps_hold() -> None:
    assert alone(every_s=0, step_s=lambda _: 1, steps=160) == [50, 100, 150]


@pytest.mark.parametrize(("every", "step", "expected"), [(600, 10, [60, 120, 180]), (3600, 79, [46, 92, 138, 184])])
def test_seconds_become_steps(every: float, step: float, expected: list[int]) -> None:
    assert alone(every_s=every, step_s=lambda _: step, steps=190) == expected


def test_it_counts_from_where_the_run_resumed() -> None:
    assert alone(every_s=600, step_s=lambda _: 10, steps=70, begin=1234) == [1294]


def test_slow_first_steps_do_not_count() -> None:
    found = alone(every_s=600, step_s=lambda step: 500 if step <= WARM_STEPS else 10, steps=70)
    assert found == [60]


def test_steps_longer_than_the_interval_save_at_each_one_once_measured() -> None:
    found = alone(every_s=5, step_s=lambda _: 10, steps=14)
    assert found == list(range(WARM_STEPS + MEASURED_STEPS + 1, 15))


def test_it_follows_steps_that_become_slower() -> None:
    found = alone(every_s=600, step_s=lambda step: 10 if step <= 60 else 20, steps=160)
    assert found[:2] == [60, 120]
    assert found[2] == 150


def test_ranks_with_clocks_of_their_own_save_at_the_same_steps() -> None:
    ranks, values, barrier = 3, [0.0, 0.0, 0.0], Barrier(3, timeout=900)
    saved: list[list[int]] = [[] for _ in range(ranks)]

    def run(rank: int) -> None:
        def agree(value: float) -> list[float]:
            values[rank] = value
            barrier.wait()
            largest = max(values)
            barrier.wait()
            return [largest]

        now = [100.0 * rank]
        clock = SaveClock(every_steps=50, every_s=300, agree=agree, clock=lambda: now[0])
        for step in range(1, 120):
            now[0] += 10 + rank * (step % 3)
            if clock.due(step):
                saved[rank].append(step)

    threads = [Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert saved[0] == saved[1] == saved[2]
    assert saved[0][0] == 24  # the slowest rank took 12.4 s for each measured step


def test_the_variable_reaches_the_settings() -> None:
    assert Settings.from_env({"RESILIENCE_SAVE_EVERY_S": "4646"}).save_every_s == 4646
