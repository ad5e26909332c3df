"""Who holds which rank, and when a new generation starts. Decisions only: no socket, no clock, no Ray.

A generation is a set of members that train together. It ends when one of them is lost, hangs or has to leave; the
others let go of their process groups, say they are ready, and a new generation starts with a spare in the free place.

    forming --(every rank has a holder, every holder is ready)--> running --(a holder is lost)--> forming

A standby is a member without a device. When a member of its node is lost it takes over that member's seat: its devices
and its place in Ray's order. From then on it is a member like the others.

No decision costs more than a look at each member: a run may have thousands.

Messages go out as (member, message) pairs from each call. All times are seconds of one monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hyperpod_ray_training.spares.members import BEAT, BEATS_OF_SILENCE, Limits, Member, packed
from hyperpod_ray_training.spares.progress import Habits, Progress
from hyperpod_ray_training.spares.stragglers import Stragglers

Message = dict[str, Any]
Out = list[tuple[str, Message]]
_BREAK_S = 1.0
"""A broken collective usually means that somebody was lost; so long it may take to learn who."""
_IDLE_SILENCE_FACTOR = 10.0
"""A spare imports and rehearses, which can keep its beat from being sent; nobody waits for it."""
_SAVING_SILENCE_FACTOR = 4.0
"""A save on a machine that is short of everything has kept beats back for 1.6 s (seen at load 20). Imports and the
loading of a model, before a worker's first step, have kept them back for 8 s (seen at load 40)."""
_STOPPED_SILENCE_FACTOR = 0.5
"""The kernel says that it is stopped: no slow machine explains that. Who stops it for a moment has so long."""
_GAP_FACTOR, _GAP_MEMORY_S = 3.0, 30.0
"""A machine short of processor time beats late: the limit for silence is this many of the longest recent gaps."""


_LEAST_TICKS, _COMPUTES_S = 2, 5.0
"""A process whose processor time has grown by so many ticks within so many seconds computes."""
_WAITS_S = 5.0
"""A rank that nobody holds for so long is said: the run waits for a node, or for Ray."""
_NOTED_RANKS = 256
"""With more ranks a generation's event names those alone whose holder is new: a line of a journal has a limit."""
NOT_YET, NOBODY = -1, 0
"""Answers of `successor`."""
_STOPPED, _TRACED = frozenset("TZXx"), "t"
"""States of `/proc`: stopped by a signal, or ended; stopped by a debugger."""


class Table:
    """The members and ranks of one run.

    Args:
        active: Ranks that train; of an elastic run the most.
        least: The fewest ranks that may train. Default: `active`, a fixed size.
        expected: Members that are expected at the start, spares included.
        limits: When a member counts as lost.
        note: Receives what happened: a kind and its fields.
    """

    def __init__(
        self,
        *,
        active: int,
        expected: int,
        limits: Limits,
        min_ranks: int | None = None,
        note: Callable[..., None] = lambda *_, **__: None,
    ) -> None:
        self.active, self.expected, self.limits, self.note = active, expected, limits, note
        self.least = active if min_ranks is None else min_ranks
        self._group = 0
        self.size = active
        self.members: dict[str, Member] = {}
        self.ranks: dict[int, str] = {}
        self.rank_of: dict[str, int] = {}
        self.modules: list[str] = []
        """What the ranks had imported after their first steps."""
        self._vacant: dict[tuple[str, int], Member] = {}
        self._successors: dict[tuple[str, int], int] = {}
        self._noted: dict[int, str] = {}
        self._lacking_since: float | None = None
        self.ready: set[str] = set()
        self.gen = 0
        self.running = False
        self.over = False
        self._done: set[int] = set()
        self.rehearse = True
        self.draining: frozenset[str] = frozenset()
        self.barren = 0
        self._habits = Habits()
        self._progress = Progress(habits=self._habits)
        self._stragglers = Stragglers()
        self._broken_since: float | None = None
        self._forming_since: float | None = None
        self._first_hello: float | None = None
        self._ticked: float | None = None
        self._moving = False
        self._newest_step = 0
        self._gap = (0.0, 0.0)
        self._rejoin_until: float | None = None

    # ---- what members say ----

    def hello(self, now: float, **fields: Any) -> Out:
        """A process has connected. One that trains already (the coordinator is new) keeps its rank."""
        rank, gen, world = fields.pop("rank", None), int(fields.pop("gen", -1)), fields.pop("world", 0)
        self._group = fields.pop("group", 0) or self._group
        took = fields.pop("took", 0)
        member = Member(beat=now, gen=gen, **fields)
        self.members[member.uid] = member
        if took:  # a coordinator before this one gave it the seat
            self._successors[member.node, took] = member.pid
        if self.over:
            return [(member.uid, {"type": "over"})]
        out: Out = [(member.uid, {"type": "welcome", "rehearse": self.rehearse})]
        if member.standby:
            if self.modules:
                out.append((member.uid, {"type": "import", "modules": self.modules}))
            return out + self._fill(now) + self._form(now)
        self._first_hello = now if self._first_hello is None else self._first_hello
        if rank is not None and gen >= self.gen and rank not in self.ranks:
            # this table is new and the generation is not: wait for its other holders before anybody is replaced
            self._hold(int(rank), member.uid)
            self.gen, member.gen, member.warm = gen, gen, True
            member.proven = True
            self._rejoin_until, self.size = now + self.limits.gather_s, world or self.active
            if len(self.ranks) == self.size:
                self.running, self._progress, self._rejoin_until = True, Progress(since=now, habits=self._habits), None
            return out
        return out + self._form(now)

    def beat(self, now: float, uid: str, **fields: Any) -> Out:
        """A member lives; it says how far it is."""
        member = self.members.get(uid)
        if member is None:
            return [(uid, {"type": "fence"})]
        if uid in self.rank_of:
            # where the process beside it was heard all the time its machine is not slow: something keeps Python's lock
            most = max(now - member.pulse, self.limits.silence_s) if member.state else math.inf
            self._remember_gap(now, min(now - member.beat, most))
        member.beat, member.stopped = now, math.inf
        member.proven = member.proven or fields.get("step", 0) > member.step
        for name in BEAT:
            if name in fields:
                setattr(member, name, fields[name])
        if self.running and uid in self.ranks.values() and "place" in fields:
            self._stragglers.beat(member)
        return []

    def pulse(self, now: float, uid: str, *, state: str, ticks: int) -> Out:
        """The process beside a member has looked at it."""
        member = self.members.get(uid)
        if member is not None:
            if ticks - member.ticks >= _LEAST_TICKS:
                member.ticks, member.computed = ticks, now
            if uid in self.ranks.values() and member.state:
                self._remember_gap(now, now - member.pulse)
            member.stopped = min(member.stopped, now) if state in _STOPPED else math.inf
            member.pulse, member.state = now, state
        return []

    def warmed(self, now: float, uid: str) -> Out:
        """A spare has rehearsed the loop."""
        if uid in self.members:
            self.members[uid].warm = True
            self.members[uid].proven = self.rehearse
            self.note("spare", uid=uid, node=self.members[uid].node, message="warm", warm_spares=self.warm_spares)
        return self._form(now)

    def has_imported(self, uid: str, modules: list[str]) -> Out:
        """A rank says what its first steps have imported; standbys import it too."""
        if self.modules or uid not in self.rank_of:
            return []
        self.modules = modules
        return [(m.uid, {"type": "import", "modules": modules}) for m in self.members.values() if m.standby]

    def imported(self, now: float, uid: str, **memory: int) -> Out:
        """A standby has imported what it was asked to, and says what memory it takes."""
        if (member := self.members.get(uid)) is None:
            return []
        member.imported = True
        self.note(
            "spare", uid=uid, node=member.node, message="a standby has imported", standbys=self.standbys,
            warm_spares=self.warm_spares, **memory,
        )  # fmt: skip
        return self._fill(now) + self._form(now)

    def successor(self, node: str, pid: int, *, final: bool) -> int:
        """The process that has the seat of a lost one; `NOBODY`, or `NOT_YET` while that may change.

        Args:
            node: Of the lost process.
            pid: Of the lost process.
            final: Whether nobody is waited for: after `NOBODY` the seat is Ray's to fill.
        """
        if (node, pid) in self._successors:
            return self._successors[node, pid]
        if any(member.pid == pid and member.node == node for member in self.members.values()):
            return NOT_YET  # its connection has not ended yet
        if (node, pid) in self._vacant and not final:
            return NOT_YET
        self._vacant.pop((node, pid), None)
        return NOBODY

    def _fill(self, clock_s: float) -> Out:
        """Give seats that are free to standbys of the same node that were heard lately: a node may stand still."""
        out: Out = []
        for key, lost in list(self._vacant.items()):
            beside = [
                member for member in self.members.values()
                if member.standby and member.node == lost.node and not self._leaves(member)
                and clock_s - member.beat <= self.silence_limit_s(clock_s) / 2
            ]  # fmt: skip
            if not beside:
                continue
            member = max(beside, key=lambda standby: standby.imported)
            member.standby, member.order, member.seat = False, lost.order, lost.seat
            self._successors[key] = member.pid
            del self._vacant[key]
            self.note(
                "spare", uid=member.uid, node=member.node, message=f"a standby takes over from process {lost.pid}",
                instead_of=lost.pid, standbys=self.standbys, warm_spares=self.warm_spares,
            )  # fmt: skip
            out.append((member.uid, {"type": "adopt", "seat": lost.seat, "order": lost.order, "pid": lost.pid}))
        return out

    @property
    def standbys(self) -> int:
        """How many standbys could take a seat at once."""
        return sum(member.standby and member.imported for member in self.members.values())

    def cold(self, uid: str) -> None:
        """A spare could not rehearse: later ones do not try, they start cold."""
        self.rehearse = False
        self.note("spare", uid=uid, message="the loop cannot be rehearsed; spares start cold")

    def broke(self, now: float, uid: str, gen: int) -> Out:
        """A collective of a member failed. Who is lost shows within a second; else the same members start again."""
        if uid in self.members and gen == self.gen and self.running and self._broken_since is None:
            self._broken_since = now
        return []

    def is_ready(self, now: float, uid: str, gen: int) -> Out:
        """A member has let go of its groups and waits for generation `gen`."""
        if uid in self.members and gen == self.gen and not self.running:
            self.ready.add(uid)
        return self._start(now)

    def done(self, uid: str) -> Out:
        """A rank has come to the end of its script. All have done their last step then, so nobody else is needed."""
        if uid not in self.rank_of:
            return []
        self._done.add(self.rank_of[uid])
        if self.over:
            return []
        self.over = True
        return [(member_id, {"type": "over"}) for member_id in self.members]

    @property
    def finished(self) -> bool:
        """Whether every rank has come to the end of its script."""
        return self.over and len(self._done) >= self.size

    def lost(self, now: float, uid: str, why: str) -> Out:
        """A member is gone, or has to go: it is fenced, in case it is not."""
        member = self.members.pop(uid, None)
        if member is None or self.over:
            return []
        self.ready.discard(uid)
        rank = self.rank_of.get(uid)
        self.note(
            "lost", uid=uid, rank=rank, node=member.node, message=why, gen=self.gen, standbys=self.standbys,
            warm_spares=self.warm_spares,
        )  # fmt: skip
        out: Out = [(uid, {"type": "fence"})]
        if not member.standby:
            self._vacant[member.node, member.pid] = member
            out += self._fill(now)
        if rank is None:
            return out
        self._free(rank)
        return out + self._end(now, why) + self._form(now)

    def drain(self, now: float, nodes: frozenset[str]) -> Out:
        """These nodes are about to be taken away: move their ranks, once spares elsewhere are warm."""
        self.draining = nodes
        return self._move(now)

    def tick(self, now: float) -> Out:
        """Look at the clock; call it ten times a second."""
        late = 0.0 if self._ticked is None else now - self._ticked - 0.5
        self._ticked = now
        if late > 0:  # this process stood still: nobody could be heard, so nobody is to blame
            for member in self.members.values():
                member.beat += late
                member.pulse += late
                member.computed += late
                member.stopped += late
            self._progress.since += late
        out: Out = []
        for member in list(self.members.values()):
            if now - member.stopped > self.limits.silence_s * _STOPPED_SILENCE_FACTOR:
                why = f"no beat for {now - member.beat:.1f} s: its process is stopped ({member.state} in /proc)"
                out += self.lost(now, member.uid, why)
                continue
            trains = member.uid in self.rank_of
            factor = 1.0 if trains else _IDLE_SILENCE_FACTOR
            if member.busy or member.saving or not member.proven:
                factor = max(factor, _SAVING_SILENCE_FACTOR)
            limit = max(self.silence_limit_s(now) * factor, self._mute_limit_s(now, member))
            if now - member.beat > limit:
                out += self.lost(now, member.uid, f"no beat for {now - member.beat:.1f} s")
        if self._vacant:
            out += self._fill(now)
        if not self.running:
            self._say_who_is_missing(now)
            return out + self._overdue(now) + self._form(now)
        if self._broken_since is not None and now - self._broken_since > _BREAK_S:
            return out + self._end(now, "a collective broke and nobody was lost") + self._form(now)
        return out + self._hung(now) + self._move(now)

    def _mute_limit_s(self, now: float, member: Member) -> float:
        """So long a member may be silent whose process is known to live: something holds Python's lock."""
        if now - member.pulse > self.silence_limit_s(now):
            return 0.0
        if member.state == _TRACED or now - member.computed <= _COMPUTES_S:
            return self.limits.patience_s
        return self.limits.floor_s

    def _remember_gap(self, now: float, gap: float) -> None:
        if gap > self._gap[0] or now - self._gap[1] > _GAP_MEMORY_S:
            self._gap = (gap, now)

    def silence_limit_s(self, now: float) -> float:
        """So long a member that trains may be silent: longer where even the living are heard late."""
        recent = self._gap[0] if now - self._gap[1] <= _GAP_MEMORY_S else 0.0
        beats = BEATS_OF_SILENCE * self.limits.beat_of(self.size)
        return max(self.limits.silence_s, beats, _GAP_FACTOR * recent)

    # ---- decisions ----

    def _form(self, now: float) -> Out:
        """Give free ranks to spares; start if nothing is missing."""
        if self.running or self.over:
            return []
        if self._rejoin_until is not None:
            if now < self._rejoin_until:
                return []
            self._rejoin_until, self.running = None, True
            return self._end(now, "a rank did not come back to a new coordinator") + self._form(now)
        initial = not self.ranks and self._forming_since is None
        if initial and not self._gathered(now):
            return []
        out: Out = []
        free = [rank for rank in range(self.size) if rank not in self.ranks]
        # an elastic run is quicker with fewer ranks than with one that has still to import
        spares = [m for m in self._spares() if m.warm or m.imported or initial or not self.elastic]
        for rank, member in zip(free, spares, strict=False):
            self._hold(rank, member.uid)
            out.append((member.uid, {"type": "abandon", "gen": self.gen}))
        newest = max((self.members[uid].gen for uid in self.ranks.values()), default=-1)
        if newest >= self.gen:  # a coordinator before this one gave that number, and its keys are in some store
            self.gen, self.ready = newest + 1, set()
            out = [(uid, {"type": "abandon", "gen": self.gen}) for uid in self.ranks.values()]
        self._forming_since = now if self._forming_since is None and self.ranks else self._forming_since
        if self.least <= len(self.ranks) < self.size:
            self._shrink()
        return out + self._start(now)

    def _gathered(self, now: float) -> bool:
        """Whether the first generation may start."""
        waited = 0.0 if self._first_hello is None else now - self._first_hello
        count = sum(not member.standby for member in self.members.values())
        started = self._group or self.expected  # Ray may have found room for fewer
        if count < min(self.active, started):
            return self.elastic and count >= self.least and waited >= self.limits.elastic_gather_s
        return count >= min(self.expected, started) or waited >= self.limits.gather_s

    @property
    def elastic(self) -> bool:
        """Whether fewer ranks may train than at most."""
        return self.least < self.active

    def _shrink(self) -> None:
        """Continue with the ranks that have holders, in their order."""
        holders = [uid for _, uid in sorted(self.ranks.items())]
        self.ranks, self.size = dict(enumerate(holders)), len(holders)
        self.rank_of = {uid: rank for rank, uid in self.ranks.items()}

    def _hold(self, rank: int, uid: str) -> None:
        self.ranks[rank], self.rank_of[uid] = uid, rank

    def _free(self, rank: int) -> None:
        del self.rank_of[self.ranks.pop(rank)]

    def _say_who_is_missing(self, clock_s: float) -> None:
        """Once, where a rank waits for long: nobody should have to guess why training stands still."""
        if len(self.ranks) == self.size or not self.ranks:
            self._lacking_since = None
            return
        self._lacking_since = clock_s if self._lacking_since is None else self._lacking_since
        if clock_s - self._lacking_since >= _WAITS_S:
            self._lacking_since = float("inf")
            free = [rank for rank in range(self.size) if rank not in self.ranks]
            self.note(
                "note", message=f"{len(free)} of {self.size} ranks (first: {free[0]}) have no process: no spare is "
                "there, nor a standby on the node. The others keep theirs and wait for Ray to place a worker",
            )  # fmt: skip

    def _spares(self) -> list[Member]:
        """Members without a rank, the best first: warm, not on a node that goes away, in Ray's order."""
        spare = [
            m for m in self.members.values() if m.uid not in self.rank_of and not m.standby and not self._leaves(m)
        ]
        return sorted(spare, key=lambda member: (not member.warm, member.order))

    @property
    def warm_spares(self) -> int:
        """How many could take a rank at once."""
        return sum(member.warm for member in self._spares())

    def _leaves(self, member: Member) -> bool:
        return member.node in self.draining

    def _start(self, now: float) -> Out:
        if self.running or self.over or len(self.ranks) < self.size or len(self.ready) < self.size:
            return []
        if not all(uid in self.ready for uid in self.ranks.values()):
            return []
        host = self.members[self.ranks[0]]
        nodes = [self.members[self.ranks[rank]].node for rank in range(self.size)]
        self.running, self._progress = True, Progress(since=now, habits=self._habits)
        self._stragglers = Stragglers()
        self._broken_since = self._forming_since = None
        self._moving = False
        out: Out = []
        node_list = packed(nodes)
        for rank, uid in self.ranks.items():
            member = self.members[uid]
            member.gen, member.seq, member.warm, member.busy = self.gen, 0, True, False
            member.still, member.place, member.at = 0.0, "", ""
            out.append(
                (uid, {"type": "assign", "gen": self.gen, "rank": rank, "nodes": node_list, "host": host.node,
                       "port": host.port})
            )  # fmt: skip
        holders = {
            rank: {"node": nodes[rank], "pid": self.members[uid].pid}
            for rank, uid in self.ranks.items()
            if self.size <= _NOTED_RANKS or self._noted.get(rank, "") != uid
        }
        few = dict(list(holders.items())[:_NOTED_RANKS])
        self._noted = dict(self.ranks)
        self.note(
            "generation", gen=self.gen, ranks=few, world=self.size, standbys=self.standbys, warm_spares=self.warm_spares
        )
        return out

    def _end(self, now: float, why: str) -> Out:
        """This generation is over: everybody lets go of its groups."""
        if not self.running:
            # lost while a generation was forming: the same number again, with somebody else
            return []
        newest = max((self.members[uid].step for uid in self.ranks.values() if uid in self.members), default=0)
        self.barren = 0 if self._progress.steps or newest > self._newest_step else self.barren + 1
        self._newest_step = max(newest, self._newest_step)
        if self.barren >= self.limits.barren:
            return self._give_up(f"{self.barren} generations in a row without a step, last: {why}")
        self.running, self.gen, self.ready = False, self.gen + 1, set()
        self._broken_since, self._forming_since = None, now
        return [(uid, {"type": "abandon", "gen": self.gen}) for uid in self.ranks.values()]

    def _give_up(self, why: str) -> Out:
        """Everybody raises; Ray then starts new workers."""
        self.note("fallback", message=why, gen=self.gen)
        out: Out = [(uid, {"type": "fallback", "message": why}) for uid in self.members]
        self._forget_all()
        return out

    def begins(self) -> None:
        """Ray starts all workers again. After an error behind the loop of one rank, another may have ended the run."""
        if self.over:
            self.over = False
            self._forget_all()

    def _forget_all(self) -> None:
        """The next workers begin here as if they were the first."""
        for state in (self.members, self.ranks, self.rank_of, self.ready, self._vacant, self._successors, self._done):
            state.clear()  # type: ignore[attr-defined]
        self.running, self.gen, self.barren, self.size = False, self.gen + 1, 0, self.active
        self._broken_since = self._forming_since = self._first_hello = None

    def _overdue(self, now: float) -> Out:
        """A survivor that does not let go of the last generation is stuck in something nobody can interrupt."""
        if self._forming_since is None or now - self._forming_since < self.limits.ready_s:
            return []
        self._forming_since = now
        out: Out = []
        for uid in [uid for uid in self.ranks.values() if uid not in self.ready]:
            out += self.lost(now, uid, f"did not leave its generation within {self.limits.ready_s:g} s")
        return out

    def _hung(self, now: float) -> Out:
        """Others wait for a rank that stands still, or all wait."""
        by_rank = [(rank, self.members[uid]) for rank, uid in sorted(self.ranks.items()) if uid in self.members]
        holders = [member for _, member in by_rank]
        if slow := self._stragglers.judge(by_rank):
            self.note("slow", **slow)
        hung = self._progress.behind(now, by_rank, self.limits)
        standstill = None if hung else self._progress.together(now, holders, self.limits)
        if not hung and standstill is None:
            return []
        out: Out = [(member.uid, {"type": "record", "gen": self.gen}) for member in holders]
        for member, why in hung:
            out += self.lost(now, member.uid, why)
        return out if standstill is None else out + self._end(now, standstill) + self._form(now)

    def _move(self, now: float) -> Out:
        """Ask all ranks to hand over at the end of a step, where others should train after it.

        Ranks on nodes that go away leave, if there are places for all or the run may shrink; an elastic run takes in
        those that have come and are warm.
        """
        if not self.running or self._moving:
            return []
        leaving = sum(self._leaves(self.members[uid]) for uid in self.ranks.values() if uid in self.members)
        spares = self._spares()
        warm = sum(member.warm for member in spares)
        size = min(self.active if self.elastic else self.size, self.size - leaving + warm)
        grows = size > self.size and warm == len(spares)  # those that still come are waited for
        if not (grows or leaving) or size < (self.least if self.elastic else self.size):
            return []
        self._moving = True
        why = f"{leaving} ranks leave nodes that are about to go" if leaving else f"{size} ranks instead of {self.size}"
        self.note("move", message=why, gen=self.gen)
        # copies in memory are of ranks: another number of ranks reads a checkpoint
        return [(self.ranks[0], {"type": "move", "resize": size != self.size})]

    def handed_over(self, now: float, uid: str, gen: int) -> Out:
        """All ranks have met at the end of a step and hold it in memory: start again without those that leave."""
        if gen != self.gen or not self.running or uid not in self.members:
            return []
        out = self._end(now, "others take ranks over")
        self.barren, self.size = 0, self.active if self.elastic else self.size
        for rank, holder in list(self.ranks.items()):
            if self._leaves(self.members[holder]):
                self._free(rank)
        return out + self._form(now)
