"""What a review says of a storage change, and what `status` makes of a record of interruptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.planner import answers, checks
from hyperpod_ray.planner.change import storage_sentence
from hyperpod_ray.planner.cluster import file_systems
from hyperpod_ray.planner.failures import Belief, prior, published
from hyperpod_ray.planner.storage import ElasticFileSystem, FileSystem, parse
from hyperpod_ray.pricing import price_file
from hyperpod_ray.review import assembly
from hyperpod_ray.review.report import FORMATS
from hyperpod_ray.review.review import review
from hyperpod_ray.review.training import add_outlook
from tests.planner.test_checks import TRAINING, plan_of
from tests.review.small import resources, write

FAST, SLOW = parse("9600@1000"), parse("1200@250")


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
    if isinstance(system, ElasticFileSystem):
        elastic = {"DeploymentType": "PERSISTENT_2", "ThroughputCapacity": system.mbs}
        return {
            "Type": "AWS::FSx::FileSystem",
            "Properties": {"StorageType": "INTELLIGENT_TIERING", "LustreConfiguration": elastic},
        }
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
