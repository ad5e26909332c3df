"""An admission stand-in: who is admitted to which quota, and who is preempted for it. It is not Kueue.

It keeps Kueue's rules for queues of one cohort: what fits, whose turn it is under either queueing strategy, who is a
candidate, in which order, and that no more are preempted than needed (pkg/scheduler of v0.19.2, whose own cases judge
it in tests/sandbox/kubernetes/test_cohorts.py). Not kept: fair sharing by weight, topology, checks, backoff.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Amounts = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A ClusterQueue.

    Args:
        name: Its name.
        quota: Resource to what the queue is sure of.
        borrowing: Resource to the most that it borrows; what is not named has no limit.
        lending: Resource to the most that it lends; what is not named is lent whole.
        within: Of its own queue, whose place a job takes: of a lower priority, or of the same one and newer too.
        reclaim: From whom a job takes its queue's quota back.
        cohort: Queues that lend to each other; empty for none.
        strict: Whether a job that does not fit stops those behind it (`StrictFIFO`). Default: it does not
            (`BestEffortFIFO`, Kueue's default).
    """

    name: str
    quota: Amounts
    borrowing: Amounts = field(default_factory=dict)
    lending: Amounts = field(default_factory=dict)
    within: Literal["LowerPriority", "LowerOrNewerEqualPriority", "Never"] = "LowerPriority"
    reclaim: Literal["Any", "LowerPriority", "Never"] = "Any"
    cohort: str = "cohort"
    strict: bool = False

    def lends(self, resource: str) -> float:
        """What others may have of its quota."""
        return min(self.quota.get(resource, 0.0), self.lending.get(resource, float("inf")))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A job as its queue sees it; `admitted` counts up with each admission, None while it waits.

    One that is `evicted` has its quota until its pods are gone.
    """

    name: str
    queue: str
    asks: Amounts
    priority: int = 0
    created: float = 0.0
    admitted: float | None = None
    evicted: bool = False


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What happens next: at most one admission, and those that are preempted for one that waits."""

    admit: str = ""
    preempt: tuple[str, ...] = ()
    preemptor: str = ""


class Cohorts:
    """The queues with what is admitted in them."""

    def __init__(self, queues: Iterable[Queue], workloads: Iterable[Workload]) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.admitted = {one.name: one for one in workloads if one.admitted is not None}

    def used(self, queue: str, resource: str) -> float:
        """What the queue's admitted jobs have."""
        return sum(one.asks.get(resource, 0.0) for one in self.admitted.values() if one.queue == queue)

    def borrows(self, queue: str, resource: str) -> bool:
        """Whether the queue has more than its quota."""
        return self.used(queue, resource) > self.queues[queue].quota.get(resource, 0.0)

    def fits(self, workload: Workload, *, borrowing: bool = True) -> bool:
        """Whether there is room now."""
        return not self.short(workload, borrowing=borrowing)

    def short(self, workload: Workload, *, borrowing: bool = True) -> list[str]:
        """Resources for which there is no room now."""
        mine = self.queues[workload.queue]
        return [
            resource
            for resource, asked in workload.asks.items()
            if asked and not self._room(mine, resource, asked, borrowing=borrowing)
        ]

    def _room(self, mine: Queue, resource: str, asked: float, *, borrowing: bool) -> bool:
        return asked <= self.available(mine.name, resource, borrowing=borrowing)

    def available(self, queue: str, resource: str, *, borrowing: bool = True) -> float:
        """What a job of the queue could have now."""
        return self._limit(self.queues[queue], resource, borrowing=borrowing, used=True) - self.used(queue, resource)

    def potential(self, queue: str, resource: str) -> float:
        """What a job of the queue could have if nobody had anything: a job that asks for more is never admitted."""
        return self._limit(self.queues[queue], resource, borrowing=True, used=False)

    def _limit(self, mine: Queue, resource: str, *, borrowing: bool, used: bool) -> float:
        quota = mine.quota.get(resource, 0.0)
        if not mine.cohort:
            return quota
        pool = quota
        for other in self.queues.values():
            if other.cohort == mine.cohort and other.name != mine.name:
                lent = other.lends(resource)
                kept = other.quota.get(resource, 0.0) - lent
                pool += lent - (max(0.0, self.used(other.name, resource) - kept) if used else 0.0)
        return min(pool, quota + mine.borrowing.get(resource, float("inf")) if borrowing else quota)

    def victims(self, workload: Workload) -> list[Workload]:
        """The fewest jobs to preempt, so that this one fits; none where that does not help."""
        mine, short = self.queues[workload.queue], self.short(workload)
        own = [one for one in self._candidates(workload, short) if one.queue == mine.name]
        everybody = self._candidates(workload, short)
        under = all(self.used(mine.name, key) < mine.quota.get(key, 0.0) for key in short)
        if under and len(everybody) > len(own) and (found := self._fewest(workload, everybody, borrowing=False)):
            return found
        return self._fewest(workload, own, borrowing=True)

    def _candidates(self, workload: Workload, short: Sequence[str]) -> list[Workload]:
        mine = self.queues[workload.queue]
        found = []
        for one in self.admitted.values():
            if not any(one.asks.get(key) for key in short):
                continue
            lower = one.priority < workload.priority
            if one.queue == mine.name:
                newer = one.priority == workload.priority and one.created > workload.created
                if mine.within != "Never" and (lower or (newer and mine.within == "LowerOrNewerEqualPriority")):
                    found.append(one)
                continue
            theirs = self.queues[one.queue]
            if not mine.cohort or theirs.cohort != mine.cohort or mine.reclaim == "Never":
                continue
            if any(self.borrows(one.queue, key) for key in short) and (mine.reclaim == "Any" or lower):
                found.append(one)
        # those that go already, other queues before the own, then the lowest priority, then the newest
        return sorted(
            found,
            key=lambda one: (not one.evicted, one.queue == mine.name, one.priority, -(one.admitted or 0.0), one.name),
        )

    def _fewest(self, workload: Workload, candidates: Sequence[Workload], *, borrowing: bool) -> list[Workload]:
        after = Cohorts(self.queues.values(), self.admitted.values())
        taken: list[Workload] = []
        for one in candidates:
            keys = [key for key, value in one.asks.items() if value]
            if one.queue != workload.queue and not any(after.borrows(one.queue, key) for key in keys):
                continue  # its queue has no more than its quota by now
            del after.admitted[one.name]
            taken.append(one)
            if after.fits(workload, borrowing=borrowing):
                break
        else:
            return []
        for one in reversed(taken[:-1]):
            after.admitted[one.name] = one
            if after.fits(workload, borrowing=borrowing):
                taken.remove(one)
            else:
                del after.admitted[one.name]
        return taken


def decide(queues: Sequence[Queue], workloads: Sequence[Workload]) -> Decision:
    """The next thing that happens: the first of each queue is looked at, those that need not borrow before others.

    In a queue that is not strict, one that neither fits nor preempts lets the next one have its turn.
    """
    state = Cohorts(queues, workloads)
    waiting = sorted(
        (workload for workload in workloads if workload.admitted is None),
        key=lambda workload: (-workload.priority, workload.created, workload.name),
    )
    while waiting:
        heads: dict[str, Workload] = {}
        for workload in waiting:
            heads.setdefault(workload.queue, workload)
        for head in sorted(
            heads.values(),
            key=lambda head: (not state.fits(head, borrowing=False), -head.priority, head.created, head.name),
        ):
            if state.fits(head):
                return Decision(admit=head.name)
            if victims := state.victims(head):
                return Decision(preempt=tuple(sorted(victim.name for victim in victims)), preemptor=head.name)
        waiting = [
            workload
            for workload in waiting
            if workload.queue in heads and workload != heads[workload.queue] and not state.queues[workload.queue].strict
        ]
    return Decision()


def settled(queues: Sequence[Queue], workloads: Sequence[Workload], *, clock: float = 0.0) -> list[Workload]:
    """The workloads after all that follows at once: admissions and preemptions, until nothing changes."""
    found = {one.name: one for one in workloads}
    for turn in range(4 * len(found) + 4):
        decision = decide(queues, list(found.values()))
        if decision == Decision():
            break
        for name in decision.preempt:
            found[name] = replace(found[name], admitted=None)
        for name in filter(None, (decision.admit, decision.preemptor)):
            found[name] = replace(found[name], admitted=clock + turn + 1)
    return list(found.values())
