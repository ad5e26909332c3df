"""Who answers for each source of a snapshot, on each orchestrator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.observe import account, hyperpod, kube, slurm, training
from hyperpod_ray.ops.observe.snapshot import CONTROLLERS, EKS, HANGS, NODES, SLURM, TRAINING
from hyperpod_ray.ops.orchestrators.eks.sources import EksSources
from hyperpod_ray.ops.orchestrators.slurm.sources import SlurmSources

SHARED = {
    "CloudFormation": (account, "stacks_part"),
    "HyperPod": (hyperpod, "cluster_part"),
    "HyperPod events": (hyperpod, "events_part"),
    "FSx": (account, "file_systems_part"),
}
ON_EKS = SHARED | {
    EKS: (account, "control_plane_part"),
    "Kubernetes": (kube, "kubernetes_part"),
    NODES: (kube, "nodes"),
    CONTROLLERS: (kube, "controllers_part"),
    TRAINING: (training, "gathered"),
    HANGS: (hyperpod, "hangs_part"),
}
ON_SLURM = SHARED | {SLURM: (slurm, "look")}


@pytest.mark.parametrize(("sources", "readers"), [(EksSources, ON_EKS), (SlurmSources, ON_SLURM)])
def test_each_source_asks_its_own_reader(
    sources: Any, readers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = SimpleNamespace()
    for module, name in readers.values():
        monkeypatch.setattr(module, name, lambda asked, *_, name=name, **__: (asked is target) and {"by": name})
    monkeypatch.setattr(hyperpod, "cluster", lambda asked: asked)
    monkeypatch.setattr(hyperpod, "instances", lambda asked: [asked])
    tasks = sources(target).tasks([], lambda _: None)
    answers = {source: repr(ask()) for source, ask in tasks.items()}
    assert answers.keys() == readers.keys()
    assert [source for source, (_, name) in readers.items() if f"'by': '{name}'" not in answers[source]] == []
