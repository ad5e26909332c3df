"""Hangs in long steps: loops of many kinds, whose pace is measured by the library and judged by `status`, both ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hyperpod_ray.ops.in_ray.history import History
from hyperpod_ray.ops.journal.run import run_of
from hyperpod_ray.ops.verdict import Verdict, judge
from hyperpod_ray_training.pace import Pace, Parts
from tests.ops.snapshots import JOB, healthy, said

START = 1_000_000.0
Marks = Iterator[tuple[float, str]]
"""Seconds since the mark before, and what ended: a part or a step."""


def micro_batches(count: int, seconds: float, *, jitter: float = 0.2) -> Marks:
    """Each part takes its time, more or less."""
    rng = random.Random(count)
    while True:
        for number in range(count):
            yield seconds * rng.uniform(1 - jitter, 1 + jitter), "step" if number == count - 1 else "part"


def ahead_of_the_device(count: int, seconds: float) -> Marks:
    """The loop queues all parts at once, and waits for the device at the end of the step."""
    while True:
        for _ in range(count - 1):
            yield 0.005, "part"
        yield seconds, "step"


def with_validations(count: int, seconds: float, *, every: int, takes: float) -> Marks:
    """After so many steps something takes long that the loop does not declare."""
    steps = 0
    for gap, kind in micro_batches(count, seconds):
        steps += kind == "step"
        yield gap + (takes if kind == "step" and steps % every == 0 else 0.0), kind


def single(seconds: float) -> Marks:
    """A loop without parts."""
    while True:
        yield seconds, "step"


class Loop:
    """A run whose journal is what the library writes of these marks."""

    def __init__(self, marks: Marks, before: dict[str, Any] | None = None) -> None:
        self.marks, self.now = marks, START
        self.pace, self.parts = Pace(before), Parts()
        self.fields: dict[str, Any] = {
            **(before or {}), "name": "first", "state": "running", "state_t": START - 60, "begun_t": START - 60,
            "last_step": 0, "last_part_t": None, **self.parts.fields(),
        }  # fmt: skip

    def until(self, steps: int) -> Iterator[tuple[float, float]]:
        """Run so many steps: moments of a mark and the next one."""
        while self.fields["last_step"] < steps:
            gap, kind = next(self.marks)
            before, self.now = self.now, self.now + gap
            yield before, self.now
            if kind == "part":
                self.parts.noted(self.now)
                self.fields["last_part_t"] = self.now
                continue
            self.pace.stepped(self.now)
            self.parts.stepped(self.now)
            self.fields |= {"last_step": self.fields["last_step"] + 1, "last_step_t": self.now}
            self.fields |= self.pace.fields() | self.parts.fields()

    def hangs_after(self, seconds: float) -> str:
        """What `status` says so long after the last mark; empty where it says no hang."""
        verdict = self.judged(seconds)
        return said(verdict) if "hangs" in said(verdict) else ""

    def judged(self, seconds: float) -> Verdict:
        """What `status` judges so long after the last mark."""
        at = datetime.fromtimestamp(self.now + seconds, UTC)
        run = run_of(self.fields, History(), name="first", at=at, job=JOB.id, cluster="ray", namespace="ray")
        seen = replace(healthy(), at=at, jobs=(replace(JOB, run="first", started=datetime.fromtimestamp(START, UTC)),))
        return judge(replace(seen, runs=(run,)))


HEALTHY = {
    "16 micro-batches of 4 s": lambda: micro_batches(16, 4),
    "8 of 20 s, uneven": lambda: micro_batches(8, 20, jitter=0.5),
    "2 of 40 s": lambda: micro_batches(2, 40),
    "ahead of the device, 60 s": lambda: ahead_of_the_device(16, 60),
    "ahead of the device, 300 s": lambda: ahead_of_the_device(4, 300),
    "no parts, 60 s": lambda: single(60),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_loop_that_goes_on_never_hangs(name: str) -> None:
    """At the last moment before each mark, from the fourth step on: the first ones have no history."""
    loop = Loop(HEALTHY[name]())
    for _ in loop.until(3):
        pass
    for before, after in loop.until(60):
        loop.now = before
        assert not loop.hangs_after(after - before - 0.01), f"{name}: {loop.fields}"
        loop.now = after


def test_a_pause_that_repeats_is_no_hang() -> None:
    loop = Loop(with_validations(8, 8, every=5, takes=100))
    for _ in loop.until(11):  # twice
        pass
    for before, after in loop.until(60):
        loop.now = before
        assert not loop.hangs_after(after - before - 0.01)
        loop.now = after


@pytest.mark.parametrize(
    ("marks", "limit"),
    [
        (lambda: micro_batches(16, 4, jitter=0), 45),
        (lambda: micro_batches(16, 22, jitter=0), 45),
        (lambda: micro_batches(2, 30, jitter=0), 60),
        (lambda: ahead_of_the_device(16, 60), 90),
        (lambda: single(60), 120),
        (lambda: single(352), 704),
    ],
)
@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_hang_shows_by_the_pace_of_the_parts(marks: Callable[[], Marks], limit: float, more: int) -> None:
    """Steps of 64 and 352 s with parts show within the minute, wherever in a step it happens."""
    loop = Loop(marks())
    for _ in loop.until(10):
        pass
    going = loop.until(20)
    for _ in range(more):
        next(going)
    if more:
        loop.now, _ = next(going)  # what has begun never ends
    assert not loop.hangs_after(limit - 1)
    assert loop.hangs_after(limit + 1)


def test_what_hangs_is_named() -> None:
    loop = Loop(micro_batches(16, 4, jitter=0))
    for _ in loop.until(10):
        pass
    assert "hangs: no part of a step for 50 s after step 10, usually one in 4 s" in loop.hangs_after(50)


def test_the_age_is_that_of_the_part_and_not_of_the_step() -> None:
    loop = Loop(micro_batches(16, 4, jitter=0))
    for _ in loop.until(10):
        pass
    going = loop.until(20)
    for _ in range(6):
        next(going)
    loop.now, _ = next(going)
    assert "no part of a step for 50 s after step 10" in loop.hangs_after(50), "the step began 24 s before that"
    assert loop.judged(50).findings[0].since == datetime.fromtimestamp(loop.now, UTC)


def test_a_run_that_has_noted_no_part_yet_is_judged_by_its_steps() -> None:
    loop = Loop(micro_batches(16, 4, jitter=0))
    for _ in loop.until(10):
        pass
    loop.fields["last_part_t"] = None
    assert not loop.hangs_after(100)
    assert "no step" in loop.hangs_after(1000)


def test_another_loop_without_parts_is_not_judged_by_the_parts_of_the_one_before() -> None:
    first = Loop(micro_batches(16, 4))
    for _ in first.until(10):
        pass
    assert first.fields["part_s"]
    again = Loop(single(64), before=first.fields)
    for _ in again.until(3):
        assert not again.hangs_after(60)
    assert again.fields["part_s"] is None
    # within an attempt: a step without parts ends their rule at once
    first.marks = single(64)
    for _ in first.until(11):
        pass
    assert not first.hangs_after(100)


def test_a_pause_on_purpose_is_no_gap() -> None:
    parts = Parts()
    for number in range(12):
        (parts.stepped if number % 4 == 3 else parts.noted)(10.0 * number)
    parts.pace.left()
    parts.noted(1000.0)
    assert parts.fields() == {"part_s": 10.0, "part_pauses_s": [10.0] * 8}
