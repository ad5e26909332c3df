from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray import core
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops.observe import hyperpod, slurm
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import HyperPodNodes
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair
from hyperpod_ray.ops.orchestrators.slurm import repair as slurm_repair
from hyperpod_ray.ops.reach.clients import SlurmTarget
from tests.ops.ops_slurm_helpers import CLUSTER, CONTROLLER, WORKER


@pytest.fixture(scope="module")
def target() -> SlurmTarget:
    file = core.load_any("slurm", folder=FOLDER / "examples")
    assert isinstance(file, core.SlurmFile)
    return SlurmTarget(file)


@pytest.mark.parametrize("when", ["now", "after-jobs"])
def test_a_repair_after_jobs_is_slurms_and_one_at_once_is_hyperpods(
    target: SlurmTarget, monkeypatch: pytest.MonkeyPatch, when: Any
) -> None:
    done: list[str] = []

    def hyperpods(*_: object, **__: object) -> str:
        done.append("HyperPod")
        return ""

    def slurms(*_: object, **__: object) -> None:
        done.append("Slurm")

    monkeypatch.setattr("hyperpod_ray.ops.orchestrators.slurm.repair.act_now", hyperpods)
    monkeypatch.setattr(slurm, "update", slurms)
    monkeypatch.setattr(hyperpod, "require_cluster", lambda _: CLUSTER)
    monkeypatch.setattr(hyperpod, "instances", lambda _: (CONTROLLER, WORKER))
    repair = NodeRepair(when=when, instances=(WORKER,), hosts=("n1",))
    slurm_repair.SlurmRepair(target, HyperPodNodes(target)).carry_out(repair, verb="replace")
    assert done == ["HyperPod" if when == "now" else "Slurm"]
