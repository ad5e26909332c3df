"""What `test_local_ray_cluster.py`, `test_local_ray_bridge.py`, `test_local_ray_replacement.py` share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import load
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import Pod

HERE = Path(__file__).parent


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    ray = tmp_path / ".venv-rehearsal" / "bin" / "ray"
    ray.parent.mkdir(parents=True)
    ray.write_text(f"#!{sys.executable}\n" + (HERE / "stand_in_ray.py").read_text())
    ray.chmod(0o755)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "must-not-reach-a-pod")
    return tmp_path


@pytest.fixture(params=["namespace", "session"])
def cluster(project: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    if request.param == "session":
        monkeypatch.setattr(isolation, "choose", lambda: "session")
    manifest = load(HERE / "raycluster.yaml")
    started = Cluster.start(manifest=manifest, project=project, name=f"test-{request.param}", env={"EXTRA": "1"})
    yield started
    started.stop()


def told(cluster: Cluster, pod: Pod, what: str) -> Any:
    log = (cluster.folder / "logs" / f"{pod.name}.log").read_text()
    return next(json.loads(line.split(" ", 1)[1]) for line in log.splitlines() if line.startswith(what))
