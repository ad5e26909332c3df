"""What `test_table.py`, `test_members.py` share."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_training.spares.members import Limits
from hyperpod_ray_training.spares.table import Message, Out, Table


class World:
    """A table whose members behave: they beat, let go when told to, and are killed on request."""

    def __init__(
        self,
        *,
        active: int = 2,
        spares: int = 1,
        least: int | None = None,
        per_node: int = 1,
        warm: bool = True,
        **limits: Any,
    ) -> None:
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.table = Table(
            active=active,
            min_ranks=least,
            expected=active + spares,
            limits=Limits(**limits),
            note=lambda kind, **fields: self.notes.append((kind, fields)),
        )
        self.t = 0.0
        self.sent: list[tuple[str, Message]] = []
        self.alive: dict[str, dict[str, Any]] = {}
        self.obedient = True
        for order in range(active + spares):
            self.join(order, node=f"node-{order // per_node}")
        if warm:
            for uid in list(self.alive):
                self.take(self.table.warmed(self.t, uid))

    def join(self, order: int, *, node: str, **more: Any) -> str:
        uid = f"m{len(self.sent)}-{order}"
        self.alive[uid] = {"seq": 0, "step": 0, "gen": -1}
        fields = {"uid": uid, "order": order, "node": node, "port": 1, "pid": order, "warm": False, "rank": None}
        self.take(self.table.hello(self.t, **{**fields, **more}))
        return uid

    def take(self, out: Out) -> None:
        for uid, message in out:
            self.sent.append((uid, message))
            if uid not in self.alive:
                continue
            if message["type"] == "fence":
                self.ends(uid)
            elif message["type"] == "abandon":
                self.abandons(uid, message["gen"])
            elif message["type"] == "assign":
                self.alive[uid] |= {"gen": message["gen"], "seq": 0}

    def ends(self, uid: str) -> None:
        del self.alive[uid]

    def abandons(self, uid: str, gen: int) -> None:
        if self.obedient:
            self.take(self.table.is_ready(self.t, uid, gen))

    def run(
        self,
        seconds: float,
        *,
        stuck: tuple[str, ...] = (),
        silent: tuple[str, ...] = (),
        step_s: float = 0.2,
        place: str = "lock",
        at: str = "train.py:7 in main",
    ) -> None:
        """Let everybody train, except those who stand still: they stand in `place`, the others in a collective."""
        until = self.t + seconds
        # a newcomer says the run's step after its first one
        started, first = self.t, max((state["step"] for state in self.alive.values()), default=0)
        while self.t < until:
            self.t += 0.1
            for uid, state in list(self.alive.items()):
                if uid in silent:
                    continue
                stance: dict[str, Any] = {"place": "moves", "still": 0.0, "at": at}
                if not stuck and uid in self.table.ranks.values():
                    state["step"] = first + int((self.t - started) / step_s) + 1
                    state["seq"] += 1
                elif stuck:
                    still = 0.0 if uid in stuck and place == "moves" else self.t - started
                    stance = {"place": place if uid in stuck else "collective", "still": still, "at": at}
                self.take(self.table.beat(self.t, uid, step=state["step"], seq=state["seq"], busy=False, **stance))
            self.take(self.table.tick(self.t))

    def kill(self, uid: str) -> None:
        self.alive.pop(uid)
        self.take(self.table.lost(self.t, uid, "connection closed"))

    def holder(self, rank: int) -> str:
        return self.table.ranks[rank]

    @property
    def spare(self) -> str:
        return next(uid for uid in self.alive if uid not in self.table.ranks.values())

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.notes]
