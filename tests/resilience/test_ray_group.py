"""What Ray's controller is shown of a poll, and which hooks of Ray are used."""

from __future__ import annotations

import threading
import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.train.v2._internal.exceptions import (
    UserExceptionWithTraceback,
    WorkerHealthCheckFailedError,
    WorkerHealthCheckTimeoutError,
)
from ray.train.v2._internal.execution.checkpoint.report_handler import ReportCallbackHandler
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.training_report import _TrainingReport
from ray.train.v2._internal.execution.worker_group import WorkerGroup
from ray.train.v2._internal.execution.worker_group.poll import WorkerStatus

from hyperpod_ray_training import InputError, Run, Settings
from hyperpod_ray_training import capacity as places
from hyperpod_ray_training.spares import ray_group
from hyperpod_ray_training.spares.member import Ended
from hyperpod_ray_training.spares.ray_group import SparesConfig, SurvivingWorkerGroup, is_death, judge, supported

DEATH = WorkerHealthCheckFailedError("gone", failure=ray.exceptions.ActorDiedError())
USER = UserExceptionWithTraceback(ValueError("mine"), "traceback")


def running(**fields: Any) -> WorkerStatus:
    return WorkerStatus(running=True, **fields)


def test_this_ray_has_every_hook() -> None:
    assert supported() is None
    assert SparesConfig().backend_cls.has_replica_groups
    assert TrainController.worker_group_cls is WorkerGroup


def test_a_ray_without_a_hook_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(TrainController, "worker_group_cls")
    assert f"Ray {ray.__version__} has no TrainController.worker_group_cls" in str(supported())


def test_deaths_and_errors_are_told_apart() -> None:
    assert is_death(DEATH)
    assert is_death(WorkerHealthCheckTimeoutError("60 s"))
    assert not is_death(USER)
    assert not is_death(WorkerHealthCheckFailedError("cannot be read", failure=ValueError("pickle")))


def test_an_error_of_user_code_is_everybody_s() -> None:
    statuses = judge([running(), running(error=USER), running(error=DEATH)])
    assert [status.error for status in statuses] == [USER, USER, DEATH]


def test_a_report_of_one_counts_for_all() -> None:
    statuses = judge([running(), running(training_report="report"), running(error=DEATH)], "report")
    assert [status.training_report for status in statuses] == ["report"] * 3
    assert [status.error for status in statuses] == [None, None, DEATH]


class Made(ray_group._Replacement):
    """A replacement without a process."""

    def __init__(self, poll: Poll, lost: int) -> None:
        self.poll = poll
        self.actor = self.metadata = self.worker = self.error = self.resources = None
        self.ended = threading.Event()
        self.lost = SimpleNamespace(placement_group_bundle_index=lost, distributed_context=lost)

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
            for one in self.group.replacements.values():
                if one.worker is not None:
                    assert one.ended.wait(60)
        return shown


def test_several_deaths_in_one_poll_do_not_reach_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(monkeypatch, size=6)
    lost = [1, 2, 4]
    for begun in ([], [], lost):  # the ranks recover first: a process that imports would be in their way
        poll.statuses = [running(error=DEATH if index in lost else None) for index in range(6)]
        shown = poll.poll()
        assert [status.error for status in shown] == [None] * 6
        assert [status.running for status in shown] == [True, False, False, True, False, True]
        assert poll.begun == begun


def test_a_replacement_that_has_no_place_holds_nobody_up_and_is_begun_once(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(monkeypatch, size=2)
    for _ in range(5):
        poll.statuses = [running(), running(error=DEATH)]
        assert [status.error for status in poll.poll()] == [None, None]
    assert poll.begun == [1]


def test_a_replacement_that_dies_while_it_starts_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(monkeypatch, size=2)
    poll.placed = poll.fails = True
    for _ in range(20):
        poll.statuses = [running(), running(error=DEATH)]
        assert [status.error for status in poll.poll()] == [None, None]
    assert len(poll.begun) >= 3
    assert not poll.taken_in
    poll.fails = False
    for _ in range(8):
        poll.statuses = [running(), running(error=DEATH)]
        poll.poll()
    assert poll.taken_in


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


def test_ray_hears_each_save_once_while_a_worker_is_being_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_s = Ray(Poll(monkeypatch, size=3))
    ray_s.look(running(training_report=saved("10")), running(), running())
    for name in ("20", "30"):
        ray_s.look(running(training_report=saved(name)), running(error=DEATH), running())
    ray_s.poll.placed = True
    for _ in range(3):  # it is taken in
        ray_s.look(running(), running(error=DEATH), running())
    assert ray_s.poll.taken_in == [1]
    ray_s.look(running(training_report=saved("40")), running(), running())
    assert ray_s.heard == ["10", "20", "30", "40"]


def test_two_saves_in_one_poll_are_heard_one_after_the_other_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_s = Ray(Poll(monkeypatch, size=3))
    # the first rank has changed hands between two saves, and the run ends
    ray_s.look(running(training_report=saved("10")), running(training_report=saved("20")), running())
    ray_s.poll.group.reports.append(saved("30"))
    for more in (True, False):
        done = [WorkerStatus(running=False, return_value=Ended(2, None)) for _ in range(2)]
        assert [one.running for one in ray_s.look(*done, running())] == [more] * 3
    assert ray_s.heard == ["10", "20", "30"]


def test_a_replacement_leaves_ray_s_reports_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    group = SurvivingWorkerGroup.__new__(SurvivingWorkerGroup)
    told: list[Any] = []
    other = SimpleNamespace(after_replica_group_start=told.append)
    group._replica_group_callbacks = [ReportCallbackHandler([]), other]
    group._worker_group_context = SimpleNamespace(resources_per_worker={}, train_fn_ref=None)
    monkeypatch.setattr(SurvivingWorkerGroup, "get_worker_group_state", lambda _: SimpleNamespace(sync_actor=None))
    monkeypatch.setattr(SurvivingWorkerGroup, "_init_train_context", lambda *_: None)
    monkeypatch.setattr(ray, "get", lambda refs: refs)
    actor = SimpleNamespace(run_train_fn=SimpleNamespace(remote=lambda _: "started"))
    group._starter()(SimpleNamespace(actor=actor))
    assert len(told) == 1


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
    # the second rank is lost after the last step: what returned is what the loop returned
    poll.statuses = [returned(7), running(error=DEATH), stood_by]
    assert [(status.running, status.return_value) for status in poll.poll()] == [
        (False, 7),
        (False, None),
        (False, None),
    ]


def test_an_elastic_run_starts_again_where_there_is_room_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(monkeypatch, size=1)
    room = [1]
    monkeypatch.setattr(ray_group, "placeable", lambda *_: room[0])
    monkeypatch.setattr(ray, "nodes", list)
    poll.group.wanted, poll.group._worker_group_context.num_workers = 2, 1
    for look_s, free, expected in [(None, 2, True), (0.0, 1, True), (1e9, 2, True), (0.0, 2, False)]:
        monkeypatch.setattr(SurvivingWorkerGroup, "look_s", look_s)
        room[0], poll.statuses = free, [running()]
        assert (poll.poll()[0].error is None) == expected


def test_all_dead_is_ray_s_to_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(monkeypatch, size=2)
    poll.statuses = [running(error=DEATH), running(error=DEATH)]
    assert [status.error for status in poll.poll()] == [DEATH, DEATH]
    assert poll.begun == []


# ---- places ----


def nodes(*cpus: int) -> list[dict[str, Any]]:
    return [{"Alive": True, "Resources": {"CPU": float(amount)}} for amount in cpus]


@pytest.mark.parametrize(("room", "expected"), [((2, 2), 2), ((2, 1), 1), ((2,), 0), ((1,), 0)])
def test_a_spare_without_a_place_is_done_without_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], room: tuple[int, ...], expected: int
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: nodes(*room))
    assert places.spares_with_room(workers=2, spares=2, resources={"CPU": 1}, wait_s=0) == expected
    assert ("spares: " in capsys.readouterr().err) == (expected < 2)


def test_a_restart_with_less_room_has_fewer_spares(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.train.v2._internal.execution.worker_group import WorkerGroupContext

    context = WorkerGroupContext(
        run_attempt_id="1", train_fn_ref=None, num_workers=4, resources_per_worker={"CPU": 1}, label_selector=[{}] * 4
    )
    monkeypatch.setattr(SurvivingWorkerGroup, "active", 2)
    group = SurvivingWorkerGroup.__new__(SurvivingWorkerGroup)
    for room, expected in [(9, 4), (3, 3), (1, 2)]:
        monkeypatch.setattr(ray, "nodes", lambda room=room: nodes(room))
        adjusted = group._with_room(context)
        assert adjusted.num_workers == expected
        assert len(adjusted.label_selector) == expected


@pytest.mark.parametrize(("workers", "spares"), [("1:2", 1), (2, -1)])
def test_wrong_spares_are_refused(tmp_path: Any, workers: Any, spares: int) -> None:
    run = Run(storage=str(tmp_path), name="run", settings=Settings())
    with pytest.raises(InputError, match=r"spares: .* Expected 0 or more, and 0 for an elastic size"):
        run.fit(lambda _: None, workers=workers, spares=spares)
