"""Data files of the planner. Each figure has a source and the day on which it was read; one without is refused."""

from __future__ import annotations

import functools
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hyperpod_ray.core import project
from hyperpod_ray.planner.ranges import Range
from hyperpod_ray_rules import data_file

Level = Literal["low", "central", "high"]
Positive = Annotated[float, Field(gt=0)]


class Sourced(BaseModel):
    """A figure with its origin."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    as_of: date
    """The day on which it was entered."""
    compared: date | None = None
    """The day on which it was compared with its source again; None: it was not."""
    source: Annotated[str, Field(min_length=8)]
    """Where from; a bound of this project is named as one."""


class Constant(Sourced):
    """One number."""

    value: Positive
    what: str


class Seconds(Sourced):
    """A span of time."""

    seconds: tuple[float, float, float]
    what: str

    @property
    def range(self) -> Range:
        """Low, central, high."""
        return Range(*self.seconds)


class Gpu(Sourced):
    """A kind of accelerator."""

    memory_mib: Positive
    bf16_tflops: Positive
    host_gb_s: Positive


class NodeType(BaseModel):
    """What a node has beside the figures of the instance catalogue."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    gpu: str
    network_gbps: Positive


class Interruptions(Sourced):
    """Interruptions of one public run or cluster: a published rate, a count in an exposure, or a time between them."""

    what: str
    rate: Positive | None = None
    events: Annotated[int, Field(ge=0)] | None = None
    node_days: Positive | None = None
    mttf_hours: Positive | None = None
    nodes: Positive | None = None

    @property
    def per_thousand(self) -> float:
        """Interruptions per 1,000 node-days."""
        if self.rate is not None:
            return self.rate
        if self.events is not None and self.node_days is not None:
            return 1000 * self.events / self.node_days
        if self.mttf_hours is None or self.nodes is None:
            raise ValueError(f"{self.what}: give rate, events with node_days, or mttf_hours with nodes")
        return 1000 * 24 / (self.mttf_hours * self.nodes)


class Failures(BaseModel):
    """`failures.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    gpus_per_node: int
    levels: dict[Level, str]
    observations: dict[str, Interruptions]


class Fit(BaseModel):
    """`speed.yaml`: what `hyperpod_ray.planner.fitting` made of the published rows."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    attention: dict[str, Positive]
    """How much longer a FLOP of attention takes than one of a matrix product, by generation or software."""
    fp8: Positive
    fp8_experts: Positive
    recompute: dict[str, Positive]
    """Work of a step over that without recomputation."""
    steps: dict[str, float]
    """Coefficients of the logarithm of the share of the dense rate, by feature."""
    spread: dict[str, Positive]
    """Standard deviation of that logarithm, each group omitted once: dense, experts."""
    run: dict[str, float]
    """Coefficients of the logarithm of a whole run's speed over that of its steps, without interruptions."""
    run_spread: Positive
    rows: dict[str, int]
    """Rows behind it, by accelerator, precision, software and kind of model."""


class Shape(Sourced):
    """An architecture."""

    parameters: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    feed: int
    vocabulary: int
    active: int | None = None
    """Published number of active parameters of a mixture of experts."""
    tied: bool = False
    attention_bias: bool = False
    gated: bool = True
    linear_bias: bool = False
    query_key_norm: bool = False
    positions: int = 0
    window: int = 0
    full_layers: int = 0
    query_rank: int = 0
    kv_rank: int = 0
    rope_width: int = 0
    value_width: int = 0
    experts: int = 0
    experts_active: int = 0
    expert_feed: int = 0
    shared_feed: int = 0
    dense_layers: int = 0


@functools.cache
def _load(name: str) -> dict[str, Any]:
    data: dict[str, Any] = data_file.read(Path(__file__).parent / name)
    data.pop("about")
    return data


@functools.cache
def gpus() -> dict[str, Gpu]:
    """Kinds of accelerators."""
    return {name: Gpu.model_validate(row) for name, row in _load("gpus.yaml")["gpus"].items()}


@functools.cache
def node_types() -> dict[str, NodeType]:
    """Instance types with a known kind of accelerator."""
    return {name: NodeType.model_validate(row) for name, row in _load("gpus.yaml")["types"].items()}


@functools.cache
def failures() -> Failures:
    """Interruption rates."""
    return Failures.model_validate(_load("failures.yaml"))


@functools.cache
def speed() -> Fit:
    """The fit of published speeds."""
    return Fit.model_validate(_load("speed.yaml"))


@functools.cache
def models() -> dict[str, Shape]:
    """Architectures by name."""
    return {name: Shape.model_validate(row) for name, row in _load("models.yaml")["models"].items()}


@functools.cache
def storage() -> dict[str, Constant]:
    """Rates of FSx for Lustre."""
    return {name: Constant.model_validate(row) for name, row in _load("storage.yaml").items()}


@functools.cache
def memory() -> dict[str, Constant]:
    """Constants of the memory model."""
    return {name: Constant.model_validate(row) for name, row in _load("memory.yaml").items()}


@functools.cache
def times() -> dict[str, Seconds]:
    """Spans of detection, restart and saving."""
    return {name: Seconds.model_validate(row) for name, row in _load("times.yaml").items()}


@functools.cache
def node_durations() -> dict[str, tuple[Range, str]]:
    """What nodes take, in seconds, with the source: the spans that a review uses (`review/durations.yaml`)."""
    table = data_file.read(project.PACKAGE / "review" / "durations.yaml")["nodes"]
    return {
        name: (Range(*(60.0 * minutes for minutes in row["minutes"])), str(row["source"]))
        for name, row in table.items()
    }
