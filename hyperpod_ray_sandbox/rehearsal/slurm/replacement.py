"""HyperPod's part of a node's loss, by a stand-in: notice it, mark it for replacement, bring a new machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from hyperpod_ray_sandbox.rehearsal.slurm.answers import REPLACE
from hyperpod_ray_sandbox.rehearsal.slurm.cluster import Cluster

NOTICE_S = 1.0


class Replacement:
    """Takes lost nodes one step further each time it is called.

    Args:
        cluster: The Slurm.
        delay_s: Seconds from the mark to the new machine.
        note: Takes a line about what happens.
    """

    def __init__(self, cluster: Cluster, *, delay_s: float, note: Callable[[str], None]) -> None:
        self.cluster, self.delay_s, self.note = cluster, delay_s, note
        self.lost: dict[str, float] = {}
        self.marked: dict[str, float] = {}
        self.left_to_slurm: set[str] = set()

    def lose(self, name: str, *, noticed: bool) -> None:
        """A node is gone. `noticed` False: no health check sees it, Slurm finds out by its own timer."""
        self.lost[name] = time.monotonic()
        if not noticed:
            self.left_to_slurm.add(name)

    @property
    def complete(self) -> bool:
        """Whether no node is missing."""
        return not self.lost

    def tick(self) -> None:
        """One look."""
        if not self.lost:
            return
        now, states = time.monotonic(), self.cluster.states()
        for name, since in list(self.lost.items()):
            if name not in self.marked:
                down = name in states and "DOWN" in states[name].states
                if not down and (name in self.left_to_slurm or now - since < NOTICE_S):
                    continue
                self.cluster.ask("scontrol", "update", f"nodename={name}", "state=down", f"reason={REPLACE}")
                self.marked[name] = now
                self.note(f"{name}: {'down' if down else 'lost'}; scontrol update state=down reason={REPLACE}")
            elif now - self.marked[name] >= self.delay_s:
                self.cluster.replace_node(name)
                del self.lost[name], self.marked[name]
                self.left_to_slurm.discard(name)
                self.note(f"{name}: replaced")
