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
_PARTED = 3
"""Steps with parts until these count: a loop that runs ahead of its device stands at the same place in each step."""


class Pace:
    """The median of the newest steps, the best that it has been, and the longest pauses between two steps.

    Args:
        before: What an earlier attempt of the run has noted, from its `progress.json`; its pauses stay known.
        world: Ranks now. With another number of them the best begins afresh.
    """

    def __init__(self, before: Mapping[str, Any] | None = None, *, world: int = 1) -> None:
        earlier = before or {}
        self.gaps: deque[float] = deque(maxlen=_STEPS)
        self.pauses = _numbers(earlier.get("pauses_s"))
        same = earlier.get("world_size") == world
        self.best = next(iter(_numbers([earlier.get("best_step_s")])), None) if same else None
        self.last: float | None = None

    def stepped(self, now: float) -> None:
        """A step ended at this moment of a clock that never goes back."""
        if self.last is not None:
            gap = now - self.last
            self.gaps.append(gap)
            if len(self.pauses) < _PAUSES or gap > self.pauses[-1]:
                self.pauses = sorted([*self.pauses, gap], reverse=True)[:_PAUSES]
        self.last = now

    def left(self) -> None:
        """Forget the last moment: what follows it is no gap."""
        self.last = None

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


class Parts:
    """The same of the parts of a step, such as micro-batches, for loops that note them: a finer clock for long steps.

    The end of a step is a part too, so that the gap at which a loop waits for its device is one of the gaps.
    """

    def __init__(self) -> None:
        self.pace = Pace()
        self.steps = 0
        self._noted = False

    def noted(self, now: float) -> None:
        """A part ended at this moment of a clock that never goes back."""
        self._noted = True
        self.pace.stepped(now)

    def stepped(self, now: float) -> None:
        """The step ended."""
        self.steps = self.steps + 1 if self._noted else 0
        if self._noted:
            self.pace.stepped(now)
        else:
            self.pace.left()
        self._noted = False

    def fields(self) -> dict[str, Any]:
        """For `progress.json`: `part_s` and `part_pauses_s`. None unless the last few steps all had parts."""
        measured = self.pace.fields() if self.steps >= _PARTED else {}
        return {"part_s": measured.get("step_s"), "part_pauses_s": measured.get("pauses_s")}


def _numbers(value: Any) -> list[float]:
    """What a file from before holds, where it holds numbers."""
    listed: Iterable[Any] = value if isinstance(value, list) else ()
    kept = [float(number) for number in listed if isinstance(number, (int, float)) and not isinstance(number, bool)]
    return sorted(kept, reverse=True)[:_PAUSES]
