"""Planned and seen interruptions: the public rate that a plan uses, and what the cluster's own record makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner.cluster import cluster
from hyperpod_ray.planner.data import failures
from hyperpod_ray.planner.failures import prior, published
from hyperpod_ray.planner.ranges import Range

LISTED = 500
"""Events that HyperPod keeps; with so many the record is no older than the oldest of them."""


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """Interruptions per 1,000 node-days of eight GPUs."""

    planned: Range
    nodes_lost: int
    """Training nodes with an event of level Error; each counts once."""
    node_days: float
    since: datetime
    updated: Range
    """The planned rate after the record: Gamma prior, 5 to 95 %."""

    @property
    def text(self) -> str:
        """One line."""
        low, central, high = self.updated
        return (
            f"interruptions per 1,000 node-days: planned {self.planned.central:.3g} ({self.planned.low:.3g} to "
            f"{self.planned.high:.3g}); seen {self.nodes_lost} nodes with errors in {self.node_days:,.0f} node-days; "
            f"with that {central:.3g} ({low:.3g} to {high:.3g})"
        )


def interruptions(plan: CommonPlan, snapshot: Snapshot, *, now: datetime, listed: int) -> Interruptions | None:
    """The comparison; None without a section `training`, without a cluster, or where its events were not seen.

    Args:
        plan: The environment.
        snapshot: What was seen.
        now: The time.
        listed: Most events that were listed: with so many, the record begins with the oldest.
    """
    if plan.training is None or snapshot.cluster is None or snapshot.cluster.created is None:
        return None
    if not snapshot.saw("HyperPod events"):
        return None
    try:
        part = cluster(plan)
    except PlanError:
        return None
    groups = {group.name for group in plan.training_groups}
    since = snapshot.cluster.created
    if len(snapshot.events) >= min(listed, LISTED):
        since = max(since, min(event.time for event in snapshot.events))
    lost = {
        event.instance
        for event in snapshot.events
        if event.level == "Error" and event.instance and event.group in groups and event.time >= since
    }
    eights = part.nodes * part.per_node / failures().gpus_per_node
    days = max(0.0, (now - since).total_seconds()) / 86400 * eights
    rates = published()
    return Interruptions(
        planned=rates.per_thousand,
        nodes_lost=len(lost),
        node_days=days,
        since=since,
        updated=prior(rates).seen(events=len(lost), node_days=days).per_thousand,
    )
