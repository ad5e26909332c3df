"""Many runs at once, failure by failure, with numpy: the finish date as a distribution, and where the time went.

Every run of an ensemble does the same work. All are advanced together: one round is one interruption of each run that
is not done. An interruption during recovery begins the recovery again and takes a further node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner.goodput import Run, goodput

if TYPE_CHECKING:
    import numpy as np

RUNS = 4_000
MOST_DRAWN = 1_000_000
"""Interruptions of all runs together beyond which fewer runs are drawn."""
FEWEST = 200
MOST_ROUNDS = 5_000
"""Interruptions of one run beyond which none is drawn: the end then differs by a few percent from run to run."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an ensemble of runs took, in seconds."""

    finish: np.ndarray[Any, Any]
    """Of each run."""
    stall: float
    """Mean of one run, as the following ones."""
    redo: float
    restart: float
    waiting: float
    interruptions: float
    work: float
    """Steps that were to do."""

    @property
    def goodput(self) -> float:
        """Work over the mean time."""
        return self.work / float(self.finish.mean())

    @property
    def error(self) -> float:
        """Standard error of `goodput`."""
        spread = float(self.finish.std()) / len(self.finish) ** 0.5
        return float(self.goodput * spread / float(self.finish.mean()))

    def quantile(self, share: float) -> float:
        """A quantile of the finish."""
        import numpy as np

        return float(np.quantile(self.finish, share))


def simulate(
    run: Run, every: float, *, work: float, spares: int = 0, repair: float = 0.0, runs: int = RUNS, seed: int = 1
) -> Outcome:
    """Run an ensemble to its end.

    Args:
        run: Rate, stall and restart; its `waiting` is not used: the wait follows from spares and repairs.
        every: Seconds of steps between two saves.
        work: Seconds of steps; rounded up to whole intervals.
        spares: Nodes that stand by.
        repair: Seconds until a lost node is replaced; 0: at once.
        runs: Number of runs.
        seed: Of the random numbers.

    Raises:
        PlanError: numpy is not installed, or a run has too many interruptions to draw.
    """
    if rounds(run, every, work=work) > MOST_ROUNDS:
        raise PlanError(
            f"a run with {rounds(run, every, work=work):.3g} interruptions",
            expected=f"at most {MOST_ROUNDS:,} for a simulation",
            fix="take the closed form",
        )
    try:
        import numpy as np
    except ModuleNotFoundError:
        raise PlanError(
            "the simulation needs numpy, which is not installed",
            expected="numpy",
            fix="pip install '.[plan]' in a checkout, or run `make setup`",
        ) from None
    period, late = every + run.stall, run.usable_after - run.stall
    periods = max(1, -(-work // every))
    runs = max(FEWEST, min(runs, int(MOST_DRAWN / max(1.0, rounds(run, every, work=work)))))
    random = np.random.default_rng(seed)
    clock, remaining = np.zeros(runs), np.full(runs, float(periods))
    totals = {"redo": 0.0, "restart": 0.0, "waiting": 0.0, "stall": 0.0, "interruptions": 0.0}
    finish = np.zeros(runs)
    back = np.full((runs, 1), -np.inf)  # when nodes in repair return
    ready = np.zeros(runs)  # when the recovery under way ends
    waits = np.zeros(runs)  # the part of that recovery that is waiting
    active = np.arange(runs)
    while len(active):
        gap = random.exponential(1 / run.rate, len(active)) if run.rate > 0 else np.full(len(active), np.inf)
        fails = clock + gap
        up = np.maximum(0.0, fails - ready)
        done = ready + remaining * period + late <= fails
        kept = np.minimum(np.floor(np.maximum(0.0, up - late) / period), remaining)
        kept = np.where(done, remaining, kept)
        totals["stall"] += float(kept.sum()) * run.stall
        finish[active[done]] = (ready + remaining * period)[done]
        recovered = np.minimum(np.where(done, np.inf, fails), ready) - clock
        waited = np.minimum(recovered, waits)
        totals["waiting"] += float(waited.sum())
        totals["restart"] += float((recovered - waited).sum())
        totals["redo"] += float(np.where(done, 0.0, up - kept * period).sum())
        totals["interruptions"] += float((~done).sum())
        on = ~done
        active, clock, remaining, back = active[on], fails[on], (remaining - kept)[on], back[on]
        waits, back = _wait(np, clock, back, spares=spares, repair=repair)
        ready = clock + waits + run.restart
    return Outcome(
        finish=finish,
        work=float(periods) * every,
        **{name: total / runs for name, total in totals.items()},
    )


def rounds(run: Run, every: float, *, work: float) -> float:
    """Interruptions that one run has in the mean, recoveries that begin again included; about."""
    share = goodput(run, every)
    return run.rate * work / share if share > 0 else math.inf


def _wait(np: Any, clock: Any, back: Any, *, spares: int, repair: float) -> tuple[Any, Any]:
    """How long each run waits for a node after losing one more, and when its nodes return."""
    if repair <= 0 or not len(clock):
        return np.zeros(len(clock)), back
    back = np.concatenate([back, (clock + repair)[:, None]], axis=1)
    absent = (back > clock[:, None]).sum(axis=1)
    back = np.sort(back, axis=1)[:, -int(absent.max()) :]
    # with more absent than spares, the first (absent - spares) to return are needed
    needed = np.maximum(absent - spares, 0)
    position = np.clip(back.shape[1] - absent + needed - 1, 0, back.shape[1] - 1)
    until = np.take_along_axis(back, position[:, None], axis=1)[:, 0]
    return np.where(needed > 0, until - clock, 0.0), back
