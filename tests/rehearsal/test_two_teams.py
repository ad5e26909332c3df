"""The story of two teams with jobs that take no time: who is started, preempted and started again, in which order."""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.admission import Workload
from rehearsal.events import Event
from rehearsal.two_teams import INTERVAL, PREEMPT_AT, STEPS, Story, compared, play


class Fake:
    """A job that makes a step whenever it is looked at; its checkpoints are INTERVAL steps apart."""

    def __init__(self, files: dict[str, int], name: str, running: set[str]) -> None:
        self.files, self.name, self.running = files, name, running
        self.at = files.get(name, 0) // INTERVAL * INTERVAL
        running.add(name)

    def step(self) -> int:
        self.at = self.files[self.name] = min(STEPS, self.at + 1) if self.name in self.running else self.at
        return self.at

    def done(self) -> bool:
        return self.step() >= STEPS

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
        assert any(ready() for _ in range(10 * STEPS)), what

    story = Story(start=start, note=said.append)
    play(story, wait=wait)
    assert story.happened == [
        ("submitted", "a"), ("admitted", "a"), ("submitted", "b"), ("preempted", "a"), ("admitted", "b"), ("done", "b"),
        ("admitted", "a"), ("done", "a"),
    ]  # fmt: skip
    assert begun == [("a", 0, 2.0), ("b", 0, 1.0), ("a", INTERVAL, 2.0)], "A goes on from its last checkpoint"
    assert files == {"a": STEPS, "b": STEPS}
    assert INTERVAL < PREEMPT_AT < 2 * INTERVAL, "between two checkpoints"
    assert running == set()
    assert "again" in said[6]


def test_a_loss_counts_by_its_last_bit() -> None:
    def step(number: int, loss: float) -> Event:
        return Event(t=0.0, kind="step", step=number, values={"loss": loss})

    truth = [step(1, 0.5), step(2, 0.25)]
    assert compared([step(1, 0.5), step(2, 0.3), step(2, 0.25)], truth) == (2, 2), "the last time a step was made"
    assert compared([step(1, 0.5)], truth) == (1, 2)
    assert compared([step(1, 0.5000000001), step(2, 0.25)], truth) == (1, 2)
