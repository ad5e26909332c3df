"""How often a rank would have copies, after what they have cost. Decisions only: no clock, no thread.

A copy costs what the loop waits for it, and what steps take longer beside it: the GPU waits before its optimizer,
memory and network are shared. The first is measured at each copy. The second is the time of the steps that run beside a
copy, beyond the median of those that run without one. Where a copy comes after each step there are none of those: a few
copies are skipped once to see some, unless nobody notices a copy anyway.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field

MOST_STRETCH = 64
"""At least one copy in so many is made."""
UNNOTICED_S = 0.02
"""Copies that hold a step up for less than this are never skipped."""
SETTLED, SETTLED_AGAIN = 8, 4
"""Copies of a run, and of a later generation, before their cost is judged: they take memory, and steps are watched
beside them."""
JUDGED = 3
"""How often to copy follows from the median of so many copies: one that met a busy moment says little."""
STEPS = 8
"""Newest steps by which the time of a step is known."""


@dataclass
class Pacing:
    """What the copies of a generation have cost this rank.

    Args:
        share: Of the steps' time that copies may cost; 0: no copy is skipped.
        steps: Between two copies, as asked for.
    """

    share: float
    steps: int = 1
    stretch: int = 1
    """A copy after so many times as many steps as asked for: what all ranks have agreed on."""
    _held_s: deque[float] = field(default_factory=lambda: deque(maxlen=JUDGED))
    _stalls_s: deque[float] = field(default_factory=lambda: deque(maxlen=JUDGED))
    _longer_s: deque[float] = field(default_factory=lambda: deque(maxlen=JUDGED))
    _exchanges_s: deque[float] = field(default_factory=lambda: deque(maxlen=JUDGED))
    """Of each copy: so long the loop waited, the GPU waited, steps beside it took longer, its exchange took."""
    _free_s: deque[float] = field(default_factory=lambda: deque(maxlen=STEPS))
    _beside_s: deque[float] = field(default_factory=lambda: deque(maxlen=STEPS))
    """Seconds of steps without a copy, and beside one."""
    _of_this_copy: list[float] = field(default_factory=list)
    _copies: int = 0
    _settled: int = SETTLED
    _stepped_t: float | None = None
    _beside: bool = False

    def take_up(self, stretch: int) -> None:
        """Continue as seldom as the generation before, for which copies were large."""
        if stretch > 1 and self.share:
            self.stretch, self._settled = stretch, SETTLED_AGAIN

    def stepped(self, clock_s: float, *, under_way: bool) -> None:
        """A step is over; `under_way` is whether a copy is, into the next step."""
        if self._stepped_t is not None:
            seconds = clock_s - self._stepped_t
            (self._beside_s if self._beside else self._free_s).append(seconds)
            if self._beside:
                self._of_this_copy.append(seconds)
        self._stepped_t, self._beside = clock_s, under_way

    def left(self, clock_s: float) -> None:
        """The loop has saved or paused until now: no part of the step under way."""
        self._stepped_t = None if self._stepped_t is None else clock_s

    def copied(self, clock_s: float, *, held_s: float) -> None:
        """A copy begins its way, for which the loop has waited so long: no part of a step."""
        self._held_s.append(held_s)
        self._copies += 1
        self._of_this_copy = []
        self._stepped_t, self._beside = clock_s, True

    def settled(self, *, exchange_s: float, stall_s: float) -> None:
        """The newest copy is over: so long its exchange took, and the GPU waited for it."""
        self._exchanges_s.append(exchange_s)
        self._stalls_s.append(stall_s)
        if self._free_s and self._of_this_copy:
            step_s = statistics.median(self._free_s)
            self._longer_s.append(sum(seconds - step_s for seconds in self._of_this_copy))

    def ask(self) -> int:
        """So seldom that an exchange is over before the next one, and that copies cost their share of steps at most."""
        if not self.share:
            return 1
        if self._copies < self._settled or len(self._free_s) + len(self._beside_s) < JUDGED:
            return self.stretch
        step_s = max(1e-6, statistics.median(self._free_s or self._beside_s))
        exchange_s = _median(self._exchanges_s)
        # an exchange that nobody notices must not make copies seldom
        exchange_s = exchange_s if exchange_s > UNNOTICED_S else 0.0
        # where the loop waits for its GPU in each step, the GPU's wait is a part of what the step took longer
        cost_s = _median(self._held_s) + max(0.0, _median(self._stalls_s), _median(self._longer_s))
        often = 1.0 if cost_s <= UNNOTICED_S else cost_s / (self.share * step_s)
        if len(self._free_s) < JUDGED and _median(self._held_s) + _median(self._exchanges_s) > UNNOTICED_S:
            often = max(often, (1 + max(1, math.ceil(exchange_s / step_s))) * self.steps)
        return max(1, min(MOST_STRETCH, math.ceil(max(often, exchange_s / step_s) / self.steps)))


def _median(seconds: deque[float]) -> float:
    return statistics.median(seconds) if seconds else 0.0
