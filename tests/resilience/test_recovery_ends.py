"""A second loss at every moment of a recovery, a hundred times each, with the product's limits: it always ends.

The coordinator's decisions alone, on made-up time: `soak_recovery.py` does the same with real processes, a few times.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from table_helpers import World

from hyperpod_ray_training.settings import Settings
from hyperpod_ray_training.spares.members import Limits

TICK_S = 0.1
FEW, MANY = 2, 100
"""Trials of each moment: in everyday tests, and in slow ones."""
MOMENTS = 27
"""Ticks after the first loss at which the second one comes: before, while and after all have let go."""
LETS_GO_S, STARTS_S, WARMS_S = (0.0, 0.05, 0.3, 2.0), (0.5, 2.0, 4.0), (0.5, 3.0)
STUCK = 0.02
"""So many survivors are in something that nobody can interrupt."""
LIMITS = Limits.of(Settings())


class Recovering(World):  # type: ignore[misc]
    """Members take their time to let go; each that is lost gets a successor, as Ray does."""

    def __init__(self, dice: random.Random, **more: Any) -> None:
        self.dice = dice
        self.due: list[tuple[float, str, str, int]] = []
        self.orders = 100
        super().__init__(**more, **dataclasses.asdict(LIMITS))

    def abandons(self, uid: str, gen: int) -> None:
        if self.dice.random() > STUCK:
            self.due.append((self.t + self.dice.choice(LETS_GO_S), "ready", uid, gen))

    def ends(self, uid: str) -> None:
        super().ends(uid)
        self.due.append((self.t + self.dice.choice(STARTS_S), "join", "", 0))

    def lose(self, uid: str) -> None:
        """A member's process ends; three in ten times its node goes with it, so that no connection closes."""
        self.ends(uid)
        if self.dice.random() > 0.3:
            self.take(self.table.lost(self.t, uid, "connection closed"))

    def tick(self) -> None:
        self.t += TICK_S
        now, self.due = [entry for entry in self.due if entry[0] <= self.t], [e for e in self.due if e[0] > self.t]
        for _, event, uid, gen in now:
            if event == "join":
                self.orders += 1
                newcomer = self.join(self.orders, node=f"node-{self.orders}")
                self.due.append((self.t + self.dice.choice(WARMS_S), "warm", newcomer, 0))
            elif uid in self.alive:
                self.take(self.table.is_ready(self.t, uid, gen) if event == "ready" else self.table.warmed(self.t, uid))
        trains = self.trains()
        for uid, state in list(self.alive.items()):
            if trains and uid in self.table.rank_of:
                state["step"], state["seq"] = state["step"] + 1, state["seq"] + 1
            beat = {"step": state["step"], "seq": state["seq"], "busy": False, "place": "moves", "still": 0.0, "at": ""}
            self.take(self.table.beat(self.t, uid, **beat))
        self.take(self.table.tick(self.t))

    def trains(self) -> bool:
        """Whether every rank has a process, and all are of this generation."""
        holders = list(self.table.ranks.values())
        if not self.table.running or not all(uid in self.alive for uid in holders):
            return False
        return {self.alive[uid]["gen"] for uid in holders} == {self.table.gen}

    @property
    def newest(self) -> int:
        return max((state["step"] for state in self.alive.values()), default=0)


@pytest.mark.parametrize("trials", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_second_loss_at_any_moment_is_recovered_from(moment: int, trials: int) -> None:
    longest = 0.0
    for trial in range(trials):
        dice = random.Random(1000 * moment + trial)
        world = Recovering(dice, active=dice.choice([2, 3, 8]), spares=dice.choice([0, 1, 3]))
        for _ in range(dice.randrange(20, 60)):
            world.tick()
        world.lose(dice.choice(list(world.table.ranks.values())))
        for _ in range(moment):
            world.tick()
        holders = [uid for uid in world.table.ranks.values() if uid in world.alive] or list(world.alive)
        for uid in dice.sample(holders, min(len(holders), dice.choice([1, 1, 2]))):
            world.lose(uid)
        begun, before = world.t, world.newest
        while world.newest <= before or not world.trains():
            world.tick()
            assert world.t - begun < LIMITS.ends_within_s, f"stands: moment {moment}, trial {trial}: {world.notes[-5:]}"
        longest = max(longest, world.t - begun)
    assert longest < 3 * LIMITS.ready_s, "a process that starts, a silence, and survivors that do not let go"
