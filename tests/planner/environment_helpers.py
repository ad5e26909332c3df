"""What tests of `alternatives`, `environment`, `planner_journal` share."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from hyperpod_ray.planner import answers, checks
from hyperpod_ray.planner.cluster import bill
from hyperpod_ray.planner.ranges import Range
from hyperpod_ray.pricing import price_file
from tests.planner.test_checks import WORKERS, plan_of

DATE = date(2026, 11, 22)


def rows(edits: dict[str, Any]) -> dict[str, Range]:
    outlook = checks.outlook(plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, **edits}))
    assert outlook is not None
    plan = plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8})
    made = answers.plan(outlook, bill(plan, price_file.recorded(), day=DATE), simulated=False)
    found = [row for answer in made.answers if answer.key == "goodput" for row in answer.rows]
    return {row.what: row.value for row in found if isinstance(row.value, Range)}


def events(path: Path, times: list[tuple[float, int, int]]) -> Path:
    lines = [json.dumps({"t": 1.7e9 + at, "kind": "step", "step": step, "world": world}) for at, step, world in times]
    lines.insert(1, json.dumps({"t": 1.7e9, "kind": "save", "step": 1}))
    path.write_text("\n".join([*lines, '{"t": 17000']), encoding="utf-8")
    return path
