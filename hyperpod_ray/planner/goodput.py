"""The share of time that is training which lasts, in closed form, and the interval that makes it largest.

One model for both ways to save. Steps run for `every` seconds, then stop for `stall`; a save that began is usable after
`usable_after` (for a synchronous save that is the stall). Interruptions come at a constant rate, also during recovery,
which then begins again. With p = every + stall, rate r and down time R:

    goodput = every · r · e^(-r(R + usable_after - stall)) / (e^(r p) - 1)

For a synchronous save this is the exact renewal formula (Daly 2006). For an asynchronous one the shift by
`usable_after - stall` is what an interruption costs beside the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

FLAT = 0.001
"""An interval counts as best while its goodput is within a tenth of a point of the optimum."""
_STEPS = 80


@dataclass(frozen=True, kw_only=True)
class Run:
    """What happens to a run, in seconds."""

    stall: float
    """Steps stop for a save so long."""
    usable_after: float
    """From the beginning of a save until it can be restored."""
    rate: float
    """Interruptions per second."""
    restart: float
    """From an interruption to the first step, but for waiting for a node."""
    waiting: float = 0.0
    """Mean wait for a node."""

    @property
    def down(self) -> float:
        """From an interruption to the first step."""
        return self.restart + self.waiting

    @property
    def shortest(self) -> float:
        """The shortest interval: one save at a time."""
        return max(self.usable_after - self.stall, 1.0)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The best interval between saves, with the flat part around it."""

    seconds: float
    low: float
    high: float
    goodput: float


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Where the time goes, as shares that add up to 1 with `useful`."""

    useful: float
    stall: float
    redo: float
    restart: float
    waiting: float


def goodput(run: Run, every: float) -> float:
    """The share of wall time that ends up in the finished work, saving after each `every` seconds of steps."""
    if every <= 0:
        return 0.0
    if run.rate <= 0:
        return every / (every + run.stall)
    exponent = run.rate * (every + run.stall)
    if exponent > 700:
        return 0.0
    behind = run.rate * (run.down + run.usable_after - run.stall)
    return every * run.rate * math.exp(-behind) / math.expm1(exponent)


def rule_of_thumb(run: Run) -> float:
    """The interval that the approximation gives: max(C, √(2 δ / λ))."""
    return max(run.shortest, math.sqrt(2 * run.stall / run.rate))


def best(run: Run) -> Interval:
    """The interval with the largest goodput, and how far it can move before that falls by a tenth of a point."""
    start = run.shortest
    longest = max(50 * start, 50 * math.sqrt(2 * max(run.stall, 1.0) / run.rate))
    seconds = _peak(lambda every: goodput(run, every), start, longest)
    top = goodput(run, seconds)
    low = _edge(lambda every: goodput(run, every) >= top - FLAT, seconds, start)
    high = _edge(lambda every: goodput(run, every) >= top - FLAT, seconds, longest)
    return Interval(seconds=seconds, low=low, high=high, goodput=top)


def _peak(function: Callable[[float], float], low: float, high: float) -> float:
    """The highest point of a function with one, by golden section on a logarithmic scale."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = math.log(low), math.log(high)
    for _ in range(_STEPS):
        lower_probe, upper_probe = b - ratio * (b - a), a + ratio * (b - a)
        if function(math.exp(lower_probe)) >= function(math.exp(upper_probe)):
            b = upper_probe
        else:
            a = lower_probe
    optimum = math.exp((a + b) / 2)
    return max((low, optimum, high), key=function)


def _edge(within: Callable[[float], bool], inside: float, outside: float) -> float:
    """Where, between a point that is good and an end, it stops being so."""
    if within(outside):
        return outside
    for _ in range(_STEPS):
        middle = math.sqrt(inside * outside)
        inside, outside = (middle, outside) if within(middle) else (inside, middle)
    return inside


def losses(run: Run, every: float) -> Losses:
    """Where the time goes. Restart and waiting are counted per interruption, what is left is work done again."""
    useful = goodput(run, every)
    stall = useful * run.stall / every
    # an interruption happens at any time, also while the last one is recovered from
    restart, waiting = run.rate * run.restart, run.rate * run.waiting
    over = useful + stall + restart + waiting
    if over > 1:  # so often that recoveries cut each other short
        scale = (1 - useful - stall) / (restart + waiting)
        restart, waiting = restart * scale, waiting * scale
    return Losses(
        useful=useful, stall=stall, redo=max(0.0, 1 - useful - stall - restart - waiting), restart=restart,
        waiting=waiting,
    )  # fmt: skip


def curve(run: Run, *, points: int = 60) -> list[tuple[float, float]]:
    """Interval and goodput from a tenth of the best interval to ten times it."""
    optimum = best(run)
    low = max(run.shortest, optimum.seconds / 10)
    return [(every, goodput(run, every)) for every in _spread(low, optimum.seconds * 10, points)]


def _spread(low: float, high: float, points: int) -> list[float]:
    return [low * (high / low) ** (index / (points - 1)) for index in range(points)]


def at(run: Run, *, rate: float) -> Run:
    """The same run with another rate of interruptions."""
    return replace(run, rate=rate)
