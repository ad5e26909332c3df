from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner import rehearsal_report as rehearsed

HANG_SECONDS = 60
"""CPU seconds after which a case counts as hanging; each takes a fraction of one."""


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """A case that hangs fails instead of standing still."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"more than {HANG_SECONDS} CPU seconds")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("value", [-1, float("nan"), 1e9, "2", None])
def test_a_report_with_impossible_times(value: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    fault = {"fault": "node", "survived": True, "detected_after_s": value, "resumed_after_s": 14.0}
    file.write_text(json.dumps({"faults": [fault]}), encoding="utf-8")
    with pytest.raises(PlanError, match="detected_after_s"):
        rehearsed.read(file)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({}, "no report of a rehearsal ('faults'). Expected a report of a rehearsal. Fix: give the report.json"),
        ({"faults": [{"survived": True}]}, "no report of a rehearsal ('fault')"),
        ({"faults": 1}, "no report of a rehearsal"),
        ({"faults": [{"fault": "node", "survived": True, "detected_after_s": 1.0}]}, "('resumed_after_s')"),
        ({"faults": []}, "no lost node that was recovered from. Expected one. Fix: rehearse with --faults node"),
        ({"faults": [{"fault": "worker", "survived": True}]}, "no lost node that was recovered from"),
        ({"faults": [{"fault": "node", "survived": False}]}, "no lost node that was recovered from"),
        (
            {"faults": [{"fault": "node", "survived": True, "detected_after_s": 5.0, "resumed_after_s": 4.0}]},
            "resumed_after_s: 4. Expected a number from 5 to 86,400",
        ),
    ],
)
def test_what_is_no_report_of_a_lost_node(report: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report), encoding="utf-8")
    with pytest.raises(PlanError) as refused:
        rehearsed.read(file)
    assert words in str(refused.value)


def test_the_slowest_of_each_counts(tmp_path: Path) -> None:
    """Detection and restart are each the longest of all lost nodes."""
    times = [(2.0, 14.0), (5.0, 11.0)]
    faults = [
        {"fault": "node", "survived": True, "detected_after_s": begin, "resumed_after_s": end} for begin, end in times
    ]
    file = tmp_path / "report.json"
    file.write_text(json.dumps({"faults": [*faults, {"fault": "worker", "survived": True}]}), encoding="utf-8")
    found = rehearsed.read(file)
    assert (found.detect, found.start, found.source) == (5.0, 12.0, str(file))
