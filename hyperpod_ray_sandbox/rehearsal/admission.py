"""An admission stand-in: who is admitted to which quota, and who is preempted for it. It is not Kueue.

It keeps Kueue's rules for queues of one cohort with one flavor for each resource: what fits, who is a candidate, in
which order, and that no more are preempted than needed (pkg/scheduler/preemption of v0.19.2, whose own cases judge it
in tests/rehearsal/test_admission.py). Not kept: fair sharing by weight, several flavors, topology, checks, backoff.
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
        within: Whether a job takes the place of one of the queue with a lower priority.
        reclaim: From whom a job takes its queue's quota back.
        cohort: Queues that lend to each other; empty for none.
    """

    name: str
    quota: Amounts
    borrowing: Amounts = field(default_factory=dict)
    lending: Amounts = field(default_factory=dict)
    within: Literal["LowerPriority", "Never"] = "LowerPriority"
    reclaim: Literal["Any", "LowerPriority", "Never"] = "Any"
    cohort: str = "cohort"

    def lends(self, resource: str) -> float:
        """What others may have of its quota."""
        return min(self.quota.get(resource, 0.0), self.lending.get(resource, float("inf")))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A job as its queue sees it; `admitted` counts up with each admission, None while it waits."""

    name: str
    queue: str
    asks: Amounts
    priority: int = 0
    created: float = 0.0
    admitted: float | None = None


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
        self.admitted = {workload.name: workload for workload in workloads if workload.admitted is not None}

    def used(self, queue: str, resource: str) -> float:
        """What the queue's admitted jobs have."""
        return sum(workload.asks.get(resource, 0.0) for workload in self.admitted.values() if workload.queue == queue)

    def borrows(self, queue: str, resource: str) -> bool:
        """Whether the queue has more than its quota."""
        return self.used(queue, resource) > self.queues[queue].quota.get(resource, 0.0)

    def fits(self, workload: Workload, *, borrowing: bool = True) -> bool:
        """Whether there is room now."""
        return not self.short(workload, borrowing=borrowing)

    def short(self, workload: Workload, *, borrowing: bool = True) -> list[str]:
        """Resources for which there is no room now."""
        queue = self.queues[workload.queue]
        return [
            resource
            for resource, amount in workload.asks.items()
            if amount and not self._room(queue, resource, amount, borrowing=borrowing)
        ]

    def _room(self, queue: Queue, resource: str, amount: float, *, borrowing: bool) -> bool:
        quota, total = queue.quota.get(resource, 0.0), self.used(queue.name, resource) + amount
        limit = quota + queue.borrowing.get(resource, float("inf")) if borrowing and queue.cohort else quota
        if total > limit:
            return False
        if not queue.cohort:
            return True
        pool = quota
        for peer in self.queues.values():
            if peer.cohort == queue.cohort and peer.name != queue.name:
                lent = peer.lends(resource)
                kept = peer.quota.get(resource, 0.0) - lent
                pool += lent - max(0.0, self.used(peer.name, resource) - kept)
        return total <= pool

    def victims(self, workload: Workload) -> list[Workload]:
        """The fewest jobs to preempt, so that this one fits; none where that does not help."""
        queue, short = self.queues[workload.queue], self.short(workload)
        same_queue = [candidate for candidate in self._candidates(workload, short) if candidate.queue == queue.name]
        everybody = self._candidates(workload, short)
        under = all(self.used(queue.name, key) < queue.quota.get(key, 0.0) for key in short)
        if (
            under
            and len(everybody) > len(same_queue)
            and (fewest := self._fewest(workload, everybody, borrowing=False))
        ):
            return fewest
        return self._fewest(workload, same_queue, borrowing=True)

    def _candidates(self, workload: Workload, short: Sequence[str]) -> list[Workload]:
        queue = self.queues[workload.queue]
        candidates = []
        for candidate in self.admitted.values():
            if not any(candidate.asks.get(key) for key in short):
                continue
            lower = candidate.priority < workload.priority
            if candidate.queue == queue.name:
                if queue.within == "LowerPriority" and lower:
                    candidates.append(candidate)
                continue
            theirs = self.queues[candidate.queue]
            if not queue.cohort or theirs.cohort != queue.cohort or queue.reclaim == "Never":
                continue
            if any(self.borrows(candidate.queue, key) for key in short) and (queue.reclaim == "Any" or lower):
                candidates.append(candidate)
        # other queues first, then the lowest priority, then the newest
        return sorted(
            candidates,
            key=lambda candidate: (
                candidate.queue == queue.name,
                candidate.priority,
                -(candidate.admitted or 0.0),
                candidate.name,
            ),
        )

    def _fewest(self, workload: Workload, candidates: Sequence[Workload], *, borrowing: bool) -> list[Workload]:
        after = Cohorts(self.queues.values(), self.admitted.values())
        taken: list[Workload] = []
        for candidate in candidates:
            keys = [key for key, value in candidate.asks.items() if value]
            if candidate.queue != workload.queue and not any(after.borrows(candidate.queue, key) for key in keys):
                continue  # its queue has no more than its quota by now
            del after.admitted[candidate.name]
            taken.append(candidate)
            if after.fits(workload, borrowing=borrowing):
                break
        else:
            return []
        for candidate in reversed(taken[:-1]):
            after.admitted[candidate.name] = candidate
            if after.fits(workload, borrowing=borrowing):
                taken.remove(candidate)
            else:
                del after.admitted[candidate.name]
        return taken


def decide(queues: Sequence[Queue], workloads: Sequence[Workload]) -> Decision:
    """The next thing that happens: the first of each queue is looked at, those that need not borrow before others."""
    state = Cohorts(queues, workloads)
    heads: dict[str, Workload] = {}
    for workload in sorted(workloads, key=lambda workload: (-workload.priority, workload.created, workload.name)):
        if workload.admitted is None:
            heads.setdefault(workload.queue, workload)
    for workload in sorted(
        heads.values(),
        key=lambda workload: (
            not state.fits(workload, borrowing=False),
            -workload.priority,
            workload.created,
            workload.name,
        ),
    ):
        if state.fits(workload):
            return Decision(admit=workload.name)
        if victims := state.victims(workload):
            return Decision(preempt=tuple(sorted(victim.name for victim in victims)), preemptor=workload.name)
    return Decision()


def settled(queues: Sequence[Queue], workloads: Sequence[Workload], *, clock: float = 0.0) -> list[Workload]:
    """The workloads after all that follows at once: admissions and preemptions, until nothing changes."""
    by_name = {workload.name: workload for workload in workloads}
    for turn in range(4 * len(by_name) + 4):
        decision = decide(queues, list(by_name.values()))
        if decision == Decision():
            break
        for name in decision.preempt:
            by_name[name] = replace(by_name[name], admitted=None)
        for name in filter(None, (decision.admit, decision.preemptor)):
            by_name[name] = replace(by_name[name], admitted=clock + turn + 1)
    return list(by_name.values())
