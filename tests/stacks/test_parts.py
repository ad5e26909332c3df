"""Which stacks a Stage has is said by its orchestrator's module: a third one is registered here."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
import pytest

from hyperpod_ray import core
from hyperpod_ray.core import orchestrators as registry
from hyperpod_ray.stacks.environment import EnvironmentStage
from tests.ops.kuberay import KubeRayEnvironment, KubeRayPlan

PROJECT = Path(__file__).resolve().parents[2]


def test_a_third_orchestrator_builds_its_own_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = registry.Orchestrator(
        settings=KubeRayEnvironment, plan=KubeRayPlan, stacks="tests.ops.kuberay.stacks", operations="tests.ops.kuberay"
    )
    monkeypatch.setitem(registry.ORCHESTRATORS, "kuberay", line)
    text = (PROJECT / "environments" / "examples" / "existing-cluster.yaml").read_text("utf-8")
    (tmp_path / "third.yaml").write_text(f"orchestrator: kuberay\n{text}")
    stage = EnvironmentStage(cdk.App(), plan=core.load_any("third", folder=tmp_path).plan, project=PROJECT)
    assert [child.node.id for child in stage.node.children] == ["Network"]
    assert stage.namespaces == ["ray"]
    assert stage.eks_cluster is None
    with pytest.raises(ValueError, match="no control plane"):
        stage.add_manifests(stage.network, "Mine", [])
