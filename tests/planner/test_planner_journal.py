from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.planner import PlanError, journal
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.ranges import DAY
from tests.planner.environment_helpers import events


def work(**more: Any) -> Any:
    return job(Wish(model="llama-3.1-70b", tokens="1T", batch_tokens="4M", **more), None)


def test_progress_gives_the_speed_of_steps(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    file.write_text(json.dumps({"step_s": 80.0, "world_size": 64, "last_step": 900}), encoding="utf-8")
    found = journal.measured(work(), file)
    assert found.tokens_per_second == pytest.approx(4e6 / (80 * 64))
    assert not found.whole
    assert "80 s a step of 4,000,000 tokens on 64 GPUs (progress.json)" in found.measured


def test_a_short_record_gives_the_median_of_steps(tmp_path: Path) -> None:
    """A stop of an hour between two steps is no step's time."""
    file = events(tmp_path / "events.jsonl", [(0, 1, 64), (80, 2, 64), (160, 3, 64), (3760, 4, 64), (3840, 5, 64)])
    found = journal.measured(work(), file)
    assert found.tokens_per_second == pytest.approx(4e6 / (80 * 64))
    assert not found.whole


def test_a_record_of_days_is_a_whole_run_with_what_was_done_again(tmp_path: Path) -> None:
    """Two days, 1,000 steps reached, 100 of them twice: the steps that count, over all the time."""
    times = [(DAY / 550 * index, index + 1, 64) for index in range(551)]
    times += [(DAY + DAY / 550 * index, 451 + index, 64) for index in range(1, 551)]
    found = journal.measured(work(), events(tmp_path / "events.jsonl", times))
    assert found.whole
    assert found.tokens_per_second == pytest.approx(4e6 * (1001 - 1) / (2 * DAY * 64), rel=1e-6)


def test_fewer_ranks_for_a_while_are_counted_by_their_gpu_time(tmp_path: Path) -> None:
    times = [(800.0 * index, index, 64) for index in range(100)]
    times += [(80_000 + 1600.0 * index, 100 + index, 32) for index in range(100)]
    found = journal.measured(work(), events(tmp_path / "events.jsonl", times))
    assert found.tokens_per_second == pytest.approx(4e6 / (800 * 64), rel=0.01)


def test_a_step_that_is_done_again_or_with_other_ranks_gives_no_pace(tmp_path: Path) -> None:
    """A median of two: one pace that is none of a step would move it."""
    times = [(0.0, 5, 64), (80.0, 6, 64), (85.0, 3, 64), (165.0, 4, 64), (170.0, 5, 32)]
    pace = journal.measured(work(), events(tmp_path / "events.jsonl", times))
    assert pace.tokens_per_second == pytest.approx(4e6 / (80 * 64))
    assert "median of 2 steps on 32 GPUs" in pace.measured


def test_a_missing_line_is_two_steps_in_twice_the_time(tmp_path: Path) -> None:
    pace = journal.measured(work(), events(tmp_path / "events.jsonl", [(0.0, 1, 64), (160.0, 3, 64)]))
    assert pace.tokens_per_second == pytest.approx(4e6 / (80 * 64))


@pytest.mark.parametrize("times", [[(0.0, 1, 64)], [(0.0, 1, 64), (80.0, 1, 64)], [(80.0, 1, 64), (0.0, 2, 64)]])
def test_a_record_without_a_gained_step_has_no_speed(times: list[tuple[float, int, int]], tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="two steps or more"):
        journal.measured(work(), events(tmp_path / "events.jsonl", times))
