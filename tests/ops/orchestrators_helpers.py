"""What `test_orchestrators.py`, `test_interface.py` share."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.core import orchestrators as registry
from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.reach.clients import AnyTarget
from tests.ops.kuberay import CLOUD, Cloud, KubeRayEnvironment, KubeRayPlan

EXAMPLES = Path(__file__).resolve().parents[2] / "environments" / "examples"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    line = registry.Orchestrator(
        settings=KubeRayEnvironment, plan=KubeRayPlan, stacks="tests.ops.kuberay.stacks", operations="tests.ops.kuberay"
    )
    monkeypatch.setitem(registry.ORCHESTRATORS, "kuberay", line)
    for name, value in vars(Cloud(nodes={"n1": "Running", "n2": "Running"})).items():
        monkeypatch.setattr(CLOUD, name, value)
    text = (EXAMPLES / "existing-cluster.yaml").read_text("utf-8")
    (tmp_path / "third.yaml").write_text(f"orchestrator: kuberay\n{text}")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def ops(folder: Path, *words: str) -> int:
    return main(["--environments", str(folder), *words])


def target(folder: Path) -> AnyTarget:
    return orchestrators.any_target("third", folder=folder)
