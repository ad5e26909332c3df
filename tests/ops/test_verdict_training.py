"""Which failed job is reported: one that was submitted again is spoken for by the later one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from hyperpod_ray.ops.observe.snapshot import Job
from hyperpod_ray.ops.verdict import training
from tests.ops.snapshots import JOB, ago, healthy


@pytest.mark.parametrize(
    ("started", "cluster", "command", "reported"),
    [
        (ago(5), JOB.cluster, "train", False),
        (ago(10), JOB.cluster, "train", True),  # at the same moment, and the job itself
        (ago(20), JOB.cluster, "train", True),
        (ago(5), "other", "train", True),
        (ago(5), JOB.cluster, "evaluate", True),
        (None, JOB.cluster, "train", True),
    ],
)
def test_a_failed_job_is_superseded_by_a_later_one_alone(
    started: datetime | None, cluster: str, command: str, reported: bool
) -> None:
    failed: Job = replace(JOB, id="a", state="FAILED", started=ago(10), ended=ago(8), command="train", run="")
    again = replace(JOB, id="b", state="RUNNING", started=started, cluster=cluster, command=command, run="")
    snapshot = replace(healthy(), jobs=(failed, again))
    assert training._superseded(snapshot, failed) is not reported
    assert not training._superseded(replace(healthy(), jobs=(failed,)), failed), "it is not its own successor"
