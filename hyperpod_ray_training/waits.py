"""How much of its time each rank waits for others, in a run without a coordinator; who holds them up is named.

A thread looks at the loop five times a second, as a member with spares does for its coordinator. Once every rank has
enough beats, the ranks exchange their shares with a question that they ask each other anyway: no step waits for it.
All ranks then judge alike, and the slow one says where it stands.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from hyperpod_ray_training.spares import stragglers
from hyperpod_ray_training.spares.stance import Stance

BEAT_S = 0.2


class Waits:
    """Beats of this rank, and what the shares of all of them say.

    Args:
        rank: This rank.
        world: Ranks of the run.
    """

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.habit = stragglers.Habit()
        self._over = threading.Event()
        self._busy = self.beats = self.waiting = 0
        self._void = False
        self._lines: Counter[str] = Counter()
        self._exchange = False
        self._first_step = 0
        self.line = ""
        """Where this rank stood most often in the newest window while it did not wait."""
        self._thread: threading.Thread | None = None

    def begin(self, step: int) -> None:
        """The loop of the calling thread begins, or continues, at this step."""
        if self.world == 1 or self._thread is not None:
            return
        self._forget(step)
        self._thread = threading.Thread(target=self._watch, args=(Stance(),), name="waits", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The loop has ended."""
        self._over.set()

    def _watch(self, stance: Stance) -> None:
        while not self._over.wait(BEAT_S):
            if not self._busy:
                self.beat(stance.look(time.monotonic()))

    def beat(self, looked: dict[str, Any]) -> None:
        """What the loop does at this moment."""
        activity = looked.get("place")
        if activity is None:  # its thread has ended
            self._over.set()
            return
        self.beats += 1
        if stragglers.waits(activity):
            self.waiting += 1
        elif looked.get("at"):
            self._lines[looked["at"]] += 1

    @contextlib.contextmanager
    def busy(self, *, alone: bool = False) -> Iterator[None]:
        """A save, a restore or a pause: its time does not count.

        Args:
            alone: Whether one rank may do it while the others wait: this window then says nothing.
        """
        self._busy += 1
        self._void = self._void or alone
        try:
            yield
        finally:
            self._busy -= 1

    # ---- the exchange: the same on every rank ----

    def question(self) -> list[float]:
        """What goes with the next question: whether this rank has too few beats, and the shares once nobody has."""
        if self.world == 1:
            return []
        few = float(self.beats < stragglers.BEATS)
        if not self._exchange:
            return [few]
        shares = [0.0] * self.world
        shares[self.rank] = 1.0 + self.waiting / max(1, self.beats)
        return [few, float(self._void), *shares]

    def answer(self, values: Sequence[float], step: int) -> tuple[int, float, float] | str:
        """What the largest of each value says.

        Args:
            values: The answer to the last question.
            step: Steps that are done.

        Returns:
            The straggler, with its share of waiting and the median of the others'; `over` or nothing.
        """
        if not values:
            return ""
        few, *exchanged = values
        if not exchanged:
            self._exchange = not few
            return ""
        void, *shares = exchanged
        steps = step - self._first_step
        self._forget(step)
        return self.habit.judge(
            {rank: share - 1.0 for rank, share in enumerate(shares)},
            {rank: f"rank {rank}" for rank in range(self.world)},
            steps=steps, paused=void > 0,
        )  # fmt: skip

    def _forget(self, step: int) -> None:
        newest = self._lines.most_common(1)
        self.line = newest[0][0] if newest else ""
        self.beats = self.waiting = 0
        self._void, self._exchange, self._first_step = False, False, step
        self._lines = Counter()
