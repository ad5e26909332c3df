"""What tests of `member`, `ray_group` share."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.train.v2._internal.execution.checkpoint.report_handler import ReportCallbackHandler
from ray.train.v2._internal.execution.training_report import _TrainingReport
from ray.train.v2._internal.execution.worker_group import WorkerGroup
from ray.train.v2._internal.execution.worker_group.poll import WorkerStatus

from hyperpod_ray_training.spares import ray_group
from hyperpod_ray_training.spares.ray_group import SurvivingWorkerGroup


def running(**fields: Any) -> WorkerStatus:
    return WorkerStatus(running=True, **fields)


class Made(ray_group._Replacement):
    """A replacement without a process."""

    def __init__(self, poll: Poll, lost: int) -> None:
        self.poll = poll
        self.actor = self.metadata = self.worker = self.error = None
        self.resources = {}
        self.ended = threading.Event()
        self.model = SimpleNamespace(placement_group_bundle_index=lost, distributed_context=lost)

    @property
    def placed(self) -> bool:
        return self.poll.placed

    def cancel(self) -> None:
        """Nothing runs."""


class Poll:
    """A group whose poll is made up, and whose replacements are watched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
        self.group = SurvivingWorkerGroup.__new__(SurvivingWorkerGroup)
        self.group.replacements, self.group.polls_to_wait, self.group.reports = {}, {}, deque()
        self.group.wanted, self.group.looked = size, time.monotonic()
        self.group.standbys, self.group.questions, self.group.unanswered = {}, {}, Counter()
        self.group.polls, self.group.trains, self.group.finished = 0, None, None
        self.group._worker_group_context = SimpleNamespace(num_workers=size, resources_per_worker={"CPU": 1})
        self.statuses = [running() for _ in range(size)]
        self.begun: list[int] = []
        self.taken_in: list[int] = []
        self.placed = False
        self.fails = False
        self.free = threading.Event()
        self.free.set()
        monkeypatch.setattr(WorkerGroup, "_poll_workers_and_collect_errors", lambda *_: self.statuses)
        monkeypatch.setattr(WorkerGroup, "get_workers", lambda _: list(range(size)))
        monkeypatch.setattr(ray_group, "_Replacement", self.replacement)
        monkeypatch.setattr(SurvivingWorkerGroup, "_starter", lambda _: self.start)
        monkeypatch.setattr(SurvivingWorkerGroup, "_take_in", lambda _, index, *__: self.taken_in.append(index))
        monkeypatch.setattr(ray, "get", lambda *_: None)

    def replacement(self, group: Any, lost: int) -> Any:
        self.begun.append(lost)
        return Made(self, lost)

    def start(self, _: Any) -> None:
        """What a new process is sent; it takes until `free` to read it."""
        assert self.free.wait(60)
        if self.fails:
            raise ray.exceptions.ActorDiedError

    def poll(self) -> list[WorkerStatus]:
        shown = self.group._poll_workers_and_collect_errors(0.1)
        if self.free.is_set():
            for replacement in self.group.replacements.values():
                if replacement.worker is not None:
                    assert replacement.ended.wait(60)
        return shown


def saved(name: str) -> _TrainingReport:
    return _TrainingReport(checkpoint=SimpleNamespace(path=name), metrics={}, validation=False)


class Ray:
    """Ray's own collector of reports, fed with what a poll shows."""

    def __init__(self, poll: Poll) -> None:
        self.poll, self.heard = poll, list[str]()
        self.handler = ReportCallbackHandler([self])
        self.handler.after_worker_group_start(poll.statuses)

    def after_report(self, training_report: _TrainingReport, metrics: Any) -> None:
        self.heard.append(training_report.checkpoint.path)

    def look(self, *statuses: WorkerStatus) -> list[WorkerStatus]:
        self.poll.statuses = list(statuses)
        shown = self.poll.poll()
        self.handler.after_worker_group_poll_status(SimpleNamespace(worker_statuses=shown))
        return shown
