"""What Ray's controller is shown of a poll, and which hooks of Ray are used."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.train.v2._internal.callbacks import WorkingDirectorySetupCallback
from ray.train.v2._internal.callbacks import datasets as ray_datasets
from ray.train.v2._internal.exceptions import (
    UserExceptionWithTraceback,
    WorkerHealthCheckFailedError,
    WorkerHealthCheckTimeoutError,
)
from ray.train.v2._internal.execution.checkpoint.report_handler import ReportCallbackHandler
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.worker_group import WorkerGroup
from ray.train.v2._internal.execution.worker_group.poll import WorkerStatus
from ray.train.v2._internal.execution.worker_group.worker import ActorMetadata, Worker

from hyperpod_ray_training import InputError, Run, Settings
from hyperpod_ray_training import capacity as places
from hyperpod_ray_training.spares import ray_group
from hyperpod_ray_training.spares import seat as seats
from hyperpod_ray_training.spares.member import Ended
from hyperpod_ray_training.spares.ray_group import SparesConfig, SurvivingWorkerGroup, is_death, judge, supported
from tests.resilience.ray_group_helpers import Poll, Ray, running, saved

DEATH = WorkerHealthCheckFailedError("gone", failure=ray.exceptions.ActorDiedError())
USER = UserExceptionWithTraceback(ValueError("mine"), "traceback")


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


def test_a_replacement_leaves_ray_s_reports_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    group = SurvivingWorkerGroup.__new__(SurvivingWorkerGroup)
    told: list[Any] = []
    other = SimpleNamespace(after_replica_group_start=told.append)
    group._replica_group_callbacks = [ReportCallbackHandler([]), other]
    group._worker_group_context = SimpleNamespace(resources_per_worker={}, train_fn_ref=None)
    monkeypatch.setattr(SurvivingWorkerGroup, "get_worker_group_state", lambda _: SimpleNamespace(sync_actor=None))
    monkeypatch.setattr(SurvivingWorkerGroup, "_init_train_context", lambda *_: None)
    monkeypatch.setattr(ray, "get", lambda refs: refs)
    monkeypatch.setattr(SurvivingWorkerGroup, "get_workers", lambda _: [])
    actor = SimpleNamespace(run_train_fn=SimpleNamespace(remote=lambda _: "started"))
    prepared: list[Any] = []

    def execute(prepare: Any, visible: Any) -> None:
        prepared.append((prepare, visible))

    for standby in (False, True):
        group._starter(standby=standby)(SimpleNamespace(actor=actor, execute_async=execute, metadata=None))
    assert len(told) == 2
    assert prepared == [(seats.see, None), (seats.stand_by, None)]


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


def returned(world: int) -> WorkerStatus:
    """A worker whose loop returned None in a world of so many ranks; 0: it had no rank when the run ended."""
    return WorkerStatus(running=False, return_value=Ended(world, None))


def all_ended(monkeypatch: pytest.MonkeyPatch, poll: Poll, answer: Any) -> list[bool]:
    """Let the coordinator say whether all ranks came to the end of their scripts; how often it was asked."""
    asked: list[bool] = []

    def ask() -> str:
        asked.append(True)
        return "answer"

    def get(_: Any) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    poll.group.coordinator = SimpleNamespace(finished=SimpleNamespace(remote=ask))
    monkeypatch.setattr(ray, "wait", lambda refs, timeout: (refs, []))
    monkeypatch.setattr(ray, "get", get)
    return asked


@pytest.mark.parametrize(
    "others",
    [
        [WorkerStatus(running=False, error=DEATH), returned(0)],
        [WorkerStatus(running=True, error=DEATH), WorkerStatus(running=False, error=DEATH)],
        [returned(0), returned(0)],
        [returned(2), running()],
    ],
    ids=["the spare ended", "its health check hangs", "its successor ended at once", "the spare imports"],
)
def test_a_run_ends_though_a_rank_is_lost_after_its_last_step(
    monkeypatch: pytest.MonkeyPatch, others: list[WorkerStatus]
) -> None:
    poll = Poll(monkeypatch, size=3)
    all_ended(monkeypatch, poll, True)
    poll.statuses = [returned(2), *others]
    assert [(status.running, status.error) for status in poll.poll()] == [(False, None)] * 3
    assert poll.begun == []


def test_a_run_ends_though_all_its_ranks_were_lost_after_their_script_s_end(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Poll(monkeypatch, size=2)
    all_ended(monkeypatch, poll, True)
    poll.statuses = [returned(0), returned(0)]
    assert [(status.running, status.error) for status in poll.poll()] == [(False, None)] * 2


@pytest.mark.parametrize("answer", [False, ray.exceptions.ActorDiedError()], ids=["it knows", "it is gone"])
def test_ray_starts_all_again_where_a_rank_was_lost_before_the_end_of_its_script(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    poll = Poll(monkeypatch, size=3)
    asked = all_ended(monkeypatch, poll, answer)
    ready: list[bool] = [False, False, True]
    monkeypatch.setattr(ray, "wait", lambda refs, timeout: (refs if ready.pop(0) else [], []))
    for expected in (False, False, True):
        value = WorkerStatus(running=False, return_value=Ended(2, "what the loop returned"))
        poll.statuses = [value, WorkerStatus(running=False, error=DEATH), returned(0)]
        shown = poll.poll()
        assert [is_death(status.error) if status.error else None for status in shown] == [expected or None] * 3
        assert any(status.running for status in shown) != expected
    assert (poll.begun, asked) == ([], [True])


def test_a_run_that_is_over_waits_for_a_rank_that_still_works_and_replaces_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poll = Poll(monkeypatch, size=4)
    for _ in range(5):
        poll.statuses = [returned(3), WorkerStatus(running=False, error=DEATH), running(), returned(0)]
        assert [status.running for status in poll.poll()] == [False, False, True, False]
    assert poll.begun == []


# ---- standbys ----


STANDBY = ray_group._Standby


class Answer:
    """A coordinator that gives one answer after another, at once."""

    def __init__(self, *answers: Any, trains: bool = False) -> None:
        self.answers, self.asked = list(answers), list[tuple[Any, ...]]()
        self.successor = SimpleNamespace(remote=self.remote)
        self.trains = SimpleNamespace(remote=lambda: trains)

    def remote(self, *question: Any) -> Any:
        self.asked.append(question)
        return self.answers.pop(0)


def beside(pid: int, *, lives: bool = True) -> Any:
    """A standby whose process runs the loop."""
    standby = STANDBY.__new__(STANDBY)
    standby.ended, standby.error = threading.Event(), None if lives else ray.exceptions.ActorDiedError()
    standby.ended.set()
    standby.answer = standby.actor = None
    metadata = ActorMetadata(hostname="h", node_id="node", node_ip="ip", pid=pid, accelerator_ids={"GPU": []})
    standby.worker = Worker(actor=pid, metadata=metadata, resources={})
    return standby


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Poll:
    """A group of two workers on one node, with a standby there."""
    poll = Poll(monkeypatch, size=2)
    metadata = ActorMetadata(hostname="h", node_id="node", node_ip="ip", pid=7, accelerator_ids={"GPU": ["3"]})
    lost = Worker(
        actor=None, metadata=metadata, resources={"GPU": 1}, placement_group_bundle_index=5,
        distributed_context=SimpleNamespace(local_rank=3),
    )  # fmt: skip
    monkeypatch.setattr(WorkerGroup, "get_workers", lambda _: [lost, lost])
    monkeypatch.setattr(SurvivingWorkerGroup, "standby_workers", 1)
    monkeypatch.setattr(ray, "wait", lambda refs, timeout: (refs, []))
    monkeypatch.setattr(ray, "get", lambda ref: ref)
    poll.group.standbys["node", 0] = beside(42)
    return poll


def look(poll: Poll, times: int) -> list[WorkerStatus]:
    for _ in range(times):
        poll.statuses = [running(), running(error=DEATH)]
        shown = poll.poll()
    return shown


def test_the_process_that_has_the_seat_becomes_the_worker_and_nothing_is_placed(
    monkeypatch: pytest.MonkeyPatch, kept: Poll
) -> None:
    workers: list[Any] = []
    monkeypatch.setattr(
        SurvivingWorkerGroup, "_take_in", lambda _, index, lost, worker: workers.append((index, worker))
    )
    kept.group.coordinator = answer = Answer(-1, 42)
    look(kept, 3)
    assert answer.asked == [("ip", 7, False)]
    assert not workers, "the coordinator does not know yet"
    look(kept, 3)
    ((index, worker),) = workers
    assert (index, worker.actor, worker.metadata.pid) == (1, 42, 42)
    assert worker.metadata.accelerator_ids == {"GPU": ["3"]}
    assert (worker.placement_group_bundle_index, worker.resources, worker.distributed_context.local_rank) == (
        5, {"GPU": 1}, 3,
    )  # fmt: skip
    assert kept.begun == []
    assert kept.group.standbys == {}, "the node gets another one"


def test_a_seat_that_nobody_takes_is_ray_s_to_fill_and_nobody_is_asked_twice_at_once(kept: Poll) -> None:
    kept.group.coordinator = answer = Answer(0)
    look(kept, 8)
    assert len(kept.begun) == 1
    assert len(answer.asked) == 1


def test_without_a_standby_on_the_node_the_coordinator_is_not_waited_for(kept: Poll) -> None:
    kept.group.standbys.clear()
    kept.group.coordinator = answer = Answer(0)
    look(kept, 5)
    assert answer.asked[0] == ("ip", 7, True)
    assert len(kept.begun) == 1


def test_a_standby_that_imports_for_ever_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch, kept: Poll) -> None:
    monkeypatch.setattr(ray_group, "_WAITS_FOR_STANDBY_POLLS", 3)
    kept.group.coordinator = answer = Answer(-1, -1, -1, 0)
    look(kept, 12)
    assert [final for *_, final in answer.asked] == [False, False, False, True]
    assert len(kept.begun) == 1


def test_the_loss_of_all_is_not_the_end_while_a_standby_is_there(kept: Poll) -> None:
    kept.group.coordinator = Answer(-1, -1)
    kept.statuses = [running(error=DEATH), running(error=DEATH)]
    shown = kept.poll()
    assert [(status.running, status.error) for status in shown] == [(True, None), (False, None)]


def test_an_error_of_user_code_reaches_ray_while_a_standby_is_there(kept: Poll) -> None:
    kept.statuses = [running(), WorkerStatus(running=False, error=USER)]
    assert [status.error for status in kept.poll()] == [USER, USER]
    kept.statuses = [returned(2), WorkerStatus(running=False, error=USER)]
    assert [status.error for status in kept.poll()] == [USER, USER], "after the loop, too"
    kept.statuses = [running(error=DEATH), WorkerStatus(running=False, error=USER)]
    assert [status.error for status in kept.poll()] == [DEATH, USER]
    assert kept.begun == []
    assert list(kept.group.standbys) == [("node", 0)]


def test_a_coordinator_that_is_gone_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, kept: Poll) -> None:
    def gone(ref: Any) -> Any:
        raise ray.exceptions.ActorDiedError

    monkeypatch.setattr(ray, "get", gone)
    kept.group.coordinator = Answer(*range(20))
    assert [status.error for status in look(kept, 8)] == [None, None]


@pytest.mark.parametrize(
    ("lives", "trains", "kept_one"), [(True, True, True), (False, True, False), (False, False, True)]
)
def test_a_standby_that_has_ended_is_replaced_from_the_first_steps_on(
    monkeypatch: pytest.MonkeyPatch, kept: Poll, lives: bool, trains: bool, kept_one: bool
) -> None:
    started: list[Any] = []

    def start(group: Any, worker: Any) -> Any:
        started.append(worker)
        return beside(43)

    standby = kept.group.standbys["node", 0] = beside(42, lives=lives)
    standby.cancel = lambda: None
    standby.actor = SimpleNamespace(get_metadata=SimpleNamespace(remote=lambda: None))
    monkeypatch.setattr(ray_group, "_Standby", start)
    monkeypatch.setattr(ray, "nodes", lambda: [{"NodeID": "node", "Alive": True}])
    kept.group.coordinator = Answer(trains=trains)
    for _ in range(ray_group._STANDBY_POLLS):
        kept.statuses = [running(), running()]
        kept.poll()
    assert (kept.group.standbys["node", 0] is standby) == kept_one
    assert len(started) == (0 if kept_one else 1)


@pytest.mark.parametrize(
    ("number", "there", "looks"),
    [
        (0, True, 8), (1, False, 8), (64, False, 8),  # on their way: each poll
        (1, True, 2), (65, False, 2),  # complete, or too many to ask each time
    ],
)  # fmt: skip
def test_standbys_on_their_way_are_looked_at_in_each_poll(
    monkeypatch: pytest.MonkeyPatch, kept: Poll, number: int, there: bool, looks: int
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(kept.group, "_complete_standbys", lambda: looked.append(1))
    kept.group.standbys.clear()
    for index in range(number):
        kept.group.standbys["node", index] = beside(42 + index)
        if not there:
            kept.group.standbys["node", index].worker = None
    kept.group.coordinator = Answer(trains=True)
    for _ in range(8):
        kept.statuses = [running(), running()]
        kept.poll()
    assert len(looked) == looks


def test_ray_is_asked_once_for_its_nodes_whatever_their_number(monkeypatch: pytest.MonkeyPatch, kept: Poll) -> None:
    asked: list[int] = []
    started: list[str] = []

    def nodes() -> list[dict[str, Any]]:
        asked.append(1)
        return [{"NodeID": "a", "Alive": True}, {"NodeID": "b", "Alive": False}]

    def start(_: Any, worker: Any) -> Any:
        started.append(worker.metadata.node_id)
        return beside(42)

    monkeypatch.setattr(ray, "nodes", nodes)
    workers = [SimpleNamespace(metadata=SimpleNamespace(node_id=name)) for name in ("a", "b", "c")]
    monkeypatch.setattr(kept.group, "get_workers", lambda: workers)
    monkeypatch.setattr(ray_group, "_Standby", start)
    kept.group.standbys.clear()
    kept.group._complete_standbys()
    assert (len(asked), started) == (1, ["a"])


def test_local_ranks_are_those_of_the_node_though_each_worker_is_a_replica_for_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(WorkerGroup, "_create_workers", lambda _, *rest, **options: asked.update(options) or [])
    SurvivingWorkerGroup.__new__(SurvivingWorkerGroup)._create_workers(2, None, {}, replica_group_size=1)
    assert asked["replica_group_size"] is None


def test_a_new_process_sees_what_the_workers_of_its_node_see(monkeypatch: pytest.MonkeyPatch) -> None:
    def worker(node: str, answer: Any) -> Any:
        return SimpleNamespace(metadata=SimpleNamespace(node_id=node), execute_async=lambda ask: answer)

    def get(answer: Any, timeout: float) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ray, "get", get)
    new, dead = worker("a", None), worker("a", ray.exceptions.ActorDiedError())
    assert ray_group._visible_beside(new, [worker("b", "9"), dead, worker("a", "0,1")]) == "0,1"
    assert ray_group._visible_beside(new, [worker("b", "9"), dead]) is None


# ---- datasets ----


class Context(SimpleNamespace):
    """What Ray hands to its callbacks."""

    dataset_config, backend_config = ray.train.DataConfig(), None
    run_config = SimpleNamespace(storage_context=None, worker_runtime_env={})


@pytest.mark.parametrize(("datasets", "started"), [({}, []), ({"rows": "a dataset"}, [3])])
def test_a_newcomer_shares_the_datasets_of_its_group_and_none_takes_no_process(
    monkeypatch: pytest.MonkeyPatch, datasets: dict[str, Any], started: list[int]
) -> None:
    worlds: list[int] = []

    def provider(**facts: Any) -> Any:
        worlds.append(facts["world_size"])
        return SimpleNamespace(**facts)

    monkeypatch.setattr(ray_datasets, "RayDatasetShardProvider", provider)
    monkeypatch.setattr(SurvivingWorkerGroup, "_with_room", lambda _, context: context)
    callbacks = [ray_datasets.DatasetsCallback(Context(), datasets), WorkingDirectorySetupCallback()]
    begun: list[bool] = []
    begins = SimpleNamespace(remote=lambda: begun.append(True))
    monkeypatch.setattr(SurvivingWorkerGroup, "coordinator", SimpleNamespace(begins=begins))
    monkeypatch.setattr(ray, "get", lambda _, timeout: 1 / 0)  # nobody answers
    group = SurvivingWorkerGroup(Context(), SimpleNamespace(num_workers=3), callbacks)
    assert begun == [True]
    sent: list[dict[str, list[Any]]] = []
    monkeypatch.setattr(group, "_init_train_context_on_workers", lambda *facts: sent.append(facts[2]))
    monkeypatch.setattr(group, "_decorate_worker_log_file_paths", lambda _: None)
    workers = [SimpleNamespace(metadata=SimpleNamespace(node_id=node)) for node in "abc"]
    group._init_train_context(workers, None)
    group._init_train_context(workers[:1], None)
    assert worlds == started
    (whole, newcomer) = (facts["dataset_shard_provider"] for facts in sent)
    assert len(whole) == 3
    assert {id(shared) for shared in whole} == {id(newcomer[0])}
    assert group._callbacks == callbacks, "Ray tells its own callback the start and the end of the group"
    if not datasets:
        with pytest.raises(
            KeyError, match=r"Dataset shard for 'rows' not found. Expected a name of `fit\(datasets=\)`"
        ):
            whole[0].get_dataset_shard(SimpleNamespace(dataset_name="rows"))


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
