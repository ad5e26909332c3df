from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import ray.train
import rich.style  # noqa: F401 - draws from Python's generator when Ray first imports it, in the middle of a run
import torch.distributed as dist
from ray.train.v2.api.preemption import PreemptionInfo

from hyperpod_ray_training import Resumable, Run, Settings, draining
from tests.resilience.resumable_helpers import STEPS, events, fit


@pytest.fixture(autouse=True)
def no_process_group_left_behind() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], PreemptionInfo | None]], None]:
    """Sets what Ray's watcher has left with this worker; Ray's own question is a barrier over all ranks."""

    def barrier() -> None:
        pytest.fail("ray.train.get_preemption_info() makes all ranks meet in one actor")

    monkeypatch.setattr(ray.train, "get_preemption_info", barrier)
    return lambda notice: monkeypatch.setattr(draining, "notice", notice)


@pytest.mark.slow
def test_a_drain_notice_saves_at_once_and_again_before_the_deadline(
    run: Run, notices: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"t": time.time(), "monotonic": 100.0, "step": 0}
    notice = PreemptionInfo(deadline_ms=int((now["t"] + 1000) * 1000), preempted_node_to_ranks={"node-a": [0]})
    notices(lambda: notice if now["step"] >= 4 else None)
    monkeypatch.setattr(time, "time", lambda: now["t"])

    def at_step(training: Resumable, step: int) -> None:
        training.drains.clock = lambda: now["monotonic"]
        training.drains.next_look = 0  # look at every step, however fast the steps are
        now["step"] = step
        now["t"] += 5000.0 if step == 5 else 0.0  # the wall clock jumps: the deadline is as far away as before
        now["monotonic"] += 100.0 if step == 6 else 0.0
        now["monotonic"] += 898.0 if step == 7 else 0.0

    patient = Run(storage=run.storage, name=run.name, save_every_steps=100, settings=Settings(deadline_margin_s=5.0))
    fit(patient, at_step=at_step)
    saves = [(event["step"], event["reason"]) for event in events(run, "save")]
    assert saves == [(5, "drain"), (8, "deadline"), (STEPS, "final")]
    assert [event["step"] for event in events(run, "drain")] == [5]


@pytest.mark.parametrize(
    ("margin_s", "last_save_s", "left_s", "saves"),
    [
        (5.0, 1.0, 6.0, False), (5.0, 1.0, 4.0, True),
        # of EC2's two minutes: a save that took half a minute must begin while there is time for it
        (5.0, 30.0, 95.0, False), (5.0, 30.0, 85.0, True), (60.0, 1.0, 50.0, True),
    ],
)  # fmt: skip
def test_the_second_save_begins_while_there_is_time_for_it(
    *, margin_s: float, last_save_s: float, left_s: float, saves: bool, notices: Callable[..., None]
) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html"""
    clock = {"s": 0.0}
    told: Any = SimpleNamespace(event=lambda *_, **__: None, update=lambda **_: None)
    watch = draining.DrainWatch(Settings(deadline_margin_s=margin_s), told, clock=lambda: clock["s"])
    notice = PreemptionInfo(deadline_ms=int((time.time() + 120) * 1000), preempted_node_to_ranks={"node-a": [0]})
    notices(lambda: notice)
    assert watch.look(1, last_save_s=last_save_s) == (draining.DRAIN, 1)
    clock["s"] = 120 - left_s
    assert watch.look(2, last_save_s=last_save_s)[0] == (draining.DEADLINE if saves else draining.NONE)


def test_a_second_notice_saves_again(run: Run, notices: Callable[..., None]) -> None:
    step_now = {"step": 0}

    def notice() -> PreemptionInfo | None:
        nodes = {"node-a": [0]} if step_now["step"] >= 2 else {}
        nodes |= {"node-b": [1]} if step_now["step"] >= 7 else {}
        return PreemptionInfo(deadline_ms=None, preempted_node_to_ranks=nodes) if nodes else None

    def at_step(training: Resumable, step: int) -> None:
        training.drains.next_look = 0
        step_now["step"] = step

    notices(notice)
    fit(Run(storage=run.storage, name=run.name, save_every_steps=100, settings=Settings()), at_step=at_step)
    assert [(event["step"], event["reason"]) for event in events(run, "save")] == [
        (3, "drain"),
        (8, "drain"),
        (STEPS, "final"),
    ]


def test_a_notice_is_what_rays_watcher_left_with_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.train.v2._internal.execution import context
    from ray.train.v2._internal.execution.preemption import PreemptionContext

    assert draining.notice() is None  # no Ray worker here
    info = PreemptionInfo(deadline_ms=1, preempted_node_to_ranks={"node-a": [0]})
    fake = SimpleNamespace(preemption_context=PreemptionContext(preemption_info=info))
    monkeypatch.setattr(context, "get_train_context", lambda: fake)
    assert draining.notice() is info
