"""The page about published figures is made of today's data, and names and explains every point that lies outside."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from hyperpod_ray.planner import agreement, fitting
from tests.docs.printed import PROJECT


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plan_agreement", PROJECT / "docs" / "plan_agreement.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_fit_is_fresh() -> None:
    assert fitting.FILE.read_text(encoding="utf-8") == fitting.text(), "run .venv/bin/python docs/plan_agreement.py"


def test_the_page_is_fresh(made: ModuleType) -> None:
    written = made.PAGE.read_text(encoding="utf-8")
    assert made.page() == written, "run .venv/bin/python docs/plan_agreement.py"


def test_every_point_outside_is_named_and_explained(made: ModuleType) -> None:
    points = [*agreement.steps(), *agreement.runs(), *agreement.memories()]
    outside = agreement.outliers(points)
    page = made.PAGE.read_text(encoding="utf-8")
    assert [point.name for point in outside if not made.explanation(point)] == []
    assert [point.name for point in outside if f"- `{point.name}` (" not in page] == []
    used = {name for name in made.EXPLAINED if any(point.name.startswith(name) for point in outside)}
    assert set(made.EXPLAINED) == used


def test_every_point_has_a_line(made: ModuleType) -> None:
    points = [*agreement.steps(), *agreement.runs(), *agreement.memories()]
    lines = made.PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and line.count("|") == 10 and not line.startswith("| what")]
    assert len(rows) == len(points)
    assert sum("**outside**" in line for line in rows) == len(agreement.outliers(points))
