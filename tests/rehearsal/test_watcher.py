"""What the watcher notes of a head: a node that was alive and is dead, and a job's state when it changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.watcher import Watcher
from tests.support.emulator import until


class Head:
    """Answers as a dashboard does, one look after the other; the last answer stays."""

    def __init__(self, *looks: tuple[dict[str, str], tuple[str, str]]) -> None:
        self.looks = list(looks)
        self.asked: list[str] = []
        self.dashboard = self

    def nodes(self) -> dict[str, str]:
        return self.looks[0][0]

    def job(self, submission: str) -> tuple[str, str]:
        self.asked.append(submission)
        return self.looks.pop(0)[1] if len(self.looks) > 1 else self.looks[0][1]


@pytest.fixture
def watch() -> Iterator[Any]:
    """Start watchers that end with the test."""
    started: list[Watcher] = []

    def watching(head: Any, submission: str) -> Watcher:
        watcher = Watcher(head)
        watcher.follow(submission)
        watcher.start()
        started.append(watcher)
        return watcher

    yield watching
    for watcher in started:
        watcher.ended.set()
        watcher.join(120)


def test_a_node_dies_once_and_one_that_was_dead_before_does_not(watch: Any) -> None:
    alive, dead = {"127.0.0.2": "ALIVE", "127.0.0.3": "DEAD"}, {"127.0.0.2": "DEAD", "127.0.0.3": "DEAD"}
    running = ("RUNNING", "")
    head = Head((alive, running), (dead, running), (dead, running))
    watcher = watch(head, "first")
    until(lambda: len(head.asked) > 4)
    assert [observed.what for observed in watcher.seen] == ["Ray's head: node dead"]


def test_a_head_that_answers_nothing_for_a_while_loses_no_node(watch: Any) -> None:
    """A dead head lists no node: what was alive before is compared with the first answer after it."""
    nodes, gone = {"127.0.0.2": "ALIVE"}, {"127.0.0.2": "DEAD"}
    head = Head((nodes, ("RUNNING", "")), ({}, ("UNREACHABLE", "")), (gone, ("RUNNING", "")))
    watcher = watch(head, "first")
    until(lambda: len(head.asked) > 4)
    assert [observed.what for observed in watcher.seen] == ["Jobs API: unreachable", "Ray's head: node dead"]


def test_a_failure_is_noted_when_it_begins_and_the_next_job_starts_anew(watch: Any) -> None:
    head = Head(({}, ("RUNNING", "")), ({}, ("FAILED", "exit 1")))
    watcher = watch(head, "first")
    until(lambda: len(head.asked) > 4)
    assert [observed.what for observed in watcher.seen] == ["Jobs API: failed"]
    assert (watcher.status, watcher.message) == ("FAILED", "exit 1")
    watcher.follow("second")
    until(lambda: head.asked[-1] == "second")
    assert watcher.submission == "second"
