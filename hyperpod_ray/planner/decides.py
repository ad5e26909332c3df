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
    found = [Driver(name="speed of a whole run", days=work.map(lambda seconds: seconds / DAY / share))]
    rates = [outlook.goodput(level, only_rate=True) for level in LEVELS]
    found.append(_driver("how often it is interrupted", central, rates))
    run = outlook.run("central")
    ends = [outlook.run(level) for level in LEVELS]
    restarts = [
        goodput.goodput(replace(run, restart=end.restart, waiting=outlook.cluster.repair[0][index]), outlook.every)
        if not outlook.cluster.spares
        else goodput.goodput(replace(run, restart=end.restart), outlook.every)
        for index, end in enumerate(ends)
    ]
    found.append(_driver("restart, and the wait for a node", central, restarts))
    stalls = [
        goodput.goodput(replace(run, stall=end.stall, usable_after=end.usable_after), outlook.every) for end in ends
    ]
    found.append(_driver("stop of steps for a save", central, stalls))
    if outlook.job.save_every_seconds:
        best = outlook.interval.goodput
        found.append(_driver("interval of saves, as set and best", central, [best, share, share]))
    wide = [driver for driver in found if driver.width > SMALL * central]
    return sorted(wide or found[:1], key=lambda driver: -driver.width)


def _driver(name: str, central: float, shares: list[float]) -> Driver:
    days = [central / share if share > 0 else float("inf") for share in shares]
    return Driver(name=name, days=Range(min(days), days[1], max(days)))


def bound_by(outlook: Outlook) -> str:
    """What decides the end, in one sentence; empty where no speed is known."""
    found = drivers(outlook)
    if not found:
        return ""
    first, *rest = found
    more = ", ".join(f"{driver.name} {driver.width:.3g}" for driver in rest)
    return f"What decides it: {first.name}, {first.width:.3g} days between its ends; {more}."
