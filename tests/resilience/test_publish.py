"""What a run publishes: the pace of its steps, and links to its journal in Ray's log folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.journal import Journal
from hyperpod_ray_training.pace import Pace
from hyperpod_ray_training.publish import publish

ROOT = Path(__file__).parents[2]


def stepped(pace: Pace, *gaps: float) -> Pace:
    now = 100.0
    pace.stepped(now)
    for gap in gaps:
        now += gap
        pace.stepped(now)
    return pace


def test_the_pace_is_the_median_and_the_longest_pauses() -> None:
    fields = stepped(Pace(), 1, 1, 1, 30, 1, 20).fields()
    assert fields["step_s"] == 1
    assert fields["pauses_s"][:3] == [30, 20, 1]
    assert fields["best_step_s"] is None, "a few steps may be quick by chance"


def test_the_pace_before_the_second_step_is_not_known() -> None:
    assert stepped(Pace()).fields() == {}


def test_an_attempt_remembers_the_pauses_and_the_best_of_the_one_before() -> None:
    first = stepped(Pace(world=2), *[1.0] * 60, 40, 40).fields()
    assert first["best_step_s"] == 1.0
    again = Pace({**first, "world_size": 2}, world=2)
    assert stepped(again, *[3.0] * 60).fields()["best_step_s"] == 1.0
    assert again.pauses[:2] == [40.0, 40.0]
    other = Pace({**first, "world_size": 2}, world=1)
    assert stepped(other, *[3.0] * 60).fields()["best_step_s"] == 3.0, "fewer ranks have another best"


@pytest.mark.parametrize("found", [None, "x", [None, "a", True], {}])
def test_what_a_file_holds_instead_of_pauses_is_ignored(found: object) -> None:
    assert Pace({"pauses_s": found}).pauses == []


def test_a_state_has_the_moment_it_began(tmp_path: Path) -> None:
    journal = Journal(RunFolder(str(tmp_path)), name="first")
    journal.update(at_once=True, state="running")
    began = journal.progress["state_t"]
    journal.update(at_once=True, state="running", last_step=1)
    assert journal.progress["state_t"] == began
    journal.progress["state_t"] = 1.0
    journal.update(at_once=True, state="saving")
    assert journal.progress["state_t"] > 1.0


def as_job(tmp_path: Path, storage: str) -> Path:
    """Publish from a process whose output goes where Ray puts a driver's; the folder of its job."""
    logs = tmp_path / "logs"
    logs.mkdir(exist_ok=True)
    program = (
        "import sys; from hyperpod_ray_training.folder import RunFolder; "
        "from hyperpod_ray_training.publish import publish; "
        "sys.exit(0 if publish(RunFolder(sys.argv[1])) else 3)"
    )
    with (logs / "job-driver-raysubmit_1.log").open("a") as log:
        command = [sys.executable, "-c", program, storage]
        done = subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, check=False)
    assert done.returncode == 0, (logs / "job-driver-raysubmit_1.log").read_text()
    return logs / "resilience" / "raysubmit_1"


def test_a_job_links_its_journal_beside_its_log(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    place = as_job(tmp_path, str(run))
    (run / "progress.json").write_text(json.dumps({"name": "first"}))
    (run / "events.jsonl").write_text("{}\n")
    assert json.loads((place / "progress.json").read_text()) == {"name": "first"}
    assert (place / "events.jsonl").read_text() == "{}\n"
    other = tmp_path / "runs" / "second"
    other.mkdir()
    as_job(tmp_path, str(other))
    assert (place / "progress.json").readlink() == other / "progress.json", "a job's newest run counts"
    assert sorted(path.name for path in place.iterdir()) == ["events.jsonl", "progress.json"]


def test_outside_of_a_job_nothing_is_published(tmp_path: Path) -> None:
    assert publish(RunFolder(str(tmp_path))) is False
