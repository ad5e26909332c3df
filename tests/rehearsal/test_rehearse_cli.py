"""The command line's messages and the table; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray_sandbox.rehearsal.job import Job
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError

PROJECT = Path(__file__).resolve().parents[2]


def test_an_unknown_job_is_refused_with_the_ones_there_are(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="Expected one of classify, finetune"):
        Job(name="pretrain", project=PROJECT, steps=1, interval=10, step_delay_s=0, workers="2")
