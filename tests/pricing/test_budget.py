"""A budget beside what its environment costs."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from hyperpod_ray.pricing import budget, price_file
from hyperpod_ray.pricing.budget import findings
from hyperpod_ray.pricing.prices import HOURS_PER_MONTH, cost
from tests.core.environment_files import plan
from tests.core.three_parts import assert_form

DAY = date(2026, 11, 21)
MAILS = {"hyperpod/alarm_emails": ["oncall@example.com"]}
SCALED: dict[str, Any] = {
    "hyperpod/managed_autoscaling": True,
    "ray/autoscaling": True,
    "hyperpod/instance_groups/2": {"name": "burst", "type": "ml.p5.48xlarge", "count": 0, "deep_health_checks": []},
    "ray/workers/1": {"name": "burst", "instance_group": "burst", "replicas": 0, "max_replicas": 2},
}


def said(usd: float, edits: dict[str, Any] | None = None) -> list[str]:
    made = plan({**MAILS, **(edits or {}), "budget": {"usd_per_month": usd}})
    found = list(findings(made, cost(made, price_file.recorded(), day=DAY)))
    for finding in found:
        assert_form(finding)
        assert finding.severity == "warning"
    return [finding.message for finding in found]


def month(edits: dict[str, Any] | None = None) -> float:
    return cost(plan(edits), price_file.recorded(), day=DAY).usd_per_month


def test_a_budget_below_the_environments_own_cost_is_said() -> None:
    usd = month()
    (message,) = said(usd - 1)
    assert f"the environment costs ~{usd:,.0f} at full count" in message
    assert said(usd + 1) == []
    assert len(said(450)) == 1


def test_the_fix_is_enough() -> None:
    (message,) = said(450)
    usd = float(message.partition("set budget.usd_per_month: ")[2].partition(",")[0])
    assert said(usd) == []


def test_what_autoscaling_may_add_counts_too() -> None:
    price = price_file.recorded().instance("us-west-2", "ml.p5.48xlarge")
    assert price is not None
    usd, most = month(SCALED), 2 * price.usd * HOURS_PER_MONTH
    (message,) = said(usd + most - 1, SCALED)
    assert f"with what autoscaling may add the environment costs ~{usd + most:,.0f}" in message
    assert said(usd + most + 1, SCALED) == []


def test_autoscaling_without_a_limit_is_above_every_budget() -> None:
    (message,) = said(900_000_000, {**SCALED, "ray/workers/1": {**SCALED["ray/workers/1"], "max_replicas": 0}})
    assert "as much as quota and capacity allow (burst)" in message


def test_no_budget_says_nothing() -> None:
    made = plan()
    assert list(findings(made, cost(made, price_file.recorded(), day=DAY))) == []


def test_a_scaled_group_is_never_free() -> None:
    made = cost(plan(SCALED), price_file.recorded(), day=DAY)
    (line,) = [line for line in made.lines if line.name == "burst"]
    assert line.what == "0 to 2 × ml.p5.48xlarge"
    assert line.most == pytest.approx(2 * (line.usd_per_unit or 0))
    assert made.most_usd_per_hour == pytest.approx(made.usd_per_hour + (line.most or 0))


@pytest.mark.parametrize(
    ("usd", "rounded"), [(1, 100), (100, 100), (101, 200), (12_301, 12_400), (450_000, 450_000), (776_123, 777_000)]
)
def test_the_budget_that_is_advised_is_the_next_round_one(usd: float, rounded: int) -> None:
    assert budget._rounded(usd) == rounded
