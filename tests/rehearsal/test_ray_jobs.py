"""A RayJob's entrypoint on a real Ray, as the sandbox's Kubernetes API has it run: its end, its files, what is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.rehearsal.test_rehearse_cluster import LIMIT_S, PROJECT, left_since, pytestmark, ray_processes
from tests.support.ray_turn import ray_turn

__all__ = ["pytestmark"]
MANIFEST = Path(__file__).parent / "ray_hosts" / "raycluster.yaml"
SCRIPT = """
import os, pathlib, ray
ray.init()
node = ray.get(ray.remote(lambda: os.environ["RAY_NODE_TYPE_NAME"]).remote())
run = pathlib.Path("/fsx/runs", os.environ["RUN"])
run.mkdir(parents=True)
(run / "node").write_text(node)
"""


def test_an_entrypoint_runs_on_ray_and_writes_to_the_sandbox_alone(tmp_path: Path) -> None:
    machine = [Path("/fsx"), Path("/tmp/ray/ray_current_cluster")]
    before = [(path.exists(), path.exists() and path.stat().st_mtime_ns) for path in machine]
    with ray_turn():
        processes = ray_processes()
        good, bad = run(tmp_path, "good", SCRIPT), run(tmp_path, "bad", "raise SystemExit(7)")
        assert left_since(processes) == set()
    assert good["jobStatus"] == "SUCCEEDED", good
    assert good["startTime"] <= good["endTime"]
    assert (tmp_path / "kubernetes" / "fsx" / "runs" / "good" / "node").read_text() == "gpu"
    assert bad["jobStatus"] == "FAILED"
    assert "7" in bad["message"]
    assert [(path.exists(), path.exists() and path.stat().st_mtime_ns) for path in machine] == before


def run(root: Path, name: str, script: str) -> Any:
    """What the program says of a RayJob at its end."""
    folder = root / "kubernetes" / "rayjobs" / name
    folder.mkdir(parents=True)
    (root / f"{name}.py").write_text(script)
    job = {
        "spec": {
            "entrypoint": f"{PROJECT / '.venv-rehearsal' / 'bin' / 'python'} {root / name}.py",
            "runtimeEnvYAML": f"env_vars: {{RUN: {name}}}",
            "entrypointNumGpus": 1,
        },
        "status": {"jobId": f"job-{name}"},
    }
    cluster = yaml.safe_load(MANIFEST.read_text())
    (folder / "job.json").write_text(json.dumps({"job": job, "cluster": cluster}))
    ended = subprocess.run(
        [sys.executable, "-m", "hyperpod_ray_sandbox.rehearsal.ray_jobs", str(folder)],
        cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads((folder / "status.json").read_text())
