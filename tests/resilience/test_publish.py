"""What a run publishes: the pace of its steps, and links to its journal in Ray's log folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.publish import publish

ROOT = Path(__file__).parents[2]


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
