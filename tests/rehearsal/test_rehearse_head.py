"""Real Ray loses the head of an environment whose state is on a volume: training does not notice. Minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.ray_turn import ray_turn

PROJECT = Path(__file__).resolve().parents[2]
EXAMPLES = PROJECT / "environments" / "examples"
LIMIT_S = 1800  # only so that a hang ends

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PROJECT / ".venv-rehearsal" / "bin" / "ray").exists(), reason="needs .venv-rehearsal (make rehearsal-env)"
    ),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("head")
    command = [sys.executable, "-m", "hyperpod_ray.cli", "--environments", str(EXAMPLES), "local", "rehearse"]
    command += ["head-fault-tolerance", "--faults", "head", "--out", str(folder), "--fault-timeout", "900"]
    with ray_turn():
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def test_the_heads_state_is_in_rays_embedded_store(report: dict[str, Any]) -> None:
    assert report["cluster"]["fault_tolerance"] == "rocksdb"
    assert report["cluster"]["driver_off_the_head"]


def test_a_lost_head_is_back_and_training_is_untouched(report: dict[str, Any]) -> None:
    (fault,) = report["faults"]
    assert fault["survived"]
    assert (fault["interrupted"], fault["resubmitted"], fault["steps_lost"]) == (False, False, 0)
    assert fault["head_back_after_s"] is not None
    (run,) = report["runs"]
    assert (run["status"], run["submissions"], run["steps_different"]) == ("SUCCEEDED", 1, 0)
