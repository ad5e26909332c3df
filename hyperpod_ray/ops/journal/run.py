"""A training run as its journal has it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hyperpod_ray.ops.in_ray.history import History, clean, number
from hyperpod_ray.ops.journal.record import Record, RunEvent, at_of, numbers, record_of


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training run as its own journal has it: `progress.json`, and all of `events.jsonl`, added up."""

    name: str
    job: str
    """ID of the job that trains it."""
    cluster: str
    namespace: str
    state: str
    """starting, restoring, running, saving, paused, draining, recovering, done or failed."""
    at: datetime
    """When this was read, by the cluster's clock: ages are counted from it, and this machine's clock plays no part."""
    step: int | None = None
    steps_total: int | None = None
    step_seconds: float | None = None
    """Median seconds of the newest steps."""
    best_step_seconds: float | None = None
    """The lowest that this median has been with this number of ranks: the run's own history."""
    longest_pause_seconds: float | None = None
    """The longest pause between two steps that happened at least twice: saves and validations that are no hang."""
    part_seconds: float | None = None
    """Median seconds between parts of a step, such as micro-batches, where the loop notes them."""
    longest_part_pause_seconds: float | None = None
    """The longest pause between two parts that happened at least twice."""
    loss: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    began: datetime | None = None
    """When the run wrote its first line."""
    started: datetime | None = None
    """When the newest attempt began."""
    state_since: datetime | None = None
    last_step_at: datetime | None = None
    last_part_at: datetime | None = None
    last_checkpoint_at: datetime | None = None
    last_checkpoint_step: int | None = None
    copy_every_steps: int | None = None
    """Steps from one copy in a neighbour's memory to the next, as paced now; None where the run keeps none."""
    world_size: int | None = None
    device: str = ""
    """What its ranks compute on, such as `cuda` or `cpu`; empty where it does not say."""
    attempt: str = ""
    """Name of the newest start of the workers, a part of its checkpoints' names."""
    last_error: str = ""
    transport: str = ""
    """How NCCL sends between ranks: efa, sockets, infiniband, or its own word; empty: not said."""
    misses_efa: bool = False
    """Whether ranks of several nodes that have EFA send by something else."""
    folder: str = ""
    faults: int = 0
    """Events `error`, `lost` and `fault`, of the whole run."""
    recoveries: int = 0
    """Restores, of the whole run."""
    events: tuple[RunEvent, ...] = ()
    """The newest, oldest first."""
    record: Record | None = None
    """All that its journal adds up to; None where no journal was read."""

    @property
    def goodput(self) -> float | None:
        """The share of its time that was spent on steps that last."""
        return self.record.goodput if self.record else None

    @property
    def spent_seconds(self) -> dict[str, float]:
        """Seconds of the run by what they were spent on."""
        return {share: round(spent, 3) for share, spent in self.record.seconds.items()} if self.record else {}

    @property
    def lost_by_cause(self) -> dict[str, float]:
        """Seconds that were no training, by cause."""
        return {cause: round(seconds, 3) for cause, seconds in self.record.lost.items()} if self.record else {}

    @property
    def copies_in_words(self) -> str:
        """How often its ranks copy their state; empty where they do not."""
        if self.copy_every_steps is None:
            return ""
        pace = "each step" if self.copy_every_steps == 1 else f"every {self.copy_every_steps:,} steps"
        return f"a copy in a neighbour's memory {pace}"

    @property
    def steps_per_second(self) -> float | None:
        """The rate of the newest steps."""
        return 1 / self.step_seconds if self.step_seconds else None

    @property
    def step_age_seconds(self) -> float | None:
        """Seconds since the last step ended."""
        return None if self.last_step_at is None else max(0.0, (self.at - self.last_step_at).total_seconds())

    @property
    def checkpoint_age_seconds(self) -> float | None:
        """Seconds since the last checkpoint was complete."""
        if self.last_checkpoint_at is None:
            return None
        return max(0.0, (self.at - self.last_checkpoint_at).total_seconds())


def run_of(
    progress: Mapping[str, Any],
    history: History,
    *,
    name: str,
    at: datetime,
    job: str = "",
    cluster: str = "",
    namespace: str = "",
    folder: str = "",
    partial: bool = False,
) -> Run:
    """A run as a snapshot has it.

    Args:
        progress: The content of `progress.json`.
        history: What its events add up to.
        name: Its name, where `progress` has none.
        at: The cluster's time.
        job: ID of the job that trains it.
        cluster: RayCluster of the job.
        namespace: Namespace of the RayCluster.
        folder: Its folder; empty: the folder of its newest checkpoint.
        partial: Whether `history` lacks the run's first lines.
    """
    record = record_of(history, progress, name=name, now=at.timestamp(), partial=partial)
    part_pauses = numbers(progress.get("part_pauses_s"))
    metrics = progress.get("metrics")
    known = metrics if isinstance(metrics, dict) else {}
    figures = {clean(key, 60): value for key, raw in known.items() if (value := number(raw)) is not None}
    starts = [start for key in ("started_t", "begun_t") if (start := at_of(progress.get(key)))]
    return Run(
        name=record.name,
        job=job,
        cluster=cluster,
        namespace=namespace,
        state=record.state or "unknown",
        at=at,
        step=record.step,
        steps_total=record.total_steps,
        step_seconds=record.step_seconds,
        best_step_seconds=number(progress.get("best_step_s")),
        longest_pause_seconds=record.pause_seconds,
        part_seconds=number(progress.get("part_s")),
        longest_part_pause_seconds=part_pauses[1] if len(part_pauses) > 1 else None,
        loss=figures.get("loss") if known else record.value if record.metric == "loss" else None,
        metrics=figures,
        began=at_of(record.begin) or min(starts, default=None),
        started=max(starts, default=None),
        state_since=at_of(progress.get("state_t")),
        last_step_at=at_of(record.step_t),
        last_part_at=at_of(progress.get("last_part_t")),
        last_checkpoint_at=at_of(record.checkpoint_t),
        last_checkpoint_step=record.checkpoint_step,
        copy_every_steps=_whole(progress.get("copy_every_steps")),
        world_size=record.world,
        device=clean(progress.get("device"), 20),
        transport=clean(progress.get("transport"), 20),
        misses_efa=_misses_efa(progress),
        attempt=clean(progress.get("attempt"), 60),
        last_error=record.error,
        folder=folder or record.checkpoint_path.rpartition("/")[0],
        faults=record.faults,
        recoveries=record.recoveries,
        events=record.events,
        record=record,
    )


def _whole(value: object) -> int | None:
    return int(figure) if (figure := number(value)) is not None and figure >= 1 else None


def _misses_efa(progress: Mapping[str, Any]) -> bool:
    """Whether ranks on several nodes with EFA send by something else."""
    transport = progress.get("transport")
    known = progress.get("efa") is True and progress.get("across_nodes") is True and isinstance(transport, str)
    return known and transport not in ("", "efa")
