"""Which rank the others wait for, step after step. Decisions only: no clock, no socket.

Ranks that train together make equally many steps a second, however slow one of them is. What differs is what they do
during a step: the slow rank computes, and the others stand in a collective. Each beat says which of the two a rank
does at that moment, and some hundred beats say it of a minute.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection
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
    named: str = ""
    times: int = 0
    reported: str = ""

    def beat(self, member: Member) -> None:
        """A rank has said where it stands."""
        counted = self.counted.setdefault(member.uid, Counted(first_step=member.step))
        counted.beats += 1
        counted.waiting += member.place in {COLLECTIVE, BACKWARD}

    def judge(self, holders: Collection[tuple[int, Member]]) -> dict[str, Any] | None:
        """What there is to say of the ranks; None where there is nothing new.

        Args:
            holders: Ranks with who holds them.
        """
        beats = [self.counted.get(member.uid, Counted()).beats for _, member in holders]
        if len(beats) < 2 or min(beats) < BEATS:
            return None
        window, self.counted = self.counted, {}
        paused = any(member.busy or member.saving for _, member in holders)
        steps = min(member.step - window[member.uid].first_step for _, member in holders)
        shares = {rank: window[member.uid].waiting / window[member.uid].beats for rank, member in holders}
        slow, share = min(shares.items(), key=lambda rank_share: rank_share[1])
        others = statistics.median(value for rank, value in shares.items() if rank != slow)
        stands_out = share <= WAITS and others >= OTHERS_WAIT and sum(value <= WAITS for value in shares.values()) == 1
        member = next(holder for rank, holder in holders if rank == slow)
        if paused or steps < STEPS or not stands_out:
            self.named, self.times = "", 0
            if self.reported and not stands_out and steps >= STEPS and not paused:
                self.reported = ""
                return {"message": "no rank stands out any more"}
            return None
        self.times = self.times + 1 if self.named == member.uid else 1
        self.named = member.uid
        if self.times < TIMES or self.reported == member.uid:
            return None
        self.reported = member.uid
        return {
            "rank": slow, "node": member.node, "waits": round(share, 3), "others_wait": round(others, 3),
            "message": f"rank {slow} on {member.node} holds the others up: they wait {others:.0%} of their time, and "
            f"it waits {share:.0%} of its own" + (f"; it was at {member.at}" if member.at else ""),
        }  # fmt: skip
