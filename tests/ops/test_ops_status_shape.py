"""The JSON of `status`: every key is documented, and every documented key is there."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.ops import output
from hyperpod_ray.ops.journal.record import RunEvent
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.observe.snapshot import (
    Controller,
    FileSystem,
    Hang,
    Job,
    RayJob,
    Snapshot,
    TrainingPlan,
)
from hyperpod_ray.ops.status import as_data
from hyperpod_ray.ops.verdict import Finding, judge

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "reference" / "status.md").read_text(encoding="utf-8")
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
EMPTY = Snapshot(environment="demo", at=NOW)
RUN = Run(
    name="first", job="raysubmit_1", cluster="ray", namespace="ray", state="running", at=NOW, step=40, step_seconds=0.5,
    last_step_at=NOW - timedelta(seconds=2), last_checkpoint_at=NOW - timedelta(minutes=3), last_checkpoint_step=35,
)  # fmt: skip


def documented(section: str) -> set[str]:
    """The keys in the first column of a section's table."""
    text = PAGE.partition(f"## `{section}`\n")[2] if section else PAGE
    rows = [line.split("|")[1] for line in text.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


def test_the_document_has_the_documented_keys() -> None:
    made = output.plain(as_data(EMPTY, judge(EMPTY)))
    assert documented("") == made.keys() | {"schema_version", "kind", "generated_at", "interruptions"}


@pytest.mark.parametrize(
    ("section", "kind", "derived"),
    [
        ("verdict.findings[]", Finding, set()),
        ("controllers[]", Controller, set()),
        ("training_plans[]", TrainingPlan, set()),
        ("ray_jobs[]", RayJob, set()),
        ("jobs[]", Job, set()),
        (
            "runs[]",
            Run,
            {
                "steps_per_second",
                "step_age_seconds",
                "checkpoint_age_seconds",
                "goodput",
                "spent_seconds",
                "lost_by_cause",
            },
        ),
        ("file_systems[]", FileSystem, set()),
        ("hangs[]", Hang, set()),
    ],
)
def test_every_field_is_documented(section: str, kind: Any, derived: set[str]) -> None:
    assert documented(section) == ({field.name for field in fields(kind)} | derived) - {"record"}


def test_every_field_of_a_runs_event_is_named() -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `events` | newest lines")]
    assert {field.name for field in fields(RunEvent)} <= set(re.findall(r"`([^`]+)`", row))


def test_a_run_has_its_rate_and_its_ages() -> None:
    (run,) = output.plain(as_data(Snapshot(environment="demo", at=NOW, runs=(RUN,)), judge(EMPTY)))["runs"]
    assert (run["steps_per_second"], run["step_age_seconds"], run["checkpoint_age_seconds"]) == (2.0, 2.0, 180.0)
    assert run["last_step_at"] == "2026-11-22T11:59:58Z"
    assert run["loss"] is None
