"""Published speeds, whole runs and memory of training (`data/published.yaml`), in the planner's own terms.

Reading and checking all rows takes a while: only the fit and the page about it do so. A plan uses the fit.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hyperpod_ray.planner import PlanError, architecture, data
from hyperpod_ray.planner.architecture import Architecture
from hyperpod_ray.planner.data import Positive
from hyperpod_ray.planner.job import Precision, Stack
from hyperpod_ray.planner.memory import Recompute
from hyperpod_ray.planner.parallel import Parallel

Question = Literal["steps", "run", "memory"]


class Source(BaseModel):
    """A page that rows come from."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: Annotated[str, Field(min_length=8)]
    url: Annotated[str, Field(pattern=r"^https://")]
    as_of: date


class Row(BaseModel):
    """One published figure."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    question: Question
    gpu: str
    model: str
    sequence: int
    gpus: int | None = None
    precision: Precision
    stack: Stack
    recompute: Recompute | None = None
    method: Literal["full", "lora"] = "full"
    tp: int = 1
    cp: int = 1
    pp: int = 1
    ep: int = 1
    vp: int = 1
    batch: int | None = None
    """Sequences of one step, over all GPUs."""
    micro_batches: float | None = None
    """Of one step of a pipeline, where they do not follow from `batch`."""
    step_seconds: Positive | None = None
    recompute_counted: bool = False
    """Whether `tflops` has recomputation in it, as arXiv 2104.04473 counts: a quarter of all."""
    sequences_per_gpu: int | None = None
    compiled: bool = False
    tokens_per_second: Positive | None = None
    tflops: Positive | None = None
    mfu: Positive | None = None
    """Percent of the dense bf16 rate."""
    tokens: Positive | None = None
    gpu_hours: Positive | None = None
    memory_gib: Positive | None = None
    gpu_memory_gib: Positive | None = None
    """Of the accelerator, where it is not the usual one."""
    what: str
    printed: str
    published: Annotated[str, Field(pattern=r"^20\d\d-\d\d$")]
    source: str
    origin: Literal["read", "quoted"] = "read"
    unseen: bool = False
    """Collected when the form of the model stood: never in the fit, whatever the rule says."""

    @model_validator(mode="after")
    def _one_form(self) -> Row:
        by_step = self.step_seconds and self.batch and self.gpus
        forms = (self.tokens_per_second, self.tflops, self.mfu, self.gpu_hours and self.tokens, by_step or None)
        if sum(form is not None for form in forms) != (0 if self.question == "memory" else 1):
            raise PlanError(
                f"published.yaml: {self.what}: not one speed",
                expected="tokens_per_second, tflops, mfu, step_seconds with batch and gpus, or tokens with gpu_hours; "
                "none in a row about memory",
                fix="correct the row",
            )
        return self

    @property
    def architecture(self) -> Architecture:
        """The model."""
        return architecture.named(self.model)

    @property
    def parallel(self) -> Parallel:
        """How layers are split."""
        return Parallel(tensor=self.tp, context=self.cp, pipeline=self.pp, expert=self.ep, virtual=self.vp)

    @property
    def stage_micro_batches(self) -> float:
        """Micro-batches of one step of a pipeline; infinite where the source does not say.

        Raises:
            PlanError: A pipeline whose micro-batches nobody can know.
        """
        if self.micro_batches is not None:
            return self.micro_batches
        if self.pp == 1:
            return math.inf
        if self.batch is None or self.gpus is None:
            raise PlanError(
                f"published.yaml: {self.what}: pp without batch",
                expected="batch or micro_batches",
                fix="correct the row",
            )
        return self.batch * self.parallel.ranks / self.gpus / (self.sequences_per_gpu or 1)

    @property
    def speed(self) -> float:
        """Tokens per second of one GPU."""
        if self.tokens_per_second is not None:
            return self.tokens_per_second
        if self.step_seconds is not None and self.batch and self.gpus:
            return self.batch * self.sequence / self.step_seconds / self.gpus
        if self.tflops is not None and self.recompute_counted:
            model = self.architecture
            more = self.sequence / (6 * model.width) + model.vocabulary / (16 * model.layers * model.width)
            return self.tflops * 1e12 / (96 * model.layers * model.width**2 * (1 + more))
        if self.tflops is not None:
            return self.tflops * 1e12 / self.architecture.flop_per_token(self.sequence)
        if self.mfu is not None:
            rate = data.gpus()[self.gpu].bf16_tflops * 1e12
            return self.mfu / 100 * rate / self.architecture.flop_per_token(self.sequence)
        if self.tokens is None or self.gpu_hours is None:
            raise PlanError(f"published.yaml: {self.what}: no speed", expected="a row with one", fix="correct the row")
        return self.tokens / self.gpu_hours / 3600

    @property
    def group(self) -> tuple[str, ...]:
        """Rows that share source, model and accelerator are kept out of the fit together, or used together."""
        return (self.question, self.model, self.gpu, self.source)


@functools.cache
def sources() -> Mapping[str, Source]:
    """Pages by the name that rows use."""
    return {name: Source.model_validate(row) for name, row in _table()["sources"].items()}


@functools.cache
def rows() -> Mapping[str, Row]:
    """All rows by their id."""
    return {name: Row.model_validate(row) for name, row in _table()["rows"].items()}


@functools.cache
def _table() -> dict[str, dict[str, object]]:
    return data._load("published.yaml")


def kept_out(question: Question) -> frozenset[tuple[str, ...]]:
    """Groups that the fit does not see: those whose name has a SHA-256 that 3 divides, and those marked `unseen`.

    The rule knows neither figures nor other rows: nobody chooses, and a new row moves no old one.
    """
    members = [row for row in rows().values() if row.question == question]
    return frozenset(row.group for row in members if row.unseen or by_hash(row.group))


def by_hash(group: tuple[str, ...]) -> bool:
    """Whether the rule keeps a group out."""
    return int(hashlib.sha256("/".join(group).encode()).hexdigest(), 16) % 3 == 0
