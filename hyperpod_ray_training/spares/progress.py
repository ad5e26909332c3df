"""How far the ranks of a generation are, and which of them hangs. Decisions only: no clock.

A rank hangs where nobody begins a further collective, others wait for this one, and it stands still. How long it may
depends on what it waits for, and on what the run has shown so far: see `Limits`.
"""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from hyperpod_ray_training.spares.members import Limits, Member
from hyperpod_ray_training.spares.stance import BACKWARD, COLLECTIVE, COPY, LOCK, WORK

_YOUNG_STEPS = 3
"""The first steps of a generation may compile, restore or meet again."""
_REGULAR_STEPS = 10
"""So many steps of a run show how long one takes."""
_PAUSE_FACTOR = 2.0
"""A pause that ended by itself may be as long again, and as much."""
_OFTEN = 3
"""A rank that was fenced so often at one line, in different steps, may be the script's: by a clock of its own."""
_IN_COLLECTIVES = frozenset({COLLECTIVE, BACKWARD, COPY})
WAY_OUT = 'with training.phase("evaluate"): around what takes long on some ranks only'


@dataclass
class Habits:
    """What a run has shown, over all its generations.

    That is how long steps take, how long a rank has stood in a lock or at a line and come back, and where ranks were
    fenced. A fence alone teaches nothing of a line: only that the step is done again shows whether the script stands
    there (`docs/adr/0022-a-fence-does-not-teach-patience.md`).
    """

    durations: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    longest_lock_s: float = 0.0
    came_back_s: dict[str, float] = field(default_factory=dict)
    """By line, the longest stand that ended by itself."""
    fenced: Counter[str] = field(default_factory=Counter)
    """By line, how often ranks were fenced there in a step that is not done yet; several at one moment are once."""
    fenced_in: dict[str, int] = field(default_factory=dict)
    """By line, the steps that were done when a rank was last fenced there."""
    fenced_rank: Counter[tuple[int, str]] = field(default_factory=Counter)
    """By rank and line, how often it was fenced there in the whole run."""

    def fence(self, rank_lines: Collection[tuple[int, str]], *, step: int) -> None:
        """These ranks were fenced, each at its line, when so many steps were done."""
        self.fenced_rank.update(rank_lines)
        lines = {line for _, line in rank_lines}
        self.fenced.update(lines)
        self.fenced_in |= dict.fromkeys(lines, step)

    def step_done(self, step: int) -> None:
        """So many steps are done: a line that was passed in the step of its fence is not the script's."""
        for line in [line for line, fenced_in in self.fenced_in.items() if fenced_in < step]:
            del self.fenced[line], self.fenced_in[line]

    def may_be_the_script(self, rank: int, line: str) -> bool:
        """Whether a rank that stands at this line may do what the script asks for."""
        return bool(self.fenced[line]) or self.fenced_rank[rank, line] >= _OFTEN

    @property
    def regular(self) -> bool:
        """Whether the time of a step is known."""
        return len(self.durations) >= _REGULAR_STEPS


@dataclass
class Progress:
    """What the ranks of a generation have done: collectives begun, steps finished."""

    total: int = 0
    since: float = 0.0
    steps: int = 0
    first_step: int | None = None
    step_t: float | None = None
    habits: Habits = field(default_factory=Habits)
    stood_s: float = 0.0
    stands: dict[str, float] = field(default_factory=dict)
    """By line, how long ranks have stood there in this generation."""

    def behind(self, now: float, by_rank: Sequence[tuple[int, Member]], limits: Limits) -> list[tuple[Member, str]]:
        """The ranks that hang, each with what shows it."""
        holders = [member for _, member in by_rank]
        step = max((member.step for member in holders), default=0)  # a newcomer's own counts from its first step
        self._count_steps(now, step)
        # one number for all ranks: while any of them begins a collective, the generation gets on
        total = sum(member.seq for member in holders)
        if total != self.total:
            self.habits.longest_lock_s = max(self.habits.longest_lock_s, self.stood_s)
            for line, stood_s in self.stands.items():
                self.habits.came_back_s[line] = max(self.habits.came_back_s.get(line, 0.0), stood_s)
            self.total, self.since, self.stood_s = total, now, 0.0
            return []
        hung: list[tuple[Member, str]] = []
        fenced: list[tuple[int, str]] = []
        others = _Waiting.of(holders)
        for rank, member in by_rank:
            if member.busy or not others.wait_for(member):
                continue
            if member.place == LOCK:
                # noted though it may open again: what has opened once may take as long once more
                self.stood_s = max(self.stood_s, member.still)
            limit = self.limit_s(rank, member, limits)
            # a rank at work moves, and one without a stance says nothing: both are judged by the others' standstill
            # alone
            still = member.still if member.place not in WORK | {""} else now - self.since
            # both: who stood still before the others came to wait has not kept them waiting
            stood = min(still, now - self.since)
            if stood > limit:
                fenced.append((rank, member.at))
                hung.append((member, self._why(member, limit)))
            elif member.at and stood > limits.hang_s:
                self.stands[member.at] = max(self.stands.get(member.at, 0.0), stood)
        if hung:
            self.habits.fence(fenced, step=step)
            self.since = now
        return hung

    def _why(self, member: Member, limit: float) -> str:
        where = f" at {member.at}" if member.at else ""
        doing = f" ({member.place})" if member.place else ""
        return f"hangs for {limit:.1f} s{where}{doing} while others wait for it. Where it is at work: {WAY_OUT}"

    def together(self, now: float, holders: Sequence[Member], limits: Limits) -> str | None:
        """Why the generation stands though nobody hangs: all wait in collectives, and none gets on."""
        if not self.total or any(member.busy or member.place not in {COLLECTIVE, BACKWARD} for member in holders):
            return None
        limit = max(limits.together_s, self.hang_limit_s(limits))
        if now - self.since <= limit or min(member.still for member in holders) <= limit:
            return None
        return f"all ranks have waited in collectives for {limit:.0f} s"

    def _count_steps(self, now: float, step: int) -> None:
        if self.first_step is None:
            self.first_step = step
        done = step - self.first_step
        if done > self.steps:
            if self.step_t is not None:
                self.habits.durations.append((now - self.step_t) / (done - self.steps))
            self.steps, self.step_t = done, now
            self.habits.step_done(step)

    def limit_s(self, rank: int, member: Member, limits: Limits) -> float:
        """So long this rank may stand where it stands while others wait for it."""
        # where two were fenced in one step it is the script: a machine that hangs is not there any more
        if member.place in WORK or (member.at and self.habits.fenced[member.at] > 1):
            return limits.patience_s
        # nobody can tell what a device or a copy waits for
        unsure = member.place != LOCK or bool(member.at and self.habits.may_be_the_script(rank, member.at))
        least = limits.floor_s if unsure else 0.0
        came_back_s = self.habits.came_back_s.get(member.at, 0.0) if member.at else 0.0
        return max(least, self.hang_limit_s(limits), _PAUSE_FACTOR * came_back_s)

    def hang_limit_s(self, limits: Limits) -> float:
        """So long a rank may stand in a lock; the least where steps are regular."""
        durations = self.habits.durations
        median = statistics.median(durations) if durations else 0.0
        limit = max(limits.hang_s, limits.hang_steps * median, _PAUSE_FACTOR * self.habits.longest_lock_s)
        # the median of other steps says nothing of those that compile, restore, or meet for the first time
        if self.steps < _YOUNG_STEPS or not self.habits.regular:
            return max(limit, limits.floor_s)
        return limit


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    """What the ranks wait for, added up once: each of thousands is judged by it."""

    most: int
    """Collectives that the foremost rank has begun."""
    most_unplaced: int
    """The same, of those that do not say where they stand."""
    in_collectives: int

    @classmethod
    def of(cls, holders: Collection[Member]) -> _Waiting:
        return cls(
            most=max((member.seq for member in holders), default=0),
            most_unplaced=max((member.seq for member in holders if not member.place), default=0),
            in_collectives=sum(member.place in _IN_COLLECTIVES for member in holders),
        )

    def wait_for(self, member: Member) -> bool:
        """Whether others stand in a collective that this rank has not begun.

        Collectives of other groups may be fewer (a stage of a pipeline, say), so that a number alone blames nobody.
        """
        if member.place in {COLLECTIVE, COPY}:
            return False
        if member.place in {"", BACKWARD} and self.most <= member.seq:
            return False  # it may be one of those that wait
        others = self.in_collectives - (member.place in _IN_COLLECTIVES)
        return others > 0 or self.most_unplaced > member.seq
