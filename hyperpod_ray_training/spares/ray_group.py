"""Keeps Ray Train from restarting the workers that live, when others are lost.

Ray 2.60 can replace single workers (`Backend.has_replica_groups`, made for torchft). Its own way ends the run when two
are lost in one poll: `replace_replica_group` asks every other worker something, and an exception there, from one that
is dead too, is not retried. It also blocks the controller until the replacement is placed, which after a lost node
takes as long as the node. So the replacement is done here, for any number of workers, without waiting: a process that
imports torch takes its time in a thread, and a run that ends in that time ends.

A standby on each node costs no such time: a worker process without a device, which the group keeps beside its workers.
The coordinator gives it the seat of a lost process at once (`seat.py`); here it only becomes a worker that Ray polls.

Hooks used, all of ray 2.60: `TorchConfig.backend_cls`, `ControllerCallback`, `TrainController.worker_group_cls`,
`WorkerGroup._poll_workers_and_collect_errors`. `supported()` looks for them; without them a run has no spares.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import ray
from ray.train.torch.config import TorchConfig, _set_torch_distributed_env_vars, _TorchBackend
from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
from ray.train.v2._internal.exceptions import (
    WorkerGroupStartupFailedError,
    WorkerHealthCheckFailedError,
    WorkerHealthCheckTimeoutError,
)
from ray.train.v2._internal.execution.callback import ControllerCallback
from ray.train.v2._internal.execution.checkpoint.report_handler import ReportCallbackHandler
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.worker_group import ReplicaGroup, WorkerGroup
from ray.train.v2._internal.execution.worker_group.poll import WorkerStatus
from ray.train.v2._internal.execution.worker_group.worker import Worker
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from hyperpod_ray_training.capacity import placeable
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.spares import placement
from hyperpod_ray_training.spares import seat as seats
from hyperpod_ray_training.spares.member import Ended
from hyperpod_ray_training.spares.table import NOBODY, NOT_YET

_BEFORE_THE_FIRST_TRY_POLLS, _BEFORE_ANOTHER_TRY_POLLS = 2, 4
"""First the ranks recover: a new process imports torch, and would take the processor from the spare beside it."""
_ANSWER_S = 10.0
"""So long a worker may take to say which devices it sees, and the coordinator to hear that workers start."""
_STANDBY_POLLS = 4
"""So often in between the group looks whether its standbys are still complete."""
_FEW_STANDBYS = 64
"""Up to so many, those that are on their way are looked at in each poll: until they are there, nobody stands by."""
_WAITS_FOR_STANDBY_POLLS = 40
"""So long a standby that still imports is waited for before Ray places a new process in the lost one's place."""


class SparesConfig(TorchConfig):
    """Torch's process groups are the library's own business; Ray replaces lost workers one by one."""

    @property
    def backend_cls(self) -> Any:
        """The backend below."""
        return _Backend


class _Backend(_TorchBackend):
    has_replica_groups = True

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.execute(_set_torch_distributed_env_vars)

    def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
        """Nothing."""

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        """Nothing."""


class KeepSurvivors(ControllerCallback):
    """Runs on Ray's controller, before it makes a worker group.

    Args:
        active: Workers that are needed; all beyond are spares, or what an elastic run may have more.
        elastic: Whether the run continues with fewer workers than at most.
        look_s: How often an elastic run that started with fewer workers looks for room.
        coordinator: Of the run.
        standby_workers: Standbys on each node.
    """

    def __init__(
        self, *, active: int, elastic: bool, look_s: float, coordinator: Any = None, standby_workers: int = 0
    ) -> None:
        self.active, self.elastic, self.look_s = active, elastic, look_s
        self.coordinator, self.standby_workers = coordinator, standby_workers

    def after_controller_start(self, train_run_context: Any) -> None:
        """Let the controller use the group below."""
        SurvivingWorkerGroup.active = self.active
        SurvivingWorkerGroup.look_s = self.look_s if self.elastic else None
        SurvivingWorkerGroup.coordinator, SurvivingWorkerGroup.standby_workers = self.coordinator, self.standby_workers
        TrainController.worker_group_cls = SurvivingWorkerGroup


class _Newcomer:
    """A worker process under way: placed by Ray when there is room, then sent what to run.

    The process first reads what it is sent, which imports torch: seconds in which Ray's controller must stay free.
    """

    def __init__(self, actor: Any, *, model: Worker, resources: dict[str, float]) -> None:
        self.actor, self.model, self.resources = actor, model, resources
        self.metadata = self.actor.get_metadata.remote()
        self.worker: Worker | None = None
        self.ended = threading.Event()
        self.error: Exception | None = None

    @property
    def placed(self) -> bool:
        """Whether the process is up, or has failed."""
        return bool(ray.wait([self.metadata], timeout=0)[0])

    def begin(self, start: Callable[[Worker], None]) -> None:
        """Begin to start it, with the place in Ray's order of its model. Raises what its process raised."""
        worker = Worker(
            self.actor, ray.get(self.metadata), self.resources,
            placement_group_bundle_index=self.model.placement_group_bundle_index,
        )  # fmt: skip
        worker.distributed_context = copy.copy(self.model.distributed_context)
        self.worker = worker
        threading.Thread(target=self._start, args=(start, worker), name="resilience-replace", daemon=True).start()

    def _start(self, start: Callable[[Worker], None], worker: Worker) -> None:
        try:
            start(worker)
        except Exception as error:
            self.error = error
        finally:
            self.ended.set()

    def cancel(self) -> None:
        """The group ends."""
        with contextlib.suppress(Exception):
            ray.kill(self.actor)


class _Replacement(_Newcomer):
    """A lost worker's successor, in its place."""

    def __init__(self, group: SurvivingWorkerGroup, lost: Worker) -> None:
        with contextlib.suppress(Exception):
            ray.kill(lost.actor)  # fenced or gone; this frees its place at once
        self.node_id = lost.metadata.node_id
        self.in_place = placement.node_lives(self.node_id)
        places, bundle = group.get_worker_group_state().placement_group_handle, lost.placement_group_bundle_index
        if isinstance(places, placement.Places):
            strategy = places.of_successor(bundle, node_lives=self.in_place)
        else:
            strategy = PlacementGroupSchedulingStrategy(
                placement_group=places.placement_group, placement_group_bundle_index=bundle
            )
        actor = group.actor_class().options(scheduling_strategy=strategy).remote()
        super().__init__(actor, model=lost, resources=group.get_worker_group_context().resources_per_worker)

    @property
    def stranded(self) -> bool:
        """Whether it waits for its place on a node that died since."""
        return self.in_place and not placement.node_lives(self.node_id)


class _Standby(_Newcomer):
    """A worker process on a node that trains, without a place and a device of its own."""

    def __init__(self, group: SurvivingWorkerGroup, beside: Worker) -> None:
        strategy = NodeAffinitySchedulingStrategy(node_id=beside.metadata.node_id, soft=False)
        actor = group.actor_class().options(num_cpus=0, num_gpus=0, resources={}, scheduling_strategy=strategy).remote()
        super().__init__(actor, model=beside, resources={})
        self.answer = self.metadata

    @property
    def lives(self) -> bool:
        """Whether its process has not ended, as far as is known without waiting."""
        if self.ended.is_set() and self.error is not None:
            return False
        if ray.wait([self.answer], timeout=0)[0]:
            try:
                ray.get(self.answer)
            except Exception:  # whatever it is, another one is started
                return False
            self.answer = self.actor.get_metadata.remote()
        return True

    def seated(self, lost: Worker) -> Worker:
        """The worker that it is once it has a lost one's seat."""
        assert self.worker is not None  # noqa: S101
        metadata = dataclasses.replace(self.worker.metadata, accelerator_ids=lost.metadata.accelerator_ids)
        return dataclasses.replace(
            self.worker, metadata=metadata, distributed_context=copy.copy(lost.distributed_context),
            placement_group_bundle_index=lost.placement_group_bundle_index, resources=lost.resources,
        )  # fmt: skip


class _NoDatasets:
    """What `ray.train.get_dataset_shard` asks in a run without datasets."""

    def get_dataset_shard(self, dataset_info: Any) -> Any:
        """Refuses the name, as Ray's own does."""
        raise KeyError(
            f"Dataset shard for '{dataset_info.dataset_name}' not found. Expected a name of `fit(datasets=)`, which "
            "has none. Fix: pass the dataset there"
        )


class _SharedDatasets:
    """Ray's callback for datasets, asked once for a group and not at all in a run without datasets.

    Each time Ray starts a process on the driver's node, which stays: with a standby on each node there would be as
    many. The one of a newcomer would also count one rank, and have no iterator for any other.
    """

    def __init__(self, callback: DatasetsCallback) -> None:
        self.callback = callback
        self.provider: Any = None if callback._datasets else _NoDatasets()

    def before_init_train_context(self, workers: list[Worker]) -> dict[str, list[Any]]:
        """The same provider for each worker."""
        if self.provider is None:
            self.provider = self.callback.before_init_train_context(workers)["dataset_shard_provider"][0]
        return {"dataset_shard_provider": [self.provider] * len(workers)}


class SurvivingWorkerGroup(WorkerGroup):
    """A worker group in which a death is nobody else's business.

    An error of user code is everybody's: it is shown for all workers, and Ray then restarts them all.
    """

    active: ClassVar[int] = 1
    look_s: ClassVar[float | None] = None
    coordinator: Any = None
    standby_workers: int = 0

    def __init__(self, train_run_context: Any, worker_group_context: Any, callbacks: Any = None) -> None:
        self.wanted, self.looked = worker_group_context.num_workers, time.monotonic()
        if self.coordinator is not None:
            with contextlib.suppress(Exception):  # one that is gone forgets by itself
                ray.get(self.coordinator.begins.remote(), timeout=_ANSWER_S)
        super().__init__(train_run_context, self._with_room(worker_group_context), callbacks)
        self._execution_group_callbacks: list[Any] = [
            _SharedDatasets(callback) if isinstance(callback, DatasetsCallback) else callback
            for callback in self._execution_group_callbacks
        ]
        self.replacements: dict[int, _Replacement] = {}
        self.polls_to_wait: dict[int, int] = {}
        self.reports: deque[Any] = deque()
        self.standbys: dict[tuple[str, int], _Standby] = {}
        self.questions: dict[int, Any] = {}
        self.unanswered: Counter[int] = Counter()
        self.polls = 0
        self.trains: Any = None
        self.finished: Any = None

    def _with_room(self, context: Any) -> Any:
        """As many spares as there are places now: Ray would wait for the missing ones without a word."""
        room = placeable(ray.nodes(), context.resources_per_worker)
        if room >= context.num_workers:
            return context
        number = max(self.active, room)
        log(f"{number} of {context.num_workers} workers, spares included: there is room for {room}")
        selectors = context.label_selector
        return dataclasses.replace(
            context, num_workers=number, label_selector=None if selectors is None else selectors[:number]
        )

    def _create_placement_group(self, *rest: Any, **options: Any) -> Any:
        """Bound to nodes, so that Ray does not look for a lost node's place all the time."""
        handle = super()._create_placement_group(*rest, **options)
        return placement.bound(handle, self._worker_group_context)

    def _create_workers(self, *rest: Any, **options: Any) -> list[Worker]:
        """As for a group without replicas: with them each worker would be the only one of its node, at local rank 0.

        A loop that takes `cuda:LOCAL_RANK` would then put all ranks of a node on one device.
        """
        return super()._create_workers(*rest, **options | {"replica_group_size": None})  # type: ignore[no-any-return]

    def actor_class(self) -> Any:
        """The remote class of a worker, as Ray makes it."""
        from ray.train.v2._internal.util import bundle_to_remote_args

        runtime_env = self._get_worker_runtime_env(
            custom_runtime_env=self._train_run_context.run_config.worker_runtime_env
        )
        resources = self._worker_group_context.resources_per_worker
        return ray.remote(runtime_env=runtime_env, **bundle_to_remote_args(resources))(self._worker_cls)

    def _poll_workers_and_collect_errors(self, timeout: float | None) -> list[WorkerStatus]:
        statuses = super()._poll_workers_and_collect_errors(timeout)
        # the ranks may have changed hands since the last poll: two workers with a report each, of different saves
        self.reports.extend(
            worker_status.training_report for worker_status in statuses if worker_status.training_report is not None
        )
        report = self.reports.popleft() if self.reports else None
        statuses = judge(statuses, report)
        over = ended(statuses)
        done = [worker for worker in over if worker.world]
        finished = self._finished(statuses, over)
        if finished:
            value = done[0].value if done else None
            running = bool(self.reports)
            return [WorkerStatus(running=running, return_value=value, training_report=report) for _ in statuses]
        if finished is False:
            lost = WorkerHealthCheckFailedError(
                "a rank was lost after its last step, before the end of its script",
                failure=ray.exceptions.ActorDiedError(),
            )
            return [WorkerStatus(running=False, error=lost, training_report=report) for _ in statuses]
        errors = [status.error for status in statuses if status.error is not None]
        if any(not is_death(error) for error in errors) or (len(errors) == len(statuses) and not self.standbys):
            return statuses
        if self._has_grown():
            room = WorkerGroupStartupFailedError("there is room for more workers than the group was started with")
            return [WorkerStatus(running=False, error=room, training_report=report) for _ in statuses]
        for index, status in enumerate(statuses):
            if isinstance(status.return_value, Ended):
                status.return_value = status.return_value.value
            if status.error is not None:
                # not there: training may end without it. Ray keeps a queue of reports for it all the same: one that
                # it misses is taken for the next one's, and the run ends on two paths for one checkpoint
                statuses[index] = WorkerStatus(running=False, training_report=report)
                if not over:
                    self._replace(index)
        if statuses and not any(status.running for status in statuses):
            statuses[0].running = True  # all are lost, and their successors come: Ray must not take this for the end
        if not over:
            self._keep_standbys()
        return statuses

    def _finished(self, statuses: list[WorkerStatus], over: list[Ended]) -> bool | None:
        """Whether the run is finished; False where Ray must start all workers again, None where that is not known yet.

        A process that is lost after its last step never says to Ray that it has ended. Its successor does not, either.
        The coordinator knows whether its script had ended. If not, what comes after the loop is done again: an export.
        """
        done = [worker for worker in over if worker.world]
        if done and len(done) >= done[0].world:
            return True  # nobody waits for a spare that still imports or rehearses
        if not over or any(status.running and status.error is None for status in statuses):
            return None
        if self.finished is None:
            self.finished = self.coordinator.finished.remote()
        if not ray.wait([self.finished], timeout=0)[0]:
            return None
        try:
            return bool(ray.get(self.finished))
        except Exception:  # a coordinator that is gone cannot say it
            return False

    def _keep_standbys(self) -> None:
        """Let each node with workers have its standbys, from the first steps on. Waits for nothing."""
        self.polls += 1
        on_their_way = not self.standbys or any(standby.worker is None for standby in self.standbys.values())
        every = 1 if on_their_way and len(self.standbys) <= _FEW_STANDBYS else _STANDBY_POLLS
        if not self.standby_workers or self.polls % every:
            return
        try:
            if self.trains is None:
                self.trains = self.coordinator.trains.remote()
            if not ray.wait([self.trains], timeout=0)[0]:
                return
            if ray.get(self.trains):
                self._complete_standbys()
            else:
                self.trains = None
        except Exception as error:  # training does not depend on it
            self.trains = None
            log(f"standbys: {type(error).__name__}: {str(error).splitlines()[0][:200]}")

    def _complete_standbys(self) -> None:
        workers = {worker.metadata.node_id: worker for worker in reversed(self.get_workers())}
        for key, standby in list(self.standbys.items()):
            if key[0] not in workers or not standby.lives:
                standby.cancel()
                del self.standbys[key]
            elif standby.worker is None and standby.placed:
                standby.begin(self._starter(standby=True))
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        for node_id, beside in workers.items():
            for number in range(self.standby_workers if node_id in alive else 0):
                if (node_id, number) not in self.standbys:
                    self.standbys[node_id, number] = _Standby(self, beside)

    def _successor(self, index: int) -> _Standby | int:
        """The standby that has a lost worker's seat, or `NOBODY`; `NOT_YET` where the coordinator has not answered."""
        if not self.standby_workers:
            return NOBODY
        lost = self.get_workers()[index].metadata
        beside = {key: standby for key, standby in self.standbys.items() if key[0] == lost.node_id}
        if (question := self.questions.get(index)) is None:
            final = not beside or self.unanswered[index] >= _WAITS_FOR_STANDBY_POLLS
            self.questions[index] = self.coordinator.successor.remote(lost.node_ip, lost.pid, final)
            return NOT_YET
        if not ray.wait([question], timeout=0)[0]:
            return NOT_YET
        del self.questions[index]
        pid = int(ray.get(question))
        if pid == NOT_YET:
            self.unanswered[index] += 1
            return NOT_YET
        self.unanswered.pop(index, None)
        for key, standby in beside.items():
            if standby.worker is not None and standby.worker.metadata.pid == pid:
                return self.standbys.pop(key)
        return NOBODY

    def _has_grown(self) -> bool:
        """Whether there is room for workers that an elastic run was started without. Ray then starts it again."""
        number, now = self._worker_group_context.num_workers, time.monotonic()
        if self.look_s is None or number >= self.wanted or now - self.looked < self.look_s:
            return False
        self.looked = now
        return bool(placeable(ray.nodes(), self._worker_group_context.resources_per_worker) > number)

    def _replace(self, index: int) -> None:
        """Continue the replacement of a worker, as far as possible without waiting."""
        if (wait := self.polls_to_wait.setdefault(index, _BEFORE_THE_FIRST_TRY_POLLS)) > 0:
            self.polls_to_wait[index] = wait - 1
            return
        try:
            under_way = self.replacements.get(index)
            if under_way is None:
                standby = self._successor(index)
                lost = self.get_workers()[index]
                if isinstance(standby, _Standby):
                    self._take_in(index, lost, standby.seated(lost))
                elif standby == NOBODY:
                    self.replacements[index] = _Replacement(self, lost)
            elif under_way.worker is None:
                if under_way.placed:
                    under_way.begin(self._starter())
                elif under_way.stranded:
                    self.replacements.pop(index).cancel()
            elif under_way.ended.is_set():
                if under_way.error is not None:
                    raise under_way.error
                del self.replacements[index]
                self._take_in(index, under_way.model, under_way.worker)
        except Exception as error:  # it died again; whatever it was, the survivors train on
            log(f"spare {index}: not replaced yet ({type(error).__name__}: {str(error).splitlines()[0][:200]})")
            if (failed := self.replacements.pop(index, None)) is not None:
                failed.cancel()
            self.polls_to_wait[index] = _BEFORE_ANOTHER_TRY_POLLS

    def _starter(self, *, standby: bool = False) -> Callable[[Worker], None]:
        """What sends a new worker all it needs; called in a thread, while this group may end."""
        prepare = seats.stand_by if standby else seats.see
        peers = list(self.get_workers())
        state, context = self.get_worker_group_state(), self._worker_group_context
        # Ray's collector of reports would drop those that it has, for all workers, and in this thread
        callbacks = [
            callback
            for callback in self._replica_group_callbacks or []
            if not isinstance(callback, ReportCallbackHandler)
        ]

        def start(worker: Worker) -> None:
            self._init_train_context([worker], state.sync_actor)
            # Ray has shown it its own devices alone, of which a standby has none; ranks of a node see each other's
            ray.get(worker.execute_async(prepare, _visible_beside(worker, peers)))
            group = ReplicaGroup([worker], context.resources_per_worker, callbacks)
            group.start_training(context)

        return start

    def _take_in(self, index: int, lost: Worker, worker: Worker) -> None:
        """The new worker runs the loop: it has the lost one's place from now on."""
        self.polls_to_wait.pop(index, None)
        self._world_rank_to_ongoing_poll.pop(index, None)
        self._worker_group_state = self.get_worker_group_state().replace_workers([lost], [worker])
        self._replica_groups[index] = ReplicaGroup(
            [worker], self._worker_group_context.resources_per_worker, self._replica_group_callbacks
        )

    def _clear_state(self) -> None:
        for replacement in self.replacements.values():
            replacement.cancel()
        self.replacements.clear()
        self.polls_to_wait.clear()
        self.reports.clear()
        for standby in self.standbys.values():
            standby.cancel()
        self.standbys.clear()
        self.questions.clear()
        self.unanswered.clear()
        self.trains = self.finished = None
        super()._clear_state()


def _visible_beside(worker: Worker, peers: Sequence[Worker]) -> str | None:
    """What the workers of the same node see of its devices, where one of them lives; None where nobody answers."""
    for peer in peers:
        if peer.metadata.node_id == worker.metadata.node_id:
            with contextlib.suppress(Exception):
                answer: str | None = ray.get(peer.execute_async(seats.visible), timeout=_ANSWER_S)
                return answer
    return None


def judge(statuses: list[WorkerStatus], report: Any = None) -> list[WorkerStatus]:
    """What a poll means for the group: deaths stay where they are, an error of user code becomes everybody's.

    A report comes from the first rank that trains alone, and counts for all: spares have nothing to say, and Ray waits
    for a report of every worker, also of one that is gone.

    Args:
        statuses: Of each worker.
        report: What one of them has reported, now or at an earlier poll.
    """
    statuses = list(statuses)
    for status in statuses:
        status.training_report = report
    script_error = next(
        (status.error for status in statuses if status.error is not None and not is_death(status.error)), None
    )
    if script_error is not None:
        for status in statuses:
            status.error = script_error if status.error is None else status.error
    return statuses


def ended(statuses: list[WorkerStatus]) -> list[Ended]:
    """What those workers returned that ended because the run is over, and whose last report Ray has.

    A rank ends after its loop. The coordinator then ends each process that has no rank (`world` is 0).
    """
    returned = [status.return_value for status in statuses if not status.running and status.error is None]
    return [value for value in returned if isinstance(value, Ended)]


def is_death(error: Exception) -> bool:
    """Whether the worker itself is gone, as against an exception in it."""
    if isinstance(error, WorkerHealthCheckTimeoutError):
        return True
    return isinstance(error, WorkerHealthCheckFailedError) and isinstance(
        error.health_check_failure, ray.exceptions.RayActorError
    )


def report_alone(checkpoint: Any, metrics: dict[str, Any]) -> None:
    """Announce a checkpoint from one worker. `ray.train.report` is a barrier that spares and dead ranks never enter.

    Ray takes one report a poll, so this waits in a thread.
    """
    from ray.train.v2._internal.execution.context import get_train_context
    from ray.train.v2._internal.execution.training_report import _TrainingReport

    report = _TrainingReport(checkpoint=checkpoint, metrics=metrics, validation=False)
    queue = get_train_context().get_result_queue()
    threading.Thread(target=queue.put, args=(report,), name="resilience-report", daemon=True).start()


def supported() -> str | None:
    """None where this Ray has what the module needs, else what is missing."""
    required: list[tuple[Any, str]] = [
        (TrainController, "worker_group_cls"), (WorkerGroup, "_poll_workers_and_collect_errors"),
        (WorkerGroup, "_init_train_context"), (WorkerGroup, "_clear_state"), (WorkerGroup, "_get_worker_runtime_env"),
        (WorkerGroup, "_create_workers"), (WorkerGroup, "_create_placement_group"),
        (DatasetsCallback, "before_init_train_context"),
    ]  # fmt: skip
    missing = [f"{owner.__name__}.{name}" for owner, name in required if not hasattr(owner, name)]
    return f"Ray {ray.__version__} has no {', '.join(missing)}" if missing else None
