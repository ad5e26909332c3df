"""Is one of the run's nodes about to be taken away?

Ray's watcher pushes a notice to every worker, so rank 0 only looks at what it has. `ray.train.get_preemption_info()`
answers the same question with a broadcast through one actor that all ranks must enter: a barrier per look, which at
a thousand ranks is a thousand actor calls, and which waits for spares and dead ranks. It is not used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hyperpod_ray_training import torchrun
from hyperpod_ray_training.journal import Journal
from hyperpod_ray_training.settings import Settings

NONE, DRAIN, DEADLINE, SIGNAL, LEAVE = 0.0, 1.0, 2.0, 3.0, 4.0
_REASONS = {DRAIN: "drain", DEADLINE: "deadline", SIGNAL: "signal", LEAVE: "leave"}
_SIGNALS = {SIGNAL: torchrun.SAVE.name, LEAVE: torchrun.LEAVE.name}
_MOST_STEPS = 10_000


def notice() -> Any:
    """The notice Ray's watcher has left with this worker (`ray.train.PreemptionInfo`), or None."""
    from ray.train.v2._internal.execution.context import get_train_context

    try:
        return get_train_context().preemption_context.preemption_info
    except RuntimeError:  # local mode: no Ray worker, no watcher
        return None


class DrainWatch:
    """Rank 0's eyes. The other ranks hear of it by the vote in `Resumable`.

    Under torchrun every rank has eyes: a signal may reach one of them only.

    Args:
        settings: How often to look, and how long before the deadline the second save starts.
        journal: Where a notice is written down.
        clock: Seconds that never jump.
    """

    def __init__(self, settings: Settings, journal: Journal, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings, self.journal, self.clock = settings, journal, clock
        self.known: Any = None
        self.deadline: float | None = None
        self.saved_again = False
        self.next_look = 0
        self.looked = (0, clock())

    def begin(self, step: int) -> None:
        """Training continues at `step`."""
        self.next_look, self.looked = step, (step, self.clock())

    def due(self, step: int) -> bool:
        """Whether to look at this step; the same on every rank."""
        return step >= self.next_look

    def look(self, step: int, *, last_save_s: float) -> tuple[float, int]:
        """What to do about a notice (NONE, DRAIN or DEADLINE) or a signal, and after how many steps to look again."""
        if signal := torchrun.heard():
            return (LEAVE if signal is torchrun.LEAVE else SIGNAL), 1
        info, now = notice(), self.clock()
        step_s = (now - self.looked[1]) / max(1, step - self.looked[0])
        self.looked = (step, now)
        if info is None:
            return NONE, max(1, min(int(self.settings.drain_check_interval_s / max(step_s, 1e-6)), _MOST_STEPS))
        key = (info.deadline_ms, tuple(info.preempted_node_ids))
        if key != self.known:
            self.known, self.saved_again = key, False
            # by the monotonic clock from here on: the wall clock may jump
            self.deadline = now + info.deadline_ms / 1000 - time.time() if info.deadline_ms else None
            self.journal.event(
                "drain",
                step=step,
                deadline_t=(info.deadline_ms or 0) / 1000,
                ranks=info.preempted_ranks,
                node=",".join(node[:8] for node in info.preempted_node_ids),
            )
            self.journal.update(at_once=True, state="draining")
            return DRAIN, 1
        margin_s = max(self.settings.deadline_margin_s, 3 * last_save_s)
        if self.deadline is not None and now >= self.deadline - margin_s and not self.saved_again:
            self.saved_again = True
            return DEADLINE, 1
        return NONE, 1

    def heard(self, step: int, *, code: float, every: float) -> str | None:
        """Take over what rank 0 found: the reason to save now, or None."""
        self.next_look = step + max(1, int(every))
        if code in _SIGNALS:
            self.journal.event("drain", step=step, signal=_SIGNALS[code])
            self.journal.update(at_once=True, state="draining")
        return _REASONS.get(code)
