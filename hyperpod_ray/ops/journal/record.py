"""One run, as its journal says: the figures that every command, page and report shows of it. Pure.

`hyperpod_ray_training.history` reads the journal and adds it up; nothing else here reads a line of it.
docs/concepts.md says what useful time is.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray.core.amounts import duration
from hyperpod_ray.ops.in_ray.history import FAULTS, SHARES, History, cause_of, clean, first_line, mapping, number, whole

CAUSES = {
    "fault": "injected faults",
    "lost": "lost ranks",
    "drain": "drain notices",
    "move": "moves to other nodes",
    "error": "errors",
    "resize": "changes of size",
    "fallback": "full restarts",
    "start": "submitted again",
    "unknown": "unknown causes",
}
"""What a cause of lost time is called, by the kind of its most telling event."""
BEFORE, SAVES = "before the first step", "saves"
"""Time that no interruption cost."""
RECENT_SECONDS = 60.0
"""Of what the present rate is an average."""
FINISHED = ("done", "failed")


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """One thing that happened to a training run: a line of its `events.jsonl` that is no step."""

    at: datetime
    kind: str
    step: int | None = None
    seconds: float | None = None
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that was done."""

    t: float
    """Unix seconds."""
    step: int
    value: float | None
    """The run's metric; None where the step has none, or it is not a finite number."""
    resumed: bool = False
    """Whether an interruption lies before it."""


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
    """Something that was said of a node."""

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
    """Some hundred of them, in the order in which they were done."""
    saves: tuple[Save, ...] = ()
    """The newest; `saved` counts all."""
    saved: int = 0
    interruptions: tuple[Interruption, ...] = ()
    """The newest; `interrupted` counts all."""
    interrupted: int = 0
    by_cause: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Interruptions by the kind of event that tells most about them: how many, and seconds that they cost."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the run by what they were spent on: each of `SHARES`."""
    held: Mapping[int, float] = field(default_factory=dict)
    """Seconds in which it had workers, by the number of ranks."""
    useful_rank_seconds: float = 0.0
    total_steps: int | None = None
    world: int | None = None
    step: int | None = None
    """The newest step; `steps` may leave some out."""
    value: float | None = None
    lowest: float | None = None
    """The smallest value of the metric, over all steps."""
    step_t: float | None = None
    checkpoint_step: int | None = None
    checkpoint_t: float | None = None
    checkpoint_path: str = ""
    error: str = ""
    not_finite: int | None = None
    """The first step whose metric is not a finite number."""
    begin: float | None = None
    """When it wrote its first line."""
    recent_rate: float | None = None
    """Steps per second of the last minute of steps, or of the newest where it took longer; without interruptions."""
    usual_rate: float | None = None
    """The median rate of all its steps."""
    step_seconds: float | None = None
    """Median seconds of the newest steps."""
    pause_seconds: float | None = None
    """The longest time between two steps that happened at least twice."""
    faults: int = 0
    recoveries: int = 0
    events: tuple[RunEvent, ...] = ()
    """The newest that are no step, oldest first."""
    partial: bool = False
    """Whether its first lines could not be read: then there are no totals."""

    @property
    def ended(self) -> bool:
        """Whether no further step is to come."""
        return self.state in FINISHED

    @property
    def whole_seconds(self) -> float:
        """All seconds of the run."""
        return sum(self.seconds.values())

    @property
    def goodput(self) -> float | None:
        """The share of the run's time that was spent on steps that last; None before there is a step to judge by."""
        if self.partial or self.step_t is None or self.whole_seconds <= 0:
            return None
        return round(self.seconds["training"] / self.whole_seconds, 4)  # every place shows this very figure

    @property
    def lost(self) -> dict[str, float]:
        """Seconds that were no training, by cause, the largest first. With `training` they are the whole."""
        causes: dict[str, float] = {}
        for category, (_, seconds) in self.by_cause.items():
            words = CAUSES.get(category, CAUSES["unknown"])
            causes[words] = causes.get(words, 0.0) + seconds
        causes[SAVES] = self.seconds.get("saving", 0.0)
        causes[BEFORE] = self.whole_seconds - self.seconds.get("training", 0.0) - sum(causes.values())
        ordered = sorted(causes.items(), key=lambda cause: -cause[1])
        return {cause: seconds for cause, seconds in ordered if abs(seconds) >= 0.001}

    @property
    def lost_in_words(self) -> str:
        """The same as a sentence's end, with how often each happened."""
        times = {CAUSES.get(category, ""): count for category, (count, _) in self.by_cause.items()}
        return ", ".join(
            f"{cause} {duration(seconds)}" + (f" in {times[cause]}" if times.get(cause) else "")
            for cause, seconds in self.lost.items()
            if seconds >= 1
        )

    @property
    def first_number(self) -> int:
        """Which interruption of the run the first of `interruptions` is."""
        return max(1, self.interrupted - len(self.interruptions) + 1)

    def advances(self) -> list[tuple[Step, Step]]:
        """Pairs of neighbours of which the second continues the first; none across an interruption."""
        return [(a, b) for a, b in itertools.pairwise(self.steps) if b.step > a.step and b.t > a.t and not b.resumed]

    def by_step(self) -> list[Step]:
        """Steps in their own order; one that was done again counts as it went the last time."""
        kept: list[Step] = []
        for step in reversed(self.steps):
            if not kept or step.step < kept[-1].step:
                kept.append(step)
        return kept[::-1]

    def ends(self, *, now: float) -> float | None:
        """When the last step is done at the present rate, in unix seconds; None where that is not known."""
        rate = self.recent_rate
        if self.ended or not rate or self.total_steps is None or self.step is None:
            return None
        return now + max(0, self.total_steps - self.step) / rate


def read(name: str, progress: str = "", events: Iterable[str] = (), *, now: float | None = None) -> Record:
    """A run's record from the texts of its files.

    Args:
        name: The run.
        progress: Text of `progress.json`; empty where there is none.
        events: All lines of `events.jsonl`.
        now: The cluster's time. Default: that of the newest line.
    """
    history = History()
    for line in events:
        history.add(line.encode())
    return record_of(history, mapping(progress), name=name, now=now)


def record_of(
    history: History, progress: Mapping[str, Any], *, name: str, now: float | None = None, partial: bool = False
) -> Record:
    """A run's record from its history and the content of its `progress.json`."""
    state = clean(progress.get("state"), 40)
    known = history.settled(now=now if now is not None else history.t or 0.0, ended=state in FINISHED)
    ended = known.over or state in FINISHED
    steps = tuple(Step(t=t, step=step, value=value, resumed=bool(edge)) for t, step, value, edge in known.curve)
    interruptions = [
        Interruption(stopped_t=stopped, resumed_t=max(stopped, resumed), stopped_step=step, resumed_step=back,
                     source=source, cause=cause)
        for stopped, resumed, step, back, source, cause, _ in known.interruptions
    ]  # fmt: skip
    is_open = known.last is not None and known.broken and not ended
    if is_open and known.last is not None:
        interruptions.append(
            Interruption(stopped_t=known.last[0], resumed_t=None, stopped_step=known.last[1], resumed_step=None,
                         source="", cause=cause_of(known.signs)[1])
        )  # fmt: skip
    metric, metrics = known.metric or "loss", progress.get("metrics")
    t, step, value = known.last or (None, None, None)
    world = whole(progress.get("world_size")) or known.world
    rates = sorted((total / count, count) for count, total in known.rates.values())
    pauses = numbers(progress.get("pauses_s")) or known.pauses
    return Record(
        name=clean(progress.get("name") or name),
        state="done" if ended and state != "failed" else state,
        metric=clean(metric, 60),
        steps=steps,
        saves=tuple(
            Save(t=at, step=of, reason=why, seconds=took, stall_s=stall) for at, of, why, took, stall in known.saves
        ),
        saved=known.counts.get("save", 0),
        interruptions=tuple(interruptions),
        interrupted=known.interrupted + is_open,
        by_cause={cause: (int(count), seconds) for cause, (count, seconds) in known.by_cause.items()},
        seconds={share: known.seconds[share] for share in SHARES},
        held={int(ranks) or world or 0: seconds for ranks, seconds in known.held.items()},
        useful_rank_seconds=known.useful_ranks if known.world else known.seconds["training"] * (world or 0),
        total_steps=whole(progress.get("total_steps")),
        world=world,
        step=whole(progress.get("last_step")) if "last_step" in progress else step,
        value=number(metrics.get(metric)) if isinstance(metrics, dict) else value,
        lowest=known.lowest,
        step_t=number(progress.get("last_step_t")) or t,
        checkpoint_step=whole(progress.get("last_checkpoint_step"))
        if "last_checkpoint_step" in progress
        else known.saves[-1][1] if known.saves else None,
        checkpoint_t=number(progress.get("last_checkpoint_t")) or (known.saves[-1][0] if known.saves else None),
        checkpoint_path=clean(progress.get("last_checkpoint_path")),
        error=first_line(progress.get("last_error")),
        not_finite=known.not_finite,
        begin=known.begin,
        recent_rate=_recent(known),
        usual_rate=1 / _middle(rates) if rates else None,
        step_seconds=number(progress.get("step_s")) or (statistics.median(known.gaps) if known.gaps else None),
        pause_seconds=pauses[1] if len(pauses) > 1 else None,
        faults=sum(known.counts.get(kind, 0) for kind in FAULTS),
        recoveries=known.counts.get("restore", 0),
        events=tuple(
            RunEvent(at=moment(at), kind=kind, step=of, seconds=took, text=text)
            for at, kind, of, took, text in known.events
        ),
        partial=partial,
    )  # fmt: skip


def moment(t: float) -> datetime:
    """Unix seconds as a time."""
    return datetime.fromtimestamp(t, UTC)


def _recent(history: History) -> float | None:
    """Steps per second of the last minute of steps; of the newest where it took longer."""
    since = (history.last[0] if history.last else 0.0) - RECENT_SECONDS
    newest = [slot for slot in history.slots if slot[0] - slot[2] >= since] or history.slots[-1:]
    spent = sum(slot[2] for slot in newest)
    return sum(slot[1] for slot in newest) / spent if spent > 0 else None


def _middle(sizes: Sequence[tuple[float, float]]) -> float:
    """The median of values that come with how often each is there, smallest first."""
    half = sum(count for _, count in sizes) / 2
    for place, (value, count) in enumerate(sizes):
        half -= count
        if half == 0 and place + 1 < len(sizes):
            return (value + sizes[place + 1][0]) / 2
        if half <= 0:
            break
    return value


def at_of(value: object) -> datetime | None:
    """Unix seconds as a time; None where they are none."""
    seconds = number(value)
    try:
        return None if seconds is None else moment(seconds)
    except (OverflowError, OSError, ValueError):
        return None


def numbers(values: object) -> list[float]:
    """The finite numbers of a list; empty where it is none."""
    return [exact for value in (values if isinstance(values, list) else []) if (exact := number(value)) is not None]
