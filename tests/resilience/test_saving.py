"""How many failed saves in a row a run takes, without a training."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hyperpod_ray_training.errors import Unrecoverable
from hyperpod_ray_training.saving import Save, Saver
from hyperpod_ray_training.state import TrainingState


def saver(unsavable: list[str] | None = None) -> Any:
    quiet = SimpleNamespace(event=lambda *_, **__: None, update=lambda **_: None)
    folder = SimpleNamespace(at=lambda *parts: "/".join(parts), url="/fsx/runs/a", remove_failed=lambda _: None)
    holder: Any = object.__new__(Saver)
    holder.__dict__.update(
        run=SimpleNamespace(settings=SimpleNamespace(save_failure_limit=3)), folder=folder, journal=quiet, tier=None,
        state=SimpleNamespace(unsavable=lambda: unsavable or []), ranks=SimpleNamespace(rank=0, world=1),
        report=lambda *_: None, saved_step=-1, failures=0, last_save_s=0.0,
    )  # fmt: skip
    return holder


def settle(holder: Any, step: int, *, failed: bool) -> None:
    future: Future[Any] = Future()
    if failed:
        future.set_exception(OSError("No space left on device"))
    else:
        future.set_result(None)
    holder.in_flight = Save(f"step-{step:08}-aaaaaa", step, "interval", {}, future, time.monotonic())
    holder.settle(failed=failed)


def test_a_save_between_two_failures_begins_the_count_again() -> None:
    holder = saver()
    for step, failed in enumerate([True, True, False, True, True]):
        settle(holder, step, failed=failed)
    assert (holder.saved_step, holder.failures) == (2, 2)


def test_three_in_a_row_end_the_run() -> None:
    holder = saver()
    settle(holder, 1, failed=False)
    for step in (2, 3):
        settle(holder, step, failed=True)
    with pytest.raises(Unrecoverable, match=r"3 saves in a row failed.*step 1, the newest complete checkpoint"):
        settle(holder, 4, failed=True)


def test_what_pickle_refuses_ends_the_run_at_once_and_no_storage_is_blamed() -> None:
    holder = saver(unsavable=["extra['trainer'] (cannot pickle 'weakref.ReferenceType' object)"])
    with pytest.raises(Unrecoverable, match=r"no checkpoint can hold extra\['trainer'\].*Fix: give it state_dict"):
        settle(holder, 1, failed=True)


def test_a_state_names_the_arguments_that_pickle_refuses() -> None:
    model = torch.nn.Linear(2, 1)
    extra = {"good": {"mean": torch.ones(2)}, "bad": {"lock": threading.Lock()}}
    per_rank = {"worse": SimpleNamespace(lock=threading.Lock())}
    state = TrainingState(
        model=model, optimizer=torch.optim.SGD(model.parameters()), extra=extra, per_rank=per_rank, rank=0, world=1
    )
    assert [problem.partition(" ")[0] for problem in state.unsavable()] == ["extra['bad']", "per_rank['worse']"]
