"""Tests of jobs/: they run in `.venv-rehearsal`, where torch and Ray are."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.resilience.exact_helpers import folder  # noqa: F401 - fixtures
from tests.resilience.resumable_helpers import run, undisturbed  # noqa: F401 - fixtures
from tests.resilience.spares_helpers import party, truth  # noqa: F401 - fixtures

ROOT = Path(__file__).parents[2]
if any(importlib.util.find_spec(name) is None for name in ("torch", "ray")):
    raise pytest.UsageError("tests/resilience run in .venv-rehearsal, with torch and Ray: `make test` does it")


WORKER_ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo", "RESILIENCE_FAULT_HOOKS": "1", "HF_HUB_OFFLINE": "1"}


def job_environment(**extra: str) -> dict[str, str]:
    """The environment of a job started by a test: this tree's library, no running cluster, no telemetry."""
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "RESILIENCE_"))}
    return keep | {
        "PYTHONPATH": str(ROOT),
        # a rank that is short of processor time is slow, not lost
        "RESILIENCE_PROCESS_GROUP_TIMEOUT_S": "900",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    } | extra  # fmt: skip


@contextlib.contextmanager
def forking(script: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has imported what is slow, and forks others for each line of JSON on its stdin."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(script))],
        env=job_environment(**environment),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def launcher() -> Iterator[subprocess.Popen[str]]:
    """Forks jobs: whole scripts."""
    with forking("launcher.py") as process:
        yield process


@pytest.fixture(scope="session")
def forker() -> Iterator[subprocess.Popen[str]]:
    """Forks workers of runs with spares."""
    with forking("spare_worker.py", **WORKER_ENVIRONMENT) as process:
        yield process


@pytest.fixture
def run_job(tmp_path: Path, launcher: subprocess.Popen[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a job in local mode to its end: one process, or `ranks` over gloo with torchrun's environment."""

    def start(
        job: str, *arguments: str, ranks: int = 0, check: bool = True, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        request = {
            "script": str(ROOT / "jobs" / job / "train.py"),
            "arguments": ["--storage", str(tmp_path), "--workers", "0", *arguments],
            "ranks": ranks,
            "environment": job_environment(**extra),
            "output": str(tmp_path / "output"),
        }
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        launcher.stdin.write(json.dumps(request) + "\n")
        launcher.stdin.flush()
        codes = json.loads(launcher.stdout.readline())
        told = "".join(path.read_text() for path in sorted(tmp_path.glob("output.*")))
        code = next((code for code in codes if code), 0)
        if check and code:
            pytest.fail(f"{job} {' '.join(arguments)} exited {codes}:\n{told[-4000:]}")
        return subprocess.CompletedProcess(args=arguments, returncode=code, stdout="", stderr=told)

    return start
