"""When to save: after so many steps, or after so many seconds that the ranks turn into steps together.

A clock differs from rank to rank, and a save needs them all at the same step. So the ranks agree on the time of a step:
once after the first steps, and again at each save.
"""

from __future__ import annotations

import time
from collections.abc import Callable

WARM_STEPS = 3
"""First steps of a process: they compile and allocate, and say little about the others."""
MEASURED_STEPS = 5
"""Steps between the warm ones and the first agreement."""


class SaveClock:
    """Whether a step is one to save at; every rank asks at every step and gets the same answer.

    Args:
        every_steps: Interval in steps.
        every_s: Interval in seconds; 0: the one in steps holds.
        agree: The largest of a value over all ranks.
        clock: Seconds.
    """

    def __init__(
        self,
        *,
        every_steps: int,
        every_s: float,
        agree: Callable[[float], list[float]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_steps, self.every_s = every_steps, every_s
        self.agree, self.clock = agree, clock
        self.steps = 0
        """Steps between two saves, as agreed last; 0 before the first agreement."""
        self.begin(0)

    def begin(self, step: int) -> None:
        """Training starts, or starts again, at this step."""
        self.first, self.next = step, step + WARM_STEPS
        self.since: tuple[int, float] | None = None
        self.measured = False

    def due(self, step: int) -> bool:
        """Whether to save now that `step` steps are done."""
        if not self.every_s:
            return step % self.every_steps == 0
        if step < self.next:
            return False
        now = self.clock()
        if self.since is None:  # warm: measure from here
            self.since, self.next = (step, now), step + MEASURED_STEPS
            return False
        (step_s,) = self.agree((now - self.since[1]) / (step - self.since[0]))
        self.steps = max(1, round(self.every_s / max(step_s, 1e-6)))
        self.since = (step, now)
        if not self.measured:  # the interval counts from the first step; what is past already is due at the next one
            self.measured, self.next = True, max(step + 1, self.first + self.steps)
            return False
        self.next = step + self.steps
        return True
