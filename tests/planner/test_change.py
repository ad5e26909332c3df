"""What a review says of a storage change, and what `status` makes of a record of interruptions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.ops.observe.interruptions import interruptions
from hyperpod_ray.ops.observe.snapshot import Cluster, ClusterEvent, Snapshot, Unseen
from hyperpod_ray.planner import answers, checks
from hyperpod_ray.planner.change import storage_sentence
from hyperpod_ray.planner.cluster import file_systems
from hyperpod_ray.planner.failures import Belief, prior, published
from hyperpod_ray.planner.storage import FileSystem, parse
from hyperpod_ray.pricing import price_file
from hyperpod_ray.review import assembly
from hyperpod_ray.review.report import FORMATS
from hyperpod_ray.review.review import review
from hyperpod_ray.review.training import add_outlook
from tests.planner.test_checks import TRAINING, plan_of
from tests.review.small import resources, write

FAST, SLOW = parse("9600@1000"), parse("1200@250")
NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_slower_storage_costs_synchronous_saves_points_and_days() -> None:
    sync = plan_of({"training": {**TRAINING, "save": "sync"}})
    sentence = storage_sentence(sync, FAST, SLOW)
    assert "goodput 98.6 % → 93.8 %, +16.5" in sentence
    assert "days to the end" in sentence
    back = storage_sentence(sync, SLOW, FAST)
    assert "goodput 93.8 % → 98.6 %, -16.5" in back
    assert "goodput 99.4 % → 99.1 %" in storage_sentence(plan_of({}), FAST, SLOW)


def test_without_a_run_or_a_change_nothing_is_said() -> None:
    assert storage_sentence(plan_of({"training": None}), FAST, SLOW) == ""
    assert storage_sentence(plan_of({}), FAST, FAST) == ""
    assert storage_sentence(plan_of({"training": {"tokens": "1T"}}), FAST, SLOW) == ""


def test_each_file_system_is_compared_at_its_own_best_interval_and_with_all_nodes_paid() -> None:
    """Not at the interval of the file, which is the best one of its own file system; and a spare is paid everywhere."""
    day = max(price.as_of for _, _, _, price in price_file.recorded().entries())
    prices = {}
    for count in (8, 9):
        plan = plan_of({
            "hyperpod/instance_groups/1/count": count,
            "training": {**TRAINING, "save": "sync", "save_every_seconds": 60},
        })  # fmt: skip
        outlook = checks.outlook(plan)
        assert outlook is not None
        assert outlook.on(SLOW).every == pytest.approx(outlook.on(SLOW).interval.seconds)
        assert outlook.on(SLOW).every > 10 * outlook.every
        systems = file_systems(plan, price_file.recorded(), day=day, gib=outlook.needed_gib)
        assert [system.name for system, _ in systems][:4] == ["7200@125", "7200@250", "7200@500", "7200@1000"]
        assert all(system.capacity_gib >= outlook.needed_gib for system, _ in systems)
        prices[count] = answers.useful_hours(outlook, systems)
    for (_, without), (_, with_one) in zip(prices[8], prices[9], strict=True):
        assert with_one.central > 1.1 * without.central
    central = {system.name: price.central for system, price in prices[8]}
    assert central["7200@125"] > central["7200@500"]  # synchronous saves; at one interval for all it would not be so


def file_system(system: FileSystem) -> dict[str, Any]:
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": system.throughput_mbs_per_tib}
    return {
        "Type": "AWS::FSx::FileSystem",
        "Properties": {"StorageCapacity": system.capacity_gib, "LustreConfiguration": lustre},
    }


@pytest.mark.parametrize("form", ["table", "markdown", "json"])
def test_a_review_says_it_in_every_form(form: str, tmp_path: Path) -> None:
    sides = [
        write(tmp_path / name, {"Storage": resources(FileSystem=file_system(system))})
        for name, system in (("before", FAST), ("after", parse("9600@500")))
    ]
    plan = replace(plan_of({"training": {**TRAINING, "save": "sync"}}), name=next(iter(assembly.read(sides[0]))))
    made = add_outlook(review(*sides), [plan])
    text = " ".join(FORMATS[form](made).split())
    assert "goodput 98.6 % → 98.2 %, +1.4 days" in text


# --- interruptions ----------------------------------------------------------------------------------------------------


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


def test_the_prior_has_the_published_mean_and_gives_way_to_evidence() -> None:
    belief = prior(published())
    assert belief.per_thousand.central == pytest.approx(published().per_thousand.central)
    low, _, high = published().per_thousand
    found = belief.per_thousand
    assert found.high / found.low == pytest.approx(high / low, rel=0.01)
    much = belief.seen(events=2000, node_days=100_000).per_thousand
    assert much.central == pytest.approx(20, rel=0.02)
    assert much.high / much.low < 1.1
    # conjugate: counts add up in whatever order
    assert belief.seen(events=1, node_days=50).seen(events=2, node_days=70) == Belief(
        events=belief.events + 3, node_days=belief.node_days + 120
    )
