"""`runs pull` from a real Ray head."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from cli.main import main
from ops import pull
from ops.jobs_api import Jobs
from ops.submit import post
from tests.ops.ray_head import Head
from tests.ops.test_pull import checkpoint, same
from tests.ops.world import World
from tests.support.emulator import until

pytestmark = [pytest.mark.rehearsal, pytest.mark.slow]
BIG = bytes(os.urandom(1 << 20)) * 24 + b"\x1b[31m\r\n\n"


def test_a_checkpoint_comes_through_rays_dashboard(
    world: World, ray: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERPOD_RAY_ENVIRONMENTS", str(world.folder))
    monkeypatch.setenv("RAY_AUTH_TOKEN", ray.token)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "a run"
    (run).mkdir(parents=True)
    (run / "progress.json").write_text(json.dumps({"name": "pulled", "state": "done", "last_step": 10}))
    folder = checkpoint(run, 10, loss=1.0)
    (folder / "__1_0.distcp").write_bytes(BIG)
    (folder / "checksums-1.json").write_text(json.dumps({"__1_0.distcp": zlib.crc32(BIG)}))
    jobs = Jobs(ray.url, token=ray.token)
    metadata = {"run": "pulled", "run_folder": str(run)}
    job = post(jobs, {"entrypoint": "true", "metadata": metadata, "submission_id": "pulled-job"})
    until(lambda: jobs.json("GET", f"/api/jobs/{job}")["status"] == "SUCCEEDED", seconds=300)
    here = ("--address", ray.url)
    assert main(["runs", "pull", world.name, "pulled", "--to", "best", "--best", "loss", *here]) == 0
    assert same(Path("best"), folder)
    assert "verified" in capfd.readouterr().err
    # a byte that changed after it was written
    (folder / "__1_0.distcp").write_bytes(BIG[:-1] + b"?")
    monkeypatch.setattr(pull, "WAIT_SECONDS", 0.0)
    assert main(["runs", "pull", world.name, "pulled", "--to", "spoilt", *here]) == 1
    assert "__1_0.distcp did not arrive in 5 tries: CRC-32" in capfd.readouterr().err
    assert not Path("spoilt").exists()
    assert (Path("spoilt.partial") / "__0_0.distcp").exists()
