"""The commands by hand of `docs/what-happens-when-a-node-dies.md`, as typed, on pods whose `ray` is a stand-in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.rehearsal.ray_hosts import commands
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import load
from tests.rehearsal.test_rehearse_cluster import commands as printed

HERE = Path(__file__).parent


def test_the_commands_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ray = tmp_path / ".venv-rehearsal" / "bin" / "ray"
    ray.parent.mkdir(parents=True)
    ray.write_text(f"#!{sys.executable}\n" + (HERE / "stand_in_ray.py").read_text())
    ray.chmod(0o755)
    monkeypatch.setattr(commands, "PROJECT", tmp_path)
    # a rehearsal renders the RayCluster of the environment (test_rehearse_cluster.py)
    monkeypatch.setattr(commands, "manifest_of", lambda *_, **__: load(HERE / "raycluster.yaml"))
    monkeypatch.chdir(tmp_path)
    seen = list[tuple[str, str]]()
    try:
        for command in printed("ray"):
            words = command[3:]
            assert main(words) == 0, capfd.readouterr().err
            seen.append((words[2], capfd.readouterr().out))
    finally:
        for name in Cluster.names(project=tmp_path):
            Cluster.load(name=name, project=tmp_path).stop()
    assert [verb for verb, _ in seen] == [
        "start", "status", "inject", "status", "replace-node", "inject", "replace-node", "inject", "stop",
    ]  # fmt: skip
    said = [text for _, text in seen]
    assert "not honoured" in said[0]
    assert said[1].count("running  ray ALIVE") == 3
    assert "gone" in said[3]
    assert "replaced by" in said[4]
    frozen = said[5].partition(":")[0]
    assert said[6].startswith(f"{frozen}: replaced by")
    drained = json.loads((tmp_path / "drained").read_text())
    assert (drained[0], drained[1].partition("=")[0], drained[-1]) == ("drain-node", "--node-id", "5")
    assert Cluster.names(project=tmp_path) == []
