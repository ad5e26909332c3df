from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray_sandbox.rehearsal.ray_hosts import cluster, commands, source
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError

HERE = Path(__file__).parent


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(commands, "PROJECT", tmp_path)
    return tmp_path


def test_a_manifest_for_another_ray_is_refused_before_anything_starts(project: Path) -> None:
    site = project / ".venv-rehearsal" / "lib" / "python3.12" / "site-packages"
    (site / "ray-2.59.0.dist-info").mkdir(parents=True)
    binaries = project / ".venv-rehearsal" / "bin"
    binaries.mkdir()
    (binaries / "ray").touch()
    manifest = source.manifest_of(str(HERE / "raycluster.yaml"), project=project)
    with pytest.raises(LocalError, match=r"Ray 2\.59\.0 in \.venv-rehearsal\. Expected 2\.60\.0"):
        cluster.Cluster.start(manifest=manifest, project=project)
    assert not (project / ".local").exists()
