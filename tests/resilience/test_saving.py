"""How many failed saves in a row a run takes, and a full quota, without a training."""

from __future__ import annotations

import errno
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException

from hyperpod_ray_training import saving
from hyperpod_ray_training.errors import Unrecoverable
from hyperpod_ray_training.saving import BROKEN, NO_ROOM, WRITTEN, Save, Saver
from hyperpod_ray_training.state import TrainingState


def saver(unsavable: list[str] | None = None) -> Any:
    quiet = SimpleNamespace(event=lambda *_, **__: None, update=lambda **_: None)
    folder = SimpleNamespace(
        at=lambda *parts: "/".join(parts), url="/fsx/runs/a", path="/fsx/runs/a", remove_failed=lambda _: None
    )
    holder: Any = object.__new__(Saver)
    holder.__dict__.update(
        run=SimpleNamespace(settings=SimpleNamespace(save_failure_limit=3)), folder=folder, journal=quiet, tier=None,
        state=SimpleNamespace(unsavable=lambda: unsavable or []), ranks=SimpleNamespace(rank=0, world=1),
        report=lambda *_: None, saved_step=-1, failures=0, last_save_s=0.0,
    )  # fmt: skip
    return holder


def settle(holder: Any, step: int, *, error: Exception | None = None) -> float:
    """A save that ended here with an error, or well; what this rank says of it."""
    future: Future[Any] = Future()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(None)
    holder.in_flight = Save(f"step-{step:08}-aaaaaa", step, "interval", {}, future, time.monotonic())
    outcome = float(holder.outcome_here)
    holder.settle(outcome=outcome)
    return outcome


@pytest.mark.parametrize(
    ("reason", "durable"),
    [("interval", False), ("drain", True), ("deadline", True), ("signal", True), ("leave", True), ("final", True)],
)
def test_only_a_save_that_another_follows_may_be_in_memory_alone(
    reason: str, durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory of the tier goes with the nodes, and nobody saves again before they go.

    https://docs.aws.amazon.com/sagemaker/latest/dg/managed-tier-checkpointing.html
    """
    asked: list[dict[str, Any]] = []
    holder = saver()
    holder.ranks = SimpleNamespace(rank=1, world=2, patient=None)
    holder.in_flight, holder.attempt, holder.run.async_save = None, "aaaaaa", True
    holder.tier = SimpleNamespace(writer=lambda **fields: asked.append(fields))
    monkeypatch.setattr(saving, "to_save", lambda *_: (_ for _ in ()).throw(IO))
    holder.begin(step=3, metrics={}, reason=reason, wait=False)
    assert asked == [{"step": 3, "durable": durable}]


def test_a_watched_step_waits_for_the_thread_of_a_save(monkeypatch: pytest.MonkeyPatch) -> None:
    holder, future = saver(), Future[Any]()
    holder.in_flight = None
    holder.wait_until_written()
    holder.in_flight = Save("step-00000001-aaaaaa", 1, "interval", {}, future, time.monotonic())
    waits = threading.Thread(target=holder.wait_until_written)
    waits.start()
    waits.join(0.2)
    assert waits.is_alive()
    future.set_exception(IO)  # it ended, and that is not what this wait is about
    waits.join(600)
    assert not waits.is_alive() and holder.in_flight.future is future

    monkeypatch.setattr(saving, "WRITES_S", 0.01)
    holder.in_flight = Save("step-00000002-aaaaaa", 2, "interval", {}, Future(), time.monotonic())
    holder.wait_until_written()  # a hung file system does not stop the run


IO = OSError(errno.EIO, "Input/output error")
QUOTA, DISK = OSError(errno.EDQUOT, "Disk quota exceeded"), OSError(errno.ENOSPC, "No space left on device")


def of_ranks(**errors: Exception) -> CheckpointException:
    """What DCP raises on every rank where some could not write their part."""
    return CheckpointException("write", {int(rank[1:]): (error, []) for rank, error in errors.items()})


def test_a_save_between_two_failures_begins_the_count_again() -> None:
    holder = saver()
    for step, error in enumerate([IO, IO, None, IO, IO]):
        settle(holder, step, error=error)
    assert (holder.saved_step, holder.failures) == (2, 2)


def test_three_in_a_row_end_the_run() -> None:
    holder = saver()
    settle(holder, 1)
    for step in (2, 3):
        settle(holder, step, error=IO)
    with pytest.raises(Unrecoverable, match=r"3 saves in a row failed.*step 1, the newest complete checkpoint"):
        settle(holder, 4, error=IO)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (QUOTA, NO_ROOM),
        (of_ranks(r0=QUOTA, r3=DISK), NO_ROOM),
        (of_ranks(r0=QUOTA, r3=IO), BROKEN),
        (RuntimeError("enforce fail"), BROKEN),
        (None, WRITTEN),
    ],
)
def test_only_a_full_quota_is_no_end(error: Exception | None, outcome: float) -> None:
    holder = saver()
    assert settle(holder, 1, error=error) == outcome
    assert holder.failures == (outcome == BROKEN)


def test_a_rank_with_a_good_part_hears_of_another_that_had_no_room() -> None:
    holder = saver()
    for step in range(5):
        future: Future[Any] = Future()
        future.set_result(None)
        holder.in_flight = Save(f"step-{step:08}-aaaaaa", step, "interval", {}, future, time.monotonic())
        holder.settle(outcome=NO_ROOM)
    assert (holder.saved_step, holder.failures) == (-1, 0)


def test_what_pickle_refuses_ends_the_run_at_once_and_no_storage_is_blamed() -> None:
    holder = saver(unsavable=["extra['trainer'] (cannot pickle 'weakref.ReferenceType' object)"])
    with pytest.raises(Unrecoverable, match=r"no checkpoint can hold extra\['trainer'\].*Fix: give it state_dict"):
        settle(holder, 1, error=IO)


def test_a_state_names_the_arguments_that_pickle_refuses() -> None:
    model = torch.nn.Linear(2, 1)
    extra = {"good": {"mean": torch.ones(2)}, "bad": {"lock": threading.Lock()}}
    per_rank = {"worse": SimpleNamespace(lock=threading.Lock())}
    state = TrainingState(
        model=model, optimizer=torch.optim.SGD(model.parameters()), extra=extra, per_rank=per_rank, rank=0, world=1
    )
    assert [problem.partition(" ")[0] for problem in state.unsavable()] == ["extra['bad']", "per_rank['worse']"]
