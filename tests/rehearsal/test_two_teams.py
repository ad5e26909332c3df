"""The story of two teams with jobs that take no time: who is started, preempted and started again, in which order."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hyperpod_ray_sandbox.kubernetes.kueue.cohorts import Workload
from hyperpod_ray_sandbox.rehearsal.report import RunReport
from hyperpod_ray_sandbox.rehearsal.two_teams import (
    INTERVAL,
    PREEMPT_AT,
    STEPS,
    Preempted,
    Report,
    Story,
    borrow,
    play,
    preempted,
    sentences,
)
from hyperpod_ray_training.history import Event


class Fake:
    """A job that makes a step whenever it is looked at; its checkpoints are INTERVAL steps apart."""

    def __init__(self, files: dict[str, int], name: str, running: set[str]) -> None:
        self.files, self.name, self.running = files, name, running
        self.at = files.get(name, 0) // INTERVAL * INTERVAL
        running.add(name)

    def step(self) -> int:
        self.at = self.files[self.name] = min(STEPS[self.name], self.at + 1) if self.name in self.running else self.at
        return self.at

    def done(self) -> bool:
        return self.step() >= STEPS[self.name]

    def preempt(self) -> None:
        self.running.discard(self.name)

    end = preempt


def test_a_borrows_is_preempted_and_resumes_when_b_has_ended() -> None:
    files: dict[str, int] = {}
    running: set[str] = set()
    begun: list[tuple[str, int, float]] = []
    said: list[str] = []

    def start(workload: Workload) -> Fake:
        made = Fake(files, workload.name, running)
        begun.append((workload.name, made.at, workload.asks["node"]))
        assert len(running) == 1, "two nodes: never both"
        return made

    def wait(ready: Callable[[], bool], what: str) -> None:
        assert any(ready() for _ in range(10 * STEPS["a"])), what

    story = Story(start=start, note=said.append)
    borrow(story)
    play(story, wait=wait)
    assert story.happened == [
        ("submitted", "a"), ("admitted", "a"), ("submitted", "b"), ("preempted", "a"), ("admitted", "b"), ("done", "b"),
        ("admitted", "a"), ("done", "a"),
    ]  # fmt: skip
    assert begun == [("a", 0, 2.0), ("b", 0, 1.0), ("a", PREEMPT_AT + 1, 2.0)], "from its last checkpoint"
    assert files == STEPS
    assert INTERVAL < PREEMPT_AT < 2 * INTERVAL, "between two checkpoints"
    assert running == set()
    assert "again" in said[6]


def event(kind: str, t: float, step: int | None = None, **values: object) -> Event:
    return Event(t=t, kind=kind, step=step, values=dict(values))


def events(*, notice: bool = True, restored: int | None = 4, last: int = 5) -> list[Event]:
    """A run whose pods get SIGTERM at 10: an interval's checkpoint before it, that of the notice after it."""
    found = [event("step", step / 4, step) for step in range(1, last + 1)]
    found += [event("save", 3.0, 2, reason="interval"), event("save", 10.5, 2, reason="interval")]
    if notice:
        found += [event("drain", 11.0, 4), event("save", 12.0, 4, reason="drain")]
    if restored is not None:
        found += [event("restore", 20.0, restored), event("step", 21.0, 19), event("save", 22.0, 19, reason="deadline")]
    return found


CASES: dict[str, tuple[list[Event], Preempted, bool]] = {
    "the notice is answered": (
        events(), Preempted(step=3, last_step=5, noticed=True, saved=(4,), checkpoint=4), True,
    ),
    "no time for it": (
        events(notice=False, restored=2), Preempted(step=3, last_step=5, noticed=False, saved=(), checkpoint=2), True,
    ),
    "an earlier notice": (
        [event("drain", 1.0, 1), event("save", 2.0, 1, reason="drain"), *events(notice=False, restored=2)],
        Preempted(step=3, last_step=5, noticed=False, saved=(), checkpoint=2),
        True,
    ),
    "an older one is taken": (
        events(restored=2), Preempted(step=3, last_step=5, noticed=True, saved=(4,), checkpoint=2), False,
    ),
    "it begins at the start": (
        events(restored=None), Preempted(step=3, last_step=5, noticed=True, saved=(4,), checkpoint=0), False,
    ),
    "it had ended before its pods went": (
        events(last=STEPS["a"]),
        Preempted(step=3, last_step=STEPS["a"], noticed=True, saved=(4,), checkpoint=4),
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_preemption_did(name: str) -> None:
    found, wanted, resumed = CASES[name]
    got = preempted(found, at=10.0, step=3)
    assert got == wanted
    assert got.resumed is resumed


def report(**changed: object) -> Report:
    run: dict[str, object] = {
        "name": "a", "status": "SUCCEEDED", "submissions": 2, "final_loss": 0.5, "undisturbed_loss": 0.5,
        "equal": True, "steps_compared": STEPS["a"] + 1, "steps_different": 0, "largest_difference": 0.0, "bound": "0",
    }  # fmt: skip
    one = preempted(events(restored=2 if changed.pop("older", False) else 4), at=10.0, step=3)
    return Report(happened=(), preempted=one, run=RunReport(**{**run, **changed}), log=())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "survived"),
    [
        ({}, True),
        ({"older": True}, False),
        ({"equal": False}, False),
        ({"steps_different": 1}, False),
        ({"steps_compared": STEPS["a"] - 1}, False),
        ({"status": "RUNNING"}, False),
    ],
)
def test_what_counts_as_survived(changed: dict[str, object], survived: bool) -> None:
    found = report(**changed)
    assert found.survived is survived
    assert json.loads(found.to_json())["survived"] is survived
    assert ("survived" in sentences(found)) is survived
