"""Predicted against published, point by point: the figures behind docs/plan-agreement.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hyperpod_ray.planner import data, fitting, memory, published, speed
from hyperpod_ray.planner.published import Question, Row
from hyperpod_ray.planner.ranges import Range


@dataclass(frozen=True, kw_only=True)
class Point:
    """A published figure with its prediction."""

    name: str
    row: Row
    published: float
    predicted: Range
    kept_out: bool

    @property
    def error(self) -> float:
        """Central figure over the published one, less 1."""
        return self.predicted.central / self.published - 1

    @property
    def inside(self) -> bool:
        """Whether the range holds the published figure."""
        return self.predicted.low <= self.published <= self.predicted.high


def steps() -> list[Point]:
    """Speed of steps alone."""
    return list(_speeds("steps"))


def runs() -> list[Point]:
    """Speed over whole runs."""
    return list(_speeds("run"))


def _speeds(question: Question) -> Iterator[Point]:
    outside = published.kept_out(question)
    for name, row in published.rows().items():
        if row.question != question:
            continue
        at = fitting.setting(row)
        if question == "steps":
            predicted = speed.steps(at)
        else:
            share = fitting.uninterrupted(row.gpus or fitting.UNKNOWN_GPUS)
            predicted = Range(*(share * value for value in speed.whole(at)))
        yield Point(
            name=name, row=row, published=row.speed, predicted=predicted, kept_out=row.group in outside
        )  # fmt: skip


def memories() -> list[Point]:
    """GiB of one GPU, of the rows that print it."""
    points = []
    for name, row in published.rows().items():
        if row.memory_gib is None:
            continue
        fit = fit_of(row)
        fitted = row.source == "titan-h100" and (row.pp > 1 or (row.cp == 1 and row.sequence == 8192))
        points.append(
            Point(name=name, row=row, published=row.memory_gib, predicted=fit.span, kept_out=not fitted)
        )  # fmt: skip
    return points


def fit_of(row: Row) -> memory.Fit:
    """The memory of a row, with its own recomputation."""
    recompute = row.recompute or "none"
    assert row.gpus is not None  # noqa: S101  (a row about memory has them, and one whose micro-batch is printed)
    parts = memory.parts(
        row.architecture, world=row.gpus, tokens=(row.sequences_per_gpu or 1) * row.sequence, recompute=recompute,
        parallel=row.parallel, lora_rank=16 if row.method == "lora" else 0, compiled=row.compiled,
        micro_batches=row.stage_micro_batches,
    )  # fmt: skip
    extra_gib = row.gpu_memory_gib - data.gpus()[row.gpu].memory_mib / 1024 if row.gpu_memory_gib else 0
    return memory.Fit(parts=parts, usable=memory.usable(row.gpu) + extra_gib, world=row.gpus, recompute=recompute,
        pipelined=row.pp > 1,
    )  # fmt: skip


def ran() -> list[tuple[str, Row, memory.Fit]]:
    """Configurations that are known to have run, with their predicted memory: their micro-batch is printed.

    Megatron's own sharding shares memory in other ways.
    """
    return [
        (name, row, fit_of(row))
        for name, row in published.rows().items()
        if row.question == "steps" and row.sequences_per_gpu and row.stack == "pytorch"
    ]


def coverage(points: Sequence[Point]) -> float:
    """Share of points inside their range."""
    return sum(point.inside for point in points) / len(points)


def median_error(points: Sequence[Point]) -> float:
    """Median of the errors of central figures, without their sign."""
    return statistics.median(abs(point.error) for point in points)


def outliers(points: Sequence[Point]) -> list[Point]:
    """Points outside their range, worst first."""
    return sorted((point for point in points if not point.inside), key=lambda point: -abs(point.error))
