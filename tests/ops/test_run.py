from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hyperpod_ray.ops.in_ray.history import History
from hyperpod_ray.ops.journal.run import Run, run_of

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def test_a_clock_that_is_behind_makes_no_negative_age() -> None:
    ahead = Run(name="a", job="b", cluster="c", namespace="d", state="running", at=NOW, last_step_at=NOW + timedelta(1))
    assert ahead.step_age_seconds == 0


START = 1_000_000.0


def test_one_long_pause_is_no_habit() -> None:
    at = datetime.fromtimestamp(START, UTC)
    run = run_of({"pauses_s": [90, 8], "part_pauses_s": [300, 40]}, History(), name="first", at=at)
    assert (run.longest_pause_seconds, run.longest_part_pause_seconds) == (8, 40)
