"""A rank dies in a real Ray, in the middle of an epoch of rows that the embedded AWS's S3 has: each row counts once."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.run import REHEARSAL
from tests.support.emulator import ROOT, Emulator

SCRIPT = ROOT / "tests" / "resilience" / "exact_run.py"
LIMIT_S = 1500  # only so that a hang ends


@pytest.mark.rehearsal
@pytest.mark.slow
def test_each_row_counts_once_although_a_rank_was_killed_and_all_began_again(
    emulator: Emulator, tmp_path: Path
) -> None:
    where = {"LocationConstraint": emulator.running.region}
    emulator.boto("s3").create_bucket(Bucket="rows-of-a-run", CreateBucketConfiguration=where)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "RESILIENCE_", "AWS_"))}
    done = subprocess.run(
        [str(REHEARSAL), str(SCRIPT), str(tmp_path), "s3://rows-of-a-run/train"],
        env={
            **kept,
            "PYTHONPATH": f"{ROOT}:{SCRIPT.parent}",
            # Ray's own niceness of workers, 15, leaves them a thirtieth of a core beside the rest of the suite
            "RAY_worker_niceness": "0", "RAY_raylet_start_wait_time_s": "600",
            "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "AWS_ENDPOINT_URL": emulator.control.endpoint, "AWS_REGION": emulator.running.region,
            "AWS_ACCESS_KEY_ID": emulator.running.account, "AWS_SECRET_ACCESS_KEY": emulator.running.secret,
        },
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["error"] == ""
    folder = tmp_path / "run"
    assert (folder / "died").exists()
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    (restored,) = [Path(event["path"]).name for event in events if event["kind"] == "restore"]
    assert restored.startswith("step-00000004"), "the epoch has eight steps, and it died at the sixth"
    assert json.loads((folder / "seen.json").read_text()) == [[1.0] * result["rows"]] * result["epochs"]
    keys = [content["Key"] for content in emulator.boto("s3").list_objects_v2(Bucket="rows-of-a-run")["Contents"]]
    assert len(keys) == 3
