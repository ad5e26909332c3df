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
    """With Ray: the fault that takes the node list, the Ray cluster and the script's start a second time, and the one
    that takes none of them, as a spare stands by."""
    short = ["--faults", "node,spare", "--interval", "6"]
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
    node, _ = report["faults"]
    assert (node["by"], node["restarts"]) == ("auto-resume", 0), "the same job and allocation"
    assert node["report"]["checkpoint_step"], "from a checkpoint"
    assert node["nodes_after"] == node["nodes_before"], "the replacement has the old name"


def test_a_spare_takes_over_without_a_new_step_of_slurm(with_ray: tuple[Any, ...]) -> None:
    """From the others' memory, in the same job, which goes on without the node."""
    report = with_ray[0]
    _, spare = report["faults"]
    lost = spare["report"]["target"]
    assert (spare["by"], spare["restarts"], spare["report"]["checkpoint"]) == ("spare", 0, "memory")
    assert len(spare["nodes_before"]) == 3
    assert spare["nodes_after"] == [name for name in spare["nodes_before"] if name != lost]
    assert report["run"]["submissions"] == 2, "one for each kind of job"


def test_of_ray_on_slurm_nothing_is_left(with_ray: tuple[Any, ...]) -> None:
    _, addresses, left = with_ray
    assert addresses == {"0100007F"}
    assert left == set()
