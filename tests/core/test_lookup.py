"""Where rules find instance groups and worker groups."""

from __future__ import annotations

from hyperpod_ray.core.checks import lookup
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from tests.core.environment_files import changed, plan

WORKERS = "hyperpod/instance_groups/1"


def unchecked(edits: dict[str, object]) -> Plan:
    """A plan of settings that rules have not accepted."""
    return Plan(name="test", settings=Environment.model_validate(changed(edits), strict=True))


def test_a_group_is_found_by_its_name_with_its_place_in_the_file() -> None:
    found = lookup.find(plan(), "workers")
    assert found is not None and found.type == "ml.p5.48xlarge"
    assert lookup.place_of_group(plan(), "workers") == "hyperpod.instance_groups[1]"
    assert lookup.find(plan(), "nobody") is None


def test_a_type_that_nobody_knows_is_skipped_by_the_rules_that_need_its_figures() -> None:
    strange = unchecked({f"{WORKERS}/type": "ml.p99.48xlarge"})
    assert [group.name for _, group in lookup.groups(strange)] == ["head", "workers"]
    assert [group.name for _, group in lookup.known_groups(strange)] == ["head"]
    assert lookup.find(strange, "workers") is None
    assert list(lookup.workers(strange)) == []


def test_workers_come_with_their_group_and_count_at_their_most() -> None:
    ((index, worker, group),) = lookup.workers(plan())
    assert (index, group.name, worker.instance_group) == (0, "workers", "workers")
    assert lookup.max_replicas(worker) == worker.replicas
    grown = worker.model_copy(update={"max_replicas": 0})
    assert lookup.max_replicas(grown) == 0, "none is a number too"
