"""The RayJobs that `submit` creates are what `jobs.txt` records: a property changes only in review."""

from __future__ import annotations

from tests.ops import said_jobs
from tests.support import records


def test_the_jobs_are_those_of_the_record() -> None:
    assert records.difference(said_jobs.FILE, said_jobs.today()) == ""


def test_each_job_differs_from_the_others() -> None:
    """A field that changes nothing is a field that somebody set for nothing."""
    recorded = records.read(said_jobs.FILE.read_text(encoding="utf-8"))
    for environment in said_jobs.JOBS:
        jobs = [str(each) for name, each in recorded.items() if name.startswith(f"{environment}: ")]
        assert len(jobs) == len(set(jobs)) == len(said_jobs.JOBS[environment])
