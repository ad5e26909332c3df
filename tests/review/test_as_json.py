"""The report for other programs, and what a deploy accepts of a review."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.findings import Effect, Remark, Row
from hyperpod_ray.review.report import as_json
from hyperpod_ray.review.review import EnvironmentReview, Review, fails, review, unaccepted
from tests.review.small import resources, write

DAY = date(2026, 11, 21)


def nodes(count: int) -> dict[str, Any]:
    group = {"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "InstanceCount": count}
    limit = {"BudgetLimit": {"Amount": 50_000, "Unit": "USD"}, "TimeUnit": "MONTHLY"}
    budget = {"Type": "AWS::Budgets::Budget", "Properties": {"Budget": limit}}
    cluster = {"Type": "AWS::SageMaker::Cluster", "Properties": {"InstanceGroups": [group]}}
    return resources(Cluster=cluster, Budget=budget)


def test_every_key_and_what_it_says(tmp_path: Path) -> None:
    """Programs of others read these keys: `FORMAT_VERSION` is raised when one goes."""
    sides = [write(tmp_path / name, {"A": nodes(count)}) for name, count in (("base", 1), ("head", 2))]
    document = as_json.data(review(*sides, base_name="main", head_name="branch", day=DAY))
    assert set(document) == {"format", "base", "head", "verdict", "words", "seconds", "environments"}
    assert (document["format"], document["base"], document["head"], document["verdict"]) == (
        3,
        "main",
        "branch",
        "safe",
    )
    (environment,) = document["environments"]
    assert set(environment) == {
        "name", "verdict", "words", "rows", "security", "money", "time", "notes", "asset_only",
    }  # fmt: skip
    assert (environment["name"], environment["verdict"]) == ("env", "safe")
    (row,) = environment["rows"]
    assert set(row) == {"effect", "code", "what", "change", "consequence", "unavailable", "source", "where"}
    assert (row["effect"], row["what"], row["change"]) == ("safe", "group workers", "count 1 → 2")
    paid = environment["money"]
    assert set(paid) == {
        "currency", "unit", "region", "prices_read", "usd_per_month", "most_usd_per_month", "usd_per_month_after",
        "budget_usd_per_month", "above_budget", "unknown", "estimated", "lines",
    }  # fmt: skip
    # 66.0484 $ per hour in the price file, and 730 hours
    assert paid["usd_per_month"] == paid["most_usd_per_month"] == pytest.approx(66.05 * 730, rel=1e-3)
    assert paid["usd_per_month_after"] == pytest.approx(2 * paid["usd_per_month"])
    assert (paid["budget_usd_per_month"], paid["above_budget"]) == (50_000, True)
    assert (paid["unknown"], paid["estimated"], paid["currency"], paid["unit"]) == (
        [],
        ["group workers"],
        "USD",
        "hour",
    )
    (line,) = paid["lines"]
    assert set(line) == {"name", "before", "after", "before_usd", "after_usd", "estimate", "source"}
    assert line["after_usd"] == 2 * line["before_usd"]
    time = environment["time"]
    assert set(time) == {"stacks", "minutes", "minutes_side_by_side", "chain", "nodes", "path", "unavailable"}
    assert (time["stacks"], len(time["minutes"])) == (1, 3)
    assert [set(step) for step in time["path"]] == [{"title", "type", "action", "minutes", "source"}]


def of(*effects: Effect) -> Review:
    rows = [Row(effect=effect, code="x", what="x", change="x", consequence="x") for effect in effects]
    remarks = [Remark(direction="switched off", what="x", detail="x")] if Effect.WEAKENS in effects else []
    environment = EnvironmentReview(name="env", changes=None, rows=rows, remarks=remarks)
    return Review(environments=[environment], base_name="base", head_name="head")


SAFE, WEAKENS, INTERRUPTS, REJECTED, NODES, DATA = Effect


@pytest.mark.parametrize(
    ("effects", "accepted", "refused"),
    [
        ((SAFE,), (), []),
        ((WEAKENS,), (), [WEAKENS]),
        ((WEAKENS,), (WEAKENS,), []),
        ((WEAKENS, INTERRUPTS), (WEAKENS,), [INTERRUPTS]),
        ((WEAKENS, INTERRUPTS), (INTERRUPTS,), []),
        ((DATA, NODES), (NODES,), [DATA]),
        ((DATA, NODES, SAFE), (SAFE,), [DATA, NODES]),
        # what a service refuses is no degree of loss
        ((REJECTED,), (DATA,), [REJECTED]),
        ((REJECTED,), (REJECTED,), []),
        ((REJECTED, WEAKENS), (REJECTED,), [WEAKENS]),
        ((REJECTED, INTERRUPTS), (REJECTED, NODES), []),
    ],
)
def test_what_a_deploy_accepts(
    effects: tuple[Effect, ...], accepted: tuple[Effect, ...], refused: list[Effect]
) -> None:
    assert unaccepted(of(*effects), accepted) == refused


@pytest.mark.parametrize(
    ("limit", "begins"),
    [
        ("weakens", WEAKENS),
        ("interrupts", INTERRUPTS),
        ("rejected", REJECTED),
        ("loses-nodes", NODES),
        ("loses-data", DATA),
    ],
)
def test_where_a_limit_begins(limit: str, begins: Effect) -> None:
    assert [effect for effect in Effect if fails(of(effect), limit)] == list(Effect)[begins:]


@pytest.mark.parametrize(
    ("limit", "effects", "ends"),
    [
        ("never", (DATA,), False),
        ("any-rejected", (REJECTED, DATA), True),
        ("any-rejected", (DATA,), False),
        ("any-weakened", (WEAKENS, DATA), True),
        ("any-weakened", (INTERRUPTS,), False),
        ("any-change", (SAFE,), True),
    ],
)
def test_limits_that_are_no_degree(limit: str, effects: tuple[Effect, ...], ends: bool) -> None:
    assert fails(of(*effects), limit) is ends


def test_the_words_and_codes_of_effects() -> None:
    """What people read in the first line, and what `--fail-on` and other programs take."""
    assert [(effect.code, effect.words) for effect in Effect] == [
        ("safe", "safe"),
        ("weakens", "weakens security, recovery or alarms"),
        ("interrupts", "interrupts training"),
        ("rejected", "will be rejected by the service"),
        ("loses-nodes", "loses nodes"),
        ("loses-data", "loses data"),
    ]
    assert [Effect.of(effect.code) for effect in Effect] == list(Effect)
    with pytest.raises(
        ValueError, match="got effect 'safer'; allowed are safe, weakens, interrupts, rejected, loses-nodes"
    ):
        Effect.of("safer")
