"""How far the ranks of a generation are, and which of them hangs. Decisions only: no clock.

A rank hangs where nobody begins a further collective and this one has begun fewer than the others.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from hyperpod_ray_training.spares.members import Limits, Member

_YOUNG_STEPS, _YOUNG_FACTOR = 3, 8.0
"""The first steps of a generation may compile, restore or meet again: the limit for a hang is longer."""


@dataclass
class Progress:
    """What the ranks of a generation have done: collectives begun, steps finished."""

    total: int = 0
    since: float = 0.0
    steps: int = 0
    first_step: int | None = None
    step_t: float | None = None
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=50))

    def behind(self, now: float, holders: Collection[Member], limits: Limits) -> list[tuple[Member, str]]:
        """The ranks that hang, each with what shows it."""
        if any(member.busy for member in holders):  # storage is slow, not a rank
            self.since = now
            return []
        self._count_steps(now, max((member.step for member in holders), default=0))
        total = sum(member.seq for member in holders)
        if total != self.total:
            self.total, self.since = total, now
            return []
        limit = self.hang_limit_s(limits)
        if not total or now - self.since <= limit:
            return []
        least, most = min(member.seq for member in holders), max(member.seq for member in holders)
        self.since = now
        if least == most:
            return []  # nobody is behind: the process group's own limit decides
        why = f"hangs for {limit:.1f} s: {least} collectives begun, others {most}"
        return [(member, why) for member in holders if member.seq == least]

    def _count_steps(self, now: float, step: int) -> None:
        if self.first_step is None:
            self.first_step = step
        done = step - self.first_step
        if done > self.steps:
            if self.step_t is not None:
                self.durations.append((now - self.step_t) / (done - self.steps))
            self.steps, self.step_t = done, now

    def hang_limit_s(self, limits: Limits) -> float:
        """So long nobody may get on, while one rank is behind, before that rank counts as hung."""
        median = statistics.median(self.durations) if self.durations else 0.0
        limit = max(limits.hang_s, limits.hang_steps * median)
        return limit * (_YOUNG_FACTOR if self.steps < _YOUNG_STEPS else 1.0)
