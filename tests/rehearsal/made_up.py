"""A made-up run, event by event, for tests of the arithmetic and the picture. Times are seconds, 2 a step."""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray_sandbox.rehearsal.report import Injected, Report, compare, measure, timeline
from hyperpod_ray_training.history import Event


def loss(step: int) -> float:
    return 5.0 / (1 + step / 20) + 0.05 * (step * 7 % 5)


def work(*, t: float, first: int, last: int, world: int = 2, interval: int = 10) -> list[Event]:
    """Steps `first` to `last`, one each 0.4 s from `t`, with a checkpoint at each interval 0.6 s after its step."""
    out = []
    for i, step in enumerate(range(first, last + 1)):
        now = t + 0.4 * i
        out.append(Event(t=now, kind="step", step=step, values={"loss": loss(step), "world": world}))
        if step % interval == 0:
            out.append(
                Event(
                    t=now + 0.6,
                    kind="save",
                    step=step,
                    values={"path": f"/fsx/run/step-{step:08d}-aaaaaa", "reason": "interval"},
                )
            )
    return sorted(out, key=lambda event: event.t)


def back(*, t: float, step: int, world: int = 2) -> list[Event]:
    """Workers start anew and restore a step."""
    return [
        Event(t=t, kind="start", values={"role": "worker", "world": world}),
        Event(t=t + 1, kind="restore", step=step, values={"world": world, "path": f"/fsx/run/step-{step:08d}-aaaaaa"}),
    ]


def report(
    folder: Path, kinds: tuple[str, ...] = ("worker", "node", "freeze", "hang", "drain", "driver", "head")
) -> Report:
    """A run with one fault of each kind, each 6 steps after a checkpoint, back after 9 s."""
    events, injected, reports, t, step = [], [], [], 1000.0, 0
    for i, kind in enumerate(kinds):
        stop = (i + 1) * 10 + 6
        events += work(t=t, first=step + 1, last=stop)
        t = events[-1].t + 0.1
        injected.append(Injected(fault=kind, t=t, step=stop, target=f"pod {i}", run="run"))
        events += [Event(t=t + 3, kind="error", values={})]
        events += back(t=t + 7, step=stop - 6)
        t, step = t + 9, stop - 6
    end = (len(kinds) + 2) * 10
    events += work(t=t, first=step + 1, last=end)
    reports = [
        measure(one, events, until=injected[i + 1].t if i + 1 < len(injected) else 1e12)
        for i, one in enumerate(injected)
    ]
    undisturbed = work(t=500.0, first=1, last=end)
    return Report(
        environment="local",
        job="finetune",
        settings={"interval_steps": 10, "replace_after_s": 2.0},
        cluster={},
        faults=reports,
        runs=[
            compare(
                name="run", status="SUCCEEDED", submissions=1, events=events, undisturbed=undisturbed, elastic=False
            )
        ],
        timeline=timeline({"run": events}, undisturbed=undisturbed, injected=injected, start=990.0),
        started_t=990.0,
        seconds=100.0,
        machine={},
    )
