from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hyperpod_ray.ops.observe.interruptions import interruptions
from hyperpod_ray.ops.observe.snapshot import Cluster, ClusterEvent, Snapshot, Unseen
from tests.planner.test_checks import plan_of

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def snapshot(*events: ClusterEvent, days: float = 30, **more: Any) -> Snapshot:
    cluster = Cluster(name="c", arn="arn", status="InService", created=NOW - timedelta(days=days))
    return Snapshot(environment="test", at=NOW, cluster=cluster, events=events, **more)


def event(instance: str, *, group: str = "workers", level: str = "Error", days_ago: float = 1) -> ClusterEvent:
    when = NOW - timedelta(days=days_ago)
    return ClusterEvent(id=instance, time=when, level=level, description="d", group=group, instance=instance)


def test_a_record_moves_the_rate_as_far_as_its_exposure_weighs() -> None:
    plan = plan_of({})
    quiet = interruptions(plan, snapshot(), now=NOW, listed=50)
    busy = interruptions(
        plan, snapshot(*(event(f"i-{i}") for i in range(6)), event("i-0"), event("i-9", level="Info"),
                       event("i-8", group="head")), now=NOW, listed=50,
    )  # fmt: skip
    assert quiet is not None
    assert busy is not None
    assert quiet.node_days == busy.node_days == pytest.approx(240)
    assert (quiet.nodes_lost, busy.nodes_lost) == (0, 6)
    assert quiet.updated.central < quiet.planned.central < busy.updated.central < 25
    assert "seen 6 nodes with errors in 240 node-days" in busy.text


def test_a_full_list_begins_with_its_oldest_event() -> None:
    found = interruptions(plan_of({}), snapshot(event("i-1", days_ago=3), event("i-2")), now=NOW, listed=2)
    assert found is not None
    assert found.node_days == pytest.approx(24)


def test_without_run_cluster_or_events_there_is_no_comparison() -> None:
    assert interruptions(plan_of({"training": None}), snapshot(), now=NOW, listed=50) is None
    assert interruptions(plan_of({}), Snapshot(environment="t", at=NOW), now=NOW, listed=50) is None
    blind = snapshot(unseen=(Unseen(source="HyperPod events", why="no"),))
    assert interruptions(plan_of({}), blind, now=NOW, listed=50) is None
