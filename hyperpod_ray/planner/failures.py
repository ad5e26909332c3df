"""How often training is interrupted: public rates, never one alone, and what a cluster's own record makes of them.

The record updates a Gamma prior: the exposure that a public rate is worth is chosen so that its 5 and 95 % quantiles
span the range from the low to the high rate as well as one Gamma distribution can.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from hyperpod_ray.planner import PlanError, data, reading
from hyperpod_ray.planner.data import Interruptions, Level
from hyperpod_ray.planner.ranges import DAY, Range

LEVELS: tuple[Level, ...] = get_args(Level)
MOST_PER_DAY = 24
"""Interruptions of one node in a day that a record can have."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Interruptions per 1,000 node-days of eight GPUs."""

    per_thousand: Range
    source: str

    def per_second(self, *, nodes: int, gpus_per_node: int) -> Range:
        """Interruptions per second of a job on some nodes; a node counts by its GPUs."""
        share = nodes * gpus_per_node / data.failures().gpus_per_node
        return self.per_thousand.map(lambda rate: rate / 1000 / DAY * share)


def published(level: Level = "central") -> Rates:
    """The public range; `level` is its central figure, the ends stay."""
    table = data.failures()
    rates = {rate_level: table.observations[table.levels[rate_level]] for rate_level in LEVELS}
    values = {rate_level: rates[rate_level].per_thousand for rate_level in LEVELS}
    words = "; ".join(
        f"{values[rate_level]:.3g} {rates[rate_level].what} ({rates[rate_level].source})" for rate_level in LEVELS
    )
    return Rates(per_thousand=Range(values["low"], values[level], values["high"]), source=words)


def from_file(path: Path) -> Rates:
    """Rates of your own record: `events`, `node_days`, `what`, `as_of` and `source` in a YAML file.

    The span is the 5 to 95 % interval of a Poisson count.

    Raises:
        PlanError: the file cannot be read, or lacks a figure or its source.
    """
    raw = reading.yaml_mapping(path, option="--failures", fix="give low, central, high or a file with your own record")
    try:
        interruptions = Interruptions.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, detail['loc']))}: {detail['msg'].lower()}" for detail in error.errors()[:5]
        )
        raise PlanError(
            f"--failures {path}: {problems}",
            expected="what, events, node_days, as_of and source",
            fix="count interruptions and node-days, and name their source",
        ) from None
    if interruptions.events is None or interruptions.node_days is None:
        raise PlanError(
            f"--failures {path}: no events and node_days",
            expected="both: a rate without its exposure has no span",
            fix="count interruptions (events) and the nodes times the days (node_days)",
        )
    count = "count interruptions (events) and the nodes times the days (node_days)"
    reading.number(interruptions.events, name=f"--failures {path}: events", low=0, high=1_000_000, fix=count)
    days = reading.number(interruptions.node_days, name=f"--failures {path}: node_days", low=0.1, high=1e9, fix=count)
    if interruptions.events > MOST_PER_DAY * days:
        raise PlanError(
            f"--failures {path}: {interruptions.events:,} events in {days:,.6g} node-days",
            expected=f"at most {MOST_PER_DAY} for a node and day: a node that fails more often trains nothing",
            fix=count,
        )
    low, high = poisson_interval(interruptions.events)
    low = low or gamma_quantile(0.05, 0.5)  # nothing was counted: Jeffreys' lower bound, for a rate is never zero
    scale = 1000 / interruptions.node_days
    # half an event where none was counted: Jeffreys' estimate, as of the lower bound
    central = max(interruptions.events, 0.5) * scale
    return Rates(
        per_thousand=Range(low * scale, central, high * scale), source=f"{interruptions.what} ({interruptions.source})"
    )


def poisson_interval(events: int, *, outside: float = 0.1) -> tuple[float, float]:
    """Bounds of a Poisson mean of which `events` were counted (exact, Garwood)."""
    low = 0.0 if events == 0 else gamma_quantile(outside / 2, events)
    return low, gamma_quantile(1 - outside / 2, events + 1)


@dataclass(frozen=True, kw_only=True)
class Belief:
    """A Gamma distribution of the rate: `events` in an exposure of `node_days`."""

    events: float
    node_days: float

    def seen(self, *, events: int, node_days: float) -> Belief:
        """The belief after a record."""
        return Belief(events=self.events + events, node_days=self.node_days + node_days)

    @property
    def per_thousand(self) -> Range:
        """Mean with 5 and 95 % quantiles, per 1,000 node-days."""
        scale = 1000 / self.node_days
        low, high = (gamma_quantile(share, self.events) * scale for share in (0.05, 0.95))
        return Range(low, self.events * scale, high)


def prior(rates: Rates) -> Belief:
    """The belief that a range stands for: the central rate as mean, and 5 and 95 % quantiles with the range's ratio."""
    low, central, high = rates.per_thousand
    target_ratio = math.log(high / low)
    few, many = 0.05, 1000.0
    for _ in range(60):
        events = math.sqrt(few * many)
        ratio = math.log(gamma_quantile(0.95, events) / max(1e-300, gamma_quantile(0.05, events)))
        few, many = (events, many) if ratio > target_ratio else (few, events)
    return Belief(events=few, node_days=1000 * few / central)


def gamma_quantile(share: float, shape: float) -> float:
    """Quantile of a Gamma distribution with scale 1; of large shapes by Wilson and Hilferty, to a millionth."""
    if shape > 10_000:
        normal = statistics.NormalDist().inv_cdf(share)
        return shape * (1 - 1 / (9 * shape) + normal / (3 * math.sqrt(shape))) ** 3
    low, high = 0.0, max(10.0, 10 * shape)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _gamma_below(shape, middle) < share else (low, middle)
    return (low + high) / 2


def _gamma_below(shape: float, x: float) -> float:
    """Regularized lower incomplete gamma function: a series below the mean, a continued fraction above it."""
    if x <= 0:
        return 0.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        step = shape
        while term > total * 1e-15:
            step += 1
            term *= x / step
            total += term
        return total * front
    b, c = x + 1 - shape, 1e300
    d = 1 / b
    fraction = d
    for index in range(1, 1000):
        a = -index * (index - shape)
        b += 2
        d, c = 1 / (a * d + b), b + a / c
        change = d * c
        fraction *= change
        if abs(change - 1) < 1e-14:
            break
    return 1 - front * fraction
