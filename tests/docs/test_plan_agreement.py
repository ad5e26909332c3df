"""The page about published figures is made of today's data, and names and explains every point that lies outside."""

from __future__ import annotations

from docs import plan_agreement
from hyperpod_ray.planner import agreement


def test_every_point_outside_is_named_and_explained() -> None:
    points = [*agreement.steps(), *agreement.runs(), *agreement.memories()]
    outside = agreement.outliers(points)
    page = plan_agreement.PAGE.read_text(encoding="utf-8")
    assert [point.name for point in outside if not plan_agreement.explanation(point)] == []
    assert [point.name for point in outside if f"- `{point.name}` (" not in page] == []
    used = {name for name in plan_agreement.EXPLAINED if any(point.name.startswith(name) for point in outside)}
    assert set(plan_agreement.EXPLAINED) == used


def test_every_point_has_a_line() -> None:
    points = [*agreement.steps(), *agreement.runs(), *agreement.memories()]
    lines = plan_agreement.PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and line.count("|") == 10 and not line.startswith("| what")]
    assert len(rows) == len(points)
    assert sum("**outside**" in line for line in rows) == len(agreement.outliers(points))
