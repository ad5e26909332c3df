"""Two teams with real Ray, by the command of docs/teams.md: one run for all tests of this file.

Asserts on states, steps and losses, never on times.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.two_teams import INTERVAL, PREEMPT_AT, STEPS
from tests.support.ray_turn import ray_turn

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "teams.md"
LIMIT_S = 1800  # only so that a hang ends

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PROJECT / ".venv-rehearsal" / "bin" / "ray").exists(), reason="needs .venv-rehearsal (make rehearsal-env)"
    ),
]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    (line,) = re.findall(r"^hyperpod-ray (local teams .*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    folder = tmp_path_factory.mktemp("teams")
    with ray_turn():
        before = set(Cluster.names(project=PROJECT))
        command = [sys.executable, "-m", "hyperpod_ray.cli", *shlex.split(line), "--out", str(folder), "-o", "json"]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        left = set(Cluster.names(project=PROJECT)) - before
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return {
        "report": report,
        "left": left,
        "printed": done.stderr,
        "file": json.loads((folder / "report.json").read_text()),
    }


def test_a_borrows_is_preempted_and_is_admitted_again(story: dict[str, Any]) -> None:
    assert [tuple(one) for one in story["report"]["happened"]] == [
        ("submitted", "a"), ("admitted", "a"), ("submitted", "b"), ("preempted", "a"), ("admitted", "b"), ("done", "b"),
        ("admitted", "a"), ("done", "a"),
    ]  # fmt: skip


def test_the_notice_is_answered_with_a_last_checkpoint(story: dict[str, Any]) -> None:
    one = story["report"]["preempted"]
    assert one["noticed"]
    assert PREEMPT_AT <= one["step"] <= one["saved"][-1] <= one["last_step"] < STEPS["a"]


def test_it_continues_from_that_checkpoint(story: dict[str, Any]) -> None:
    one = story["report"]["preempted"]
    assert one["checkpoint"] >= max(one["saved"]) > INTERVAL


def test_its_losses_are_those_of_the_undisturbed_run(story: dict[str, Any]) -> None:
    run, one = story["report"]["run"], story["report"]["preempted"]
    assert (run["status"], run["submissions"]) == ("SUCCEEDED", 2)
    assert run["equal"]
    assert run["steps_different"] == 0
    again = one["last_step"] - one["checkpoint"]
    assert run["steps_compared"] == STEPS["a"] + again, "steps done again count too"


def test_the_report_is_kept_and_nothing_runs_on(story: dict[str, Any]) -> None:
    assert story["file"] == story["report"]
    assert story["report"]["survived"] is True
    assert story["left"] == set()


def test_it_says_what_it_does_not_show(story: dict[str, Any]) -> None:
    assert "not shown: Kueue itself" in story["printed"]
