"""Which rank the others wait for, step after step. Decisions only: no clock, no socket.

Ranks that train together make equally many steps a second, however slow one of them is. What differs is what they do
during a step: the slow rank computes, and the others stand in a collective. Each beat says which of the two a rank
does at that moment, and some hundred beats say it of a minute.

With a coordinator the beats come to it (`Stragglers`); without one the ranks exchange their shares
(`hyperpod_ray_training.waits`). Both judge by `Habit`.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray_training.spares.members import Member
from hyperpod_ray_training.spares.stance import BACKWARD, COLLECTIVE

BEATS = 150
"""Beats of each rank that are judged together: half a minute."""
STEPS = 5
"""Fewer steps in that time show no habit."""
OTHERS_WAIT, WAITS = 0.3, 0.1
"""A straggler waits at most so much of its time, while the median of the others is at least so much."""
TIMES = 2
"""So often in a row the same rank, until it is named: a validation on one rank ends by itself."""
NOBODY: dict[str, Any] = {"message": "no rank stands out any more"}


def waits(activity: str) -> bool:
    """Whether a rank that does this waits for others."""
    return activity in {COLLECTIVE, BACKWARD}


def described(rank: int, *, node: str, at: str, share: float, others_wait: float) -> dict[str, Any]:
    """The journal's line about a straggler."""
    return {
        "rank": rank, "node": node, "waits": round(share, 3), "others_wait": round(others_wait, 3),
        "message": f"rank {rank} on {node} holds the others up: they wait {others_wait:.0%} of their time, and "
        f"it waits {share:.0%} of its own" + (f"; it was at {at}" if at else ""),
    }  # fmt: skip


@dataclass
class Habit:
    """Who stood out in the windows so far."""

    named: str = ""
    times: int = 0
    reported: str = ""

    def judge(
        self, shares: Mapping[int, float], identities: Mapping[int, str], *, steps: int, paused: bool
    ) -> tuple[int, float, float] | str:
        """The straggler with its share of waiting and the others', once; why nobody is named otherwise.

        Args:
            shares: Of each rank, the part of its time that it waited.
            identities: Who holds the rank: another process begins afresh.
            steps: Steps in that time.
            paused: Whether a rank announced something long.

        Returns:
            `over` where nobody stands out any more, and somebody did.
        """
        slow, share = min(shares.items(), key=lambda rank_share: rank_share[1])
        others_wait = statistics.median(value for rank, value in shares.items() if rank != slow)
        stands_out = (
            share <= WAITS and others_wait >= OTHERS_WAIT and sum(value <= WAITS for value in shares.values()) == 1
        )
        if paused or steps < STEPS or not stands_out:
            self.named, self.times = "", 0
            if self.reported and not stands_out and steps >= STEPS and not paused:
                self.reported = ""
                return "over"
            return ""
        self.times = self.times + 1 if self.named == identities[slow] else 1
        self.named = identities[slow]
        if self.times < TIMES or self.reported == self.named:
            return ""
        self.reported = self.named
        return slow, share, others_wait


@dataclass
class Counted:
    """Beats of one rank."""

    beats: int = 0
    waiting: int = 0
    first_step: int = 0
    """Where it stood at the first of them."""


@dataclass
class Stragglers:
    """Beats of the ranks of a generation, and whom they name."""

    counted: dict[str, Counted] = field(default_factory=dict)
    habit: Habit = field(default_factory=Habit)

    def beat(self, member: Member) -> None:
        """A rank has said where it stands."""
        counted = self.counted.setdefault(member.uid, Counted(first_step=member.step))
        counted.beats += 1
        counted.waiting += waits(member.place)

    def judge(self, holders: Collection[tuple[int, Member]]) -> dict[str, Any] | None:
        """What there is to say of the ranks; None where there is nothing new.

        Args:
            holders: Ranks with who holds them.
        """
        beats = [self.counted.get(member.uid, Counted()).beats for _, member in holders]
        if len(beats) < 2 or min(beats) < BEATS:
            return None
        window, self.counted = self.counted, {}
        verdict = self.habit.judge(
            {rank: window[member.uid].waiting / window[member.uid].beats for rank, member in holders},
            {rank: member.uid for rank, member in holders},
            steps=min(member.step - window[member.uid].first_step for _, member in holders),
            paused=any(member.busy or member.saving for _, member in holders),
        )
        if isinstance(verdict, str):
            return dict(NOBODY) if verdict else None
        slow, share, others_wait = verdict
        member = next(holder for rank, holder in holders if rank == slow)
        return described(slow, node=member.node, at=member.at, share=share, others_wait=others_wait)
