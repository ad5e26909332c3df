from __future__ import annotations

from types import SimpleNamespace

import pytest
import ray
from ray.train.v2._internal.exceptions import (
    WorkerHealthCheckFailedError,
)
from ray.train.v2._internal.execution.worker_group.poll import WorkerStatus

from hyperpod_ray_training.spares.member import Ended
from tests.resilience.ray_group_helpers import Poll, Ray, running, saved

DEATH = WorkerHealthCheckFailedError("gone", failure=ray.exceptions.ActorDiedError())


def test_a_process_that_imports_for_long_holds_up_neither_a_poll_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(monkeypatch, size=3)
    poll.placed = True
    poll.free.clear()
    for _ in range(5):
        poll.statuses = [running(), running(), running(error=DEATH)]
        assert [status.running for status in poll.poll()] == [True, True, False]
    assert (poll.begun, poll.taken_in) == ([2], [])
    done = [WorkerStatus(running=False, return_value=Ended(2, None)) for _ in range(2)]
    poll.statuses = [*done, running(error=DEATH)]
    assert [(status.running, status.error) for status in poll.poll()] == [(False, None)] * 3
    poll.free.set()
    for _ in range(3):
        poll.statuses = [running(), running(), running(error=DEATH)]
        poll.poll()
    assert poll.taken_in == [2]


def test_two_saves_in_one_poll_are_heard_one_after_the_other_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_s = Ray(Poll(monkeypatch, size=3))
    # the first rank has changed hands between two saves, and the run ends
    ray_s.look(running(training_report=saved("10")), running(training_report=saved("20")), running())
    ray_s.poll.group.reports.append(saved("30"))
    for more in (True, False):
        done = [WorkerStatus(running=False, return_value=Ended(2, None)) for _ in range(2)]
        assert [one.running for one in ray_s.look(*done, running())] == [more] * 3
    assert ray_s.heard == ["10", "20", "30"]


def test_the_end_waits_for_every_rank_and_for_no_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(monkeypatch, size=3)
    stood_by = WorkerStatus(running=False, return_value=Ended())

    def returned(value: int, world: int = 2) -> WorkerStatus:
        return WorkerStatus(running=False, return_value=Ended(world, value))

    # a rank with a report that Ray has not taken yet still runs
    poll.statuses = [running(training_report="last"), returned(8), stood_by]
    assert [status.running for status in poll.poll()] == [True, False, False]
    poll.statuses = [returned(7), returned(8), running()]
    assert [(status.running, status.return_value) for status in poll.poll()] == [(False, 7)] * 3
    # of an elastic run with one rank left
    poll.statuses = [returned(5, 1), running(error=DEATH), running()]
    assert [(status.running, status.return_value) for status in poll.poll()] == [(False, 5)] * 3
    # the second rank is lost after the end of its script: what returned is what the loop returned
    poll.group.coordinator = SimpleNamespace(finished=SimpleNamespace(remote=lambda: "answer"))
    monkeypatch.setattr(ray, "wait", lambda refs, timeout: (refs, []))
    monkeypatch.setattr(ray, "get", lambda _: True)
    poll.statuses = [returned(7), running(error=DEATH), stood_by]
    assert [(status.running, status.return_value) for status in poll.poll()] == [(False, 7)] * 3
