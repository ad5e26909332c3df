"""Ray on a real Slurm, by the very command of docs/slurm.md, with a node that is lost: `make stories`.

Asserts on states, steps and losses, never on times. Skipped, with the reason, where Slurm is not installed.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.rehearsal.slurm.test_slurm_cluster import page_command, pytestmark, rehearse

__all__ = ["pytestmark"]


@pytest.fixture(scope="module")
def with_ray(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], set[str], set[int]]:
    """With Ray, and the fault that takes the node list, the Ray cluster and the script's start: each a second time."""
    short = ["--faults", "node", "--interval", "6"]
    return rehearse([*page_command(1), *short], tmp_path_factory.mktemp("report"))


def test_with_ray_the_losses_are_those_of_the_undisturbed_run_too(with_ray: tuple[Any, ...]) -> None:
    report = with_ray[0]
    assert (report["survived"], report["launcher"]) == (True, "ray")
    run = report["run"]
    assert run["steps_different"] == 0
    assert run["steps_compared"] >= report["settings"]["steps"]
    assert run["final_loss"] == run["undisturbed_loss"] is not None


def test_auto_resume_starts_the_ray_cluster_again_in_the_same_job(with_ray: tuple[Any, ...]) -> None:
    report = with_ray[0]
    (node,) = report["faults"]
    assert (node["by"], node["restarts"]) == ("auto-resume", 0), "the same job and allocation"
    assert node["report"]["checkpoint_step"], "from a checkpoint"
    assert node["nodes_after"] == node["nodes_before"], "the replacement has the old name"
    assert report["run"]["submissions"] == 1


def test_of_ray_on_slurm_nothing_is_left(with_ray: tuple[Any, ...]) -> None:
    _, addresses, left = with_ray
    assert addresses == {"0100007F"}
    assert left == set()
