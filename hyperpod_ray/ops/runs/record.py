"""What a run writes about itself (`progress.json`, `events.jsonl`): steps, checkpoints, interruptions. Pure.

The training library writes both; `hyperpod_ray_training.journal` says what is in them. A line that a kill cut short,
and a line of another shape, counts as none.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray.ops.observe.snapshot import Run
from hyperpod_ray.ops.runs import journal
from hyperpod_ray.ops.runs.journal import number, whole

RECENT_SECONDS = 60.0
"""Of what the present rate is an average."""
FINISHED = ("done", "failed")
NO_METRICS = {"t", "step", "world", "rank", "gen", "kind"}
SIGNS = ("fault", "lost", "drain", "move", "error", "resize", "fallback")
"""Kinds of events that say why steps stop, the most telling first."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that was done."""

    t: float
    """Unix seconds."""
    step: int
    value: float | None
    """The run's metric; None where the step has none, or it is not a finite number."""


@dataclass(frozen=True, kw_only=True)
class Save:
    """A checkpoint that is complete."""

    t: float
    step: int
    reason: str = ""
    seconds: float | None = None
    stall_s: float = 0.0
    """Seconds that steps stopped for it."""


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """No steps from `stopped_t` until `resumed_t`."""

    stopped_t: float
    """When the last step before it was done."""
    resumed_t: float | None
    """When the first step after it was done; None while the run has not recovered."""
    stopped_step: int
    resumed_step: int | None
    """The step that training continues from."""
    source: str
    """`memory`, `checkpoint`, or empty where nothing was restored."""
    cause: str

    @property
    def seconds(self) -> float | None:
        """How long no step was done; None while it lasts."""
        return None if self.resumed_t is None else self.resumed_t - self.stopped_t

    @property
    def again(self) -> int:
        """Steps that are done a second time."""
        return 0 if self.resumed_step is None else max(0, self.stopped_step - self.resumed_step)


@dataclass(frozen=True, kw_only=True)
class Sign:
    """Something that the run noticed."""

    t: float
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run."""

    name: str
    state: str = ""
    """starting, restoring, running, draining, recovering, done or failed; empty where `progress.json` is missing."""
    metric: str = "loss"
    steps: tuple[Step, ...] = ()
    saves: tuple[Save, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    signs: tuple[Sign, ...] = ()
    total_steps: int | None = None
    world: int | None = None
    step: int | None = None
    """The newest step; `steps` may leave some out."""
    value: float | None = None
    step_t: float | None = None
    checkpoint_step: int | None = None
    checkpoint_t: float | None = None
    checkpoint_path: str = ""
    error: str = ""
    not_finite: int | None = None
    """The first step whose metric is not a finite number."""

    @property
    def begin(self) -> float | None:
        """When its first step was done."""
        return self.steps[0].t if self.steps else None

    @property
    def ended(self) -> bool:
        """Whether no further step is to come."""
        return self.state in FINISHED

    def advances(self) -> list[tuple[Step, Step]]:
        """Pairs of neighbours of which the second continues the first; none across an interruption."""
        stops = {item.stopped_t for item in self.interruptions if item.resumed_t is not None}
        return [(a, b) for a, b in itertools.pairwise(self.steps) if b.step > a.step and a.t not in stops]

    def rate(self, *, since: float = -math.inf, until: float = math.inf) -> float | None:
        """Steps per second of the steps done in a span, those done a second time too; None where it has fewer than two.

        The time of interruptions does not count: it is what a step takes.
        """
        done, spent = 0, 0.0
        for before, after in self.advances():
            if before.t >= since and after.t <= until:
                done += after.step - before.step
                spent += after.t - before.t
        return done / spent if done and spent > 0 else None

    @property
    def recent_rate(self) -> float | None:
        """Steps per second of the last minute of steps."""
        return self.rate(since=self.steps[-1].t - RECENT_SECONDS) if self.steps else None

    @property
    def usual_rate(self) -> float | None:
        """The median rate of the run's own steps."""
        rates = [(b.step - a.step) / (b.t - a.t) for a, b in self.advances() if b.t > a.t]
        return statistics.median(rates) if rates else None

    @property
    def goodput(self) -> float | None:
        """The share of the time since the first step that was spent on steps that last."""
        if len(self.steps) < 2:
            return None
        whole = self.steps[-1].t - self.steps[0].t
        lost = sum(item.seconds or 0.0 for item in self.interruptions)
        lost += sum(save.stall_s for save in self.saves)
        highest = 0
        for before, after in self.advances():
            if after.step <= highest:
                lost += after.t - before.t
            highest = max(highest, before.step, after.step)
        return max(0.0, 1 - lost / whole) if whole > 0 else None

    def ends(self, *, now: float) -> float | None:
        """When the last step is done at the present rate, in unix seconds; None where that is not known."""
        rate = self.recent_rate
        if self.ended or not rate or self.total_steps is None or self.step is None:
            return None
        return now + max(0, self.total_steps - self.step) / rate


def read(name: str, progress: str = "", events: Iterable[str] = ()) -> Record:
    """A run's record.

    Args:
        name: The run.
        progress: Text of `progress.json`; empty where there is none.
        events: Lines of `events.jsonl`.
    """
    now = journal.mapping(progress)
    found = journal.events(events)
    metric = _metric(found)
    steps, saves, signs, interruptions = _walk(found, metric=metric)
    ended = now.get("state") in FINISHED or any(event["kind"] == "done" for event in found)
    open_ = None if ended else _open(steps, signs)
    last = steps[-1] if steps else None
    metrics = now.get("metrics")
    bad = next((e for e in found if e["kind"] == "step" and metric in e and number(e[metric]) is None), None)
    return Record(
        name=name,
        state="done" if ended and now.get("state") != "failed" else str(now.get("state") or ""),
        metric=metric,
        steps=tuple(steps),
        saves=tuple(saves),
        interruptions=(*interruptions, *([open_] if open_ else [])),
        signs=tuple(signs),
        total_steps=whole(now.get("total_steps")),
        world=whole(now.get("world_size")),
        step=whole(now.get("last_step")) if "last_step" in now else last.step if last else None,
        value=number(metrics.get(metric)) if isinstance(metrics, dict) else last.value if last else None,
        step_t=number(now.get("last_step_t")) or (last.t if last else None),
        checkpoint_step=whole(now.get("last_checkpoint_step")) if "last_checkpoint_step" in now else _last_save(saves),
        checkpoint_t=number(now.get("last_checkpoint_t")) or (saves[-1].t if saves else None),
        checkpoint_path=str(now.get("last_checkpoint_path") or ""),
        error=str(now.get("last_error") or ""),
        not_finite=whole(bad["step"]) if bad else None,
    )


def of(run: Run) -> Record:
    """The record of a run as a snapshot has it: of its newest events only."""
    lines = []
    for event in run.events:
        path = event.text if event.kind == journal.BACK and (event.text == "memory" or "/" in event.text) else ""
        fields = {"step": event.step, "loss": event.loss, "seconds": event.seconds, "message": event.text, "path": path}
        known = {key: value for key, value in fields.items() if value not in (None, "")}
        lines.append(json.dumps({"t": event.at.timestamp(), "kind": event.kind, **known}))
    progress = {
        "state": run.state, "last_step": run.step, "total_steps": run.steps_total, "world_size": run.world_size,
        "last_step_t": _stamp(run.last_step_at), "last_checkpoint_step": run.last_checkpoint_step,
        "last_checkpoint_t": _stamp(run.last_checkpoint_at), "last_checkpoint_path": run.folder,
        "last_error": run.last_error, "metrics": {"loss": run.loss, **run.metrics},
    }  # fmt: skip
    return read(run.name, json.dumps({key: value for key, value in progress.items() if value is not None}), lines)


def _stamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def moment(t: float) -> datetime:
    """Unix seconds as a time."""
    return datetime.fromtimestamp(t, UTC)


def _last_save(saves: Sequence[Save]) -> int | None:
    return saves[-1].step if saves else None


def _metric(events: Sequence[Mapping[str, Any]]) -> str:
    """`loss`, or the first number that steps have where there is no loss."""
    step = next((event for event in events if event["kind"] == "step"), {})
    others = [key for key, value in step.items() if key not in NO_METRICS and number(value) is not None]
    return "loss" if "loss" in step or not others else others[0]


def _walk(
    events: Sequence[Mapping[str, Any]], *, metric: str
) -> tuple[list[Step], list[Save], list[Sign], list[Interruption]]:
    steps: list[Step] = []
    saves: list[Save] = []
    signs: list[Sign] = []
    interruptions: list[Interruption] = []
    restored: Mapping[str, Any] | None = None
    for event in events:
        t, kind = float(event["t"]), str(event["kind"])
        if kind == journal.BACK:
            restored = event
        elif kind == "save":
            stall, seconds = number(event.get("stall_s")), number(event.get("seconds"))
            saves.append(
                Save(
                    t=t, step=int(event["step"]), reason=str(event.get("reason") or ""),
                    seconds=seconds, stall_s=stall or 0.0,
                )
            )  # fmt: skip
        elif kind == "step":
            step = Step(t=t, step=int(event["step"]), value=number(event.get(metric)))
            if steps and (restored is not None or step.step <= steps[-1].step):
                interruptions.append(_interruption(steps[-1], step, restored, signs))
            steps.append(step)
            restored = None
        elif kind in SIGNS or (kind == "start" and event.get("role") == "driver" and steps):
            signs.append(Sign(t=t, kind=kind, text=_words(event)))
    return steps, saves, signs, interruptions


def _interruption(last: Step, new: Step, restored: Mapping[str, Any] | None, signs: Sequence[Sign]) -> Interruption:
    path = str(restored.get("path") or "") if restored else ""
    back = whole(restored.get("step")) if restored else None
    return Interruption(
        stopped_t=last.t,
        resumed_t=new.t,
        stopped_step=last.step,
        resumed_step=new.step - 1 if back is None else back,
        source="memory" if path == "memory" else "checkpoint" if path else "",
        cause=_cause([sign for sign in signs if last.t <= sign.t <= new.t]),
    )


def _open(steps: Sequence[Step], signs: Sequence[Sign]) -> Interruption | None:
    """The interruption that has not ended: something that stops steps was noticed, and no step followed."""
    last = steps[-1] if steps else None
    after = [sign for sign in signs if last and sign.t > last.t and sign.kind in ("fault", "lost", "error", "start")]
    if last is None or not after:
        return None
    return Interruption(
        stopped_t=last.t, resumed_t=None, stopped_step=last.step, resumed_step=None, source="", cause=_cause(after)
    )


def _cause(signs: Sequence[Sign]) -> str:
    for kind in SIGNS:
        for sign in signs:
            if sign.kind == kind:
                return sign.text
    return signs[0].text if signs else "the run's events name no cause"


def _words(event: Mapping[str, Any]) -> str:
    """A sign in one line."""
    node, rank = event.get("node"), event.get("rank")
    where = "".join(
        [f"rank {rank}" if rank is not None else "", f" on {node}" if node not in (None, "local") else ""]
    ).strip()
    text = " ".join(str(event.get("message") or event.get("reason") or "").split())[:300]
    match str(event["kind"]):
        case "fault":
            what = f"injected fault {event.get('fault') or event.get('name') or ''}".rstrip()
        case "lost":
            what = f"{where or 'a rank'} lost"
            where = ""
        case "drain" | "move":
            what = "drain notice"
        case "resize":
            what = f"{event.get('world_before', '?')} → {event.get('world', '?')} workers"
        case "start":
            what = "the job started again"
        case "fallback":
            what = "full restart"
        case _:
            return text or "an error without a message"
    return ": ".join(filter(None, [f"{what} ({where})" if where else what, text]))
