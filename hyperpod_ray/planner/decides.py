"""What decides when a run ends: days with one span at its ends and all others at their central figures."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hyperpod_ray.planner import goodput
from hyperpod_ray.planner.failures import LEVELS
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.planner.ranges import DAY, Range

SMALL = 0.001
"""A span that moves the end by less than this share of it decides nothing."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """One span, and the days that it makes of the run."""

    name: str
    days: Range

    @property
    def width(self) -> float:
        """Days between its ends."""
        return self.days.high - self.days.low


def drivers(outlook: Outlook) -> list[Driver]:
    """Spans that move the end, widest first; empty where no speed is known."""
    work = outlook.work_seconds
    if work is None or outlook.job.whole:
        return []
    share = outlook.goodput()
    if share <= 0:
        return []
    central = work.central / DAY
    factors = [Driver(name="speed of a whole run", days=work.map(lambda seconds: seconds / DAY / share))]
    rates = [outlook.goodput(level, only_rate=True) for level in LEVELS]
    factors.append(_driver("how often it is interrupted", central, rates))
    run = outlook.run("central")
    ends = [outlook.run(level) for level in LEVELS]
    restarts = [
        goodput.goodput(replace(run, restart=extreme.restart, waiting=outlook.cluster.repair[0][index]), outlook.every)
        if not outlook.cluster.spares
        else goodput.goodput(replace(run, restart=extreme.restart), outlook.every)
        for index, extreme in enumerate(ends)
    ]
    factors.append(_driver("restart, and the wait for a node", central, restarts))
    stalls = [
        goodput.goodput(replace(run, stall=extreme.stall, usable_after=extreme.usable_after), outlook.every)
        for extreme in ends
    ]
    factors.append(_driver("stop of steps for a save", central, stalls))
    if outlook.job.save_every_seconds:
        best = outlook.interval.goodput
        factors.append(_driver("interval of saves, as set and best", central, [best, share, share]))
    wide = [driver for driver in factors if driver.width > SMALL * central]
    return sorted(wide or factors[:1], key=lambda driver: -driver.width)


def _driver(name: str, central: float, shares: list[float]) -> Driver:
    days = [central / share if share > 0 else float("inf") for share in shares]
    return Driver(name=name, days=Range(min(days), days[1], max(days)))


def bound_by(outlook: Outlook) -> str:
    """What decides the end, in one sentence; empty where no speed is known."""
    ranked = drivers(outlook)
    if not ranked:
        return ""
    widest, *rest = ranked
    runners_up = ", ".join(f"{driver.name} {driver.width:.3g}" for driver in rest)
    return f"What decides it: {widest.name}, {widest.width:.3g} days between its ends; {runners_up}."
