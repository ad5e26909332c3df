"""How long the steps of a run take, and which pauses between them are usual. Decisions only: no clock.

Who watches a run compares the age of its last step with this: a run that stands longer than it ever does, hangs.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

_STEPS = 50
_PAUSES = 8


class Pace:
    """The median of the newest steps, the best that it has been, and the longest pauses between two steps.

    Args:
        before: What an earlier attempt of the run has noted, from its `progress.json`; its pauses stay known.
        world: Ranks now. With another number of them the best begins afresh.
    """

    def __init__(self, before: Mapping[str, Any] | None = None, *, world: int = 1) -> None:
        known = before or {}
        self.gaps: deque[float] = deque(maxlen=_STEPS)
        self.pauses = _numbers(known.get("pauses_s"))
        same = known.get("world_size") == world
        self.best = next(iter(_numbers([known.get("best_step_s")])), None) if same else None
        self.last: float | None = None

    def stepped(self, now: float) -> None:
        """A step ended at this moment of a clock that never goes back."""
        if self.last is not None:
            gap = now - self.last
            self.gaps.append(gap)
            if len(self.pauses) < _PAUSES or gap > self.pauses[-1]:
                self.pauses = sorted([*self.pauses, gap], reverse=True)[:_PAUSES]
        self.last = now

    def fields(self) -> dict[str, Any]:
        """For `progress.json`: medians `step_s` and `best_step_s` in seconds, and `pauses_s`, longest first."""
        if not self.gaps:
            return {}
        median = statistics.median(self.gaps)
        if len(self.gaps) == _STEPS:  # a few steps alone may be quick by chance
            self.best = median if self.best is None else min(self.best, median)
        return {
            "step_s": round(median, 4),
            "best_step_s": None if self.best is None else round(self.best, 4),
            "pauses_s": [round(pause, 3) for pause in self.pauses],
        }


def _numbers(found: Any) -> list[float]:
    """What a file from before holds, where it holds numbers."""
    listed: Iterable[Any] = found if isinstance(found, list) else ()
    kept = [float(item) for item in listed if isinstance(item, (int, float)) and not isinstance(item, bool)]
    return sorted(kept, reverse=True)[:_PAUSES]
