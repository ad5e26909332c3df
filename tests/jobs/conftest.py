"""Tests of jobs/: the ones that need torch and Ray are skipped, with the reason, where those are not installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HAS_TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("ray") is not None
NEEDS_TORCH = "needs torch and ray, which live in .venv-rehearsal: run `make test-rehearsal`"

collect_ignore = [] if HAS_TORCH else ["test_resumable.py", "test_ranks.py", "test_documentation.py"]


def pytest_report_header() -> str | None:
    """Say what is left out before anything runs."""
    return None if HAS_TORCH else f"tests/jobs: {', '.join(collect_ignore)} skipped: {NEEDS_TORCH}"


def job_environment(**extra: str) -> dict[str, str]:
    """The environment of a job started by a test: this tree's library, no running cluster, no telemetry."""
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "RESILIENCE_"))}
    return keep | {
        "PYTHONPATH": str(ROOT),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    } | extra  # fmt: skip


@pytest.fixture
def run_job(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Start a job in local mode, as one process or under torchrun with `ranks` processes over gloo."""

    def start(
        job: str, *arguments: str, ranks: int = 0, check: bool = True, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        script = job if job.endswith(".py") else str(ROOT / "jobs" / job / "train.py")
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
        done = subprocess.run(
            [sys.executable, *torchrun, script, "--storage", str(tmp_path), "--workers", "0", *arguments],
            env=job_environment(**extra), cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        if check and done.returncode:
            pytest.fail(f"{job} {' '.join(arguments)} exited {done.returncode}:\n{done.stderr[-4000:]}")
        return done

    return start
