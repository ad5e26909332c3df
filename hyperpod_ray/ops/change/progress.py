"""How far a deploy is: elapsed time, usual time, and what is left on the longest way through the stacks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hyperpod_ray.core.amounts import duration
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import INTERRUPTED, OpsError
from hyperpod_ray.ops.observe.snapshot import Stack

REMIND_SECONDS = 300.0
"""A line at least this often, so that a log shows that the deploy is alive."""
COMPLETE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")


def busy(stack: Stack) -> bool:
    """Whether CloudFormation works on the stack."""
    # a review in progress is a change set that nobody executes: nothing is at work
    return stack.status.endswith("_IN_PROGRESS") and stack.status != "REVIEW_IN_PROGRESS"


def interrupted(stacks: Sequence[Stack], *, stops: str, resume: str, also: Sequence[str] = ()) -> OpsError:
    """What Ctrl-C ends, and what continues without this program.

    Args:
        stacks: The environment's stacks as they are now.
        stops: What is not done any more.
        resume: The command that waits for the rest and continues.
        also: What else continues.
    """
    working = [f"CloudFormation continues with {stack.name} ({stack.status})" for stack in stacks if busy(stack)]
    continues = ", ".join([*working, *also]) or "nothing is in progress"
    return OpsError.outcome(
        f"interrupted: {continues}; {stops}", fix=f"to wait and continue: {resume}", code=INTERRUPTED
    )


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a deploy is going to do, by the review's schedule."""

    minutes: Mapping[str, float] = field(default_factory=dict)
    """Stack that this deploy changes → minutes that it usually takes."""
    after: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Stack → the stacks that it waits for."""

    def left(
        self, *, done: Collection[str] = (), running: Mapping[str, float] | None = None
    ) -> tuple[float, list[str]]:
        """Minutes that are left on the longest way, and the stacks on that way.

        Args:
            done: Stacks that are finished.
            running: Stack in progress → minutes since it began. A stack that takes longer than usual counts as 0.
        """
        elapsed = running or {}
        ends: dict[str, tuple[float, list[str]]] = {}

        def end(name: str) -> tuple[float, list[str]]:
            if name not in ends:
                ends[name] = (0.0, [])  # a circle ends here; CloudFormation has none
                start, way = max((end(dependency) for dependency in self.after.get(name, ())), default=(0.0, []))
                own_minutes = 0.0 if name in done else max(0.0, self.minutes.get(name, 0.0) - elapsed.get(name, 0.0))
                ends[name] = (start + own_minutes, [*way, name] if own_minutes else way)
            return ends[name]

        return max((end(name) for name in self.minutes), key=lambda ending: ending[0], default=(0.0, []))

    def before(self, name: str) -> set[str]:
        """Every stack that this one waits for, directly or not."""
        reached: set[str] = set()
        pending = list(self.after.get(name, ()))
        while pending:
            dependency = pending.pop()
            if dependency not in reached:
                reached.add(dependency)
                pending += self.after.get(dependency, ())
        return reached


class Watch:
    """Says each change of a stack's state, with the elapsed, the usual and the remaining time.

    Args:
        expected: What the deploy is going to do.
        stacks: The stacks before it.
        at: When it begins, in seconds of a monotonic clock.
    """

    def __init__(self, expected: Expected, stacks: Sequence[Stack], *, at: float) -> None:
        self._expected, self._started, self._said = expected, at, at
        self._states = {stack.name: stack.status for stack in stacks}
        self._began: dict[str, float] = {}
        self._done: set[str] = set()

    def look(self, stacks: Sequence[Stack], *, at: float) -> None:
        """Say what changed since the last look."""
        lines = [line for stack in stacks if (line := self._changed(stack, at))]
        if not lines and (not self._began or at - self._said < REMIND_SECONDS):
            return
        for line in lines or self._waiting(at):
            output.log(line)
        self._said = at
        if remaining := self._left(at):
            output.log(f"{duration(at - self._started)} elapsed, {remaining}")

    def _changed(self, stack: Stack, at: float) -> str:
        if stack.status in ("", self._states.get(stack.name)):
            return ""
        self._states[stack.name] = stack.status
        words, usual = f"{stack.name}: {stack.status}", self._usual(stack.name)
        if busy(stack):
            self._done -= {stack.name}
            self._done |= self._expected.before(stack.name)
            # a rollback is the same piece of work; its usual time is that of the update
            self._began.setdefault(stack.name, at)
            return f"{words}{usual}"
        began = self._began.pop(stack.name, None)
        if stack.status in COMPLETE:
            self._done |= {stack.name, *self._expected.before(stack.name)}
        return f"{words} after {duration(at - began)}{usual}" if began is not None else words

    def _usual(self, name: str) -> str:
        minutes = self._expected.minutes.get(name)
        return "" if minutes is None else f" (usually {_span(minutes)})"

    def _waiting(self, at: float) -> list[str]:
        lines = []
        for name, began in self._began.items():
            usual, spent = self._expected.minutes.get(name), (at - began) / 60
            late = ", longer than usual" if usual is not None and spent > usual else ""
            lines.append(f"{name}: {self._states[name]} for {duration(at - began)}{self._usual(name)}{late}")
        return lines

    def _left(self, at: float) -> str:
        running = {name: (at - began) / 60 for name, began in self._began.items()}
        minutes, way = self._expected.left(done=self._done, running=running)
        return f"about {_span(minutes)} left: {' → '.join(way)}" if way else ""


def _span(minutes: float) -> str:
    return duration(minutes * 60)
