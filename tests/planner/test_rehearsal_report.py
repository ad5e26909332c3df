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
