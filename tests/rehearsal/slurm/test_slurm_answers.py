"""What the rehearsal reads from Slurm, held against what a real Slurm printed (tests/ops/slurm_outputs)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray_sandbox.rehearsal.slurm import answers

RECORDED = Path(__file__).parents[2] / "ops" / "slurm_outputs"


def recorded(name: str) -> str:
    return (RECORDED / f"scontrol-show-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("job-running", "n[1-2]"),
        ("job-pending", ""),
        ("job-node-down", "n1"),
        ("job-requeued", ""),
        ("job-restarted", "n[3-4]"),
    ],
)
def test_the_node_list_is_what_the_job_has_now(name: str, nodes: str) -> None:
    assert answers.node_list(recorded(name)) == nodes


def test_the_node_list_is_neither_what_was_asked_for_nor_what_was_ruled_out() -> None:
    text = "JobId=1 JobName=x\n   ReqNodeList=n[7-8] ExcNodeList=n9\n   NodeList=n[1-2]\n   BatchHost=n1\n"
    assert answers.node_list(text) == "n[1-2]"


@pytest.mark.parametrize(
    ("name", "states", "lost", "idle", "replace"),
    [
        ("node-idle", {"IDLE"}, False, True, False),
        ("node-running", {"ALLOCATED"}, False, False, False),
        ("node-silent", {"ALLOCATED", "NOT_RESPONDING"}, True, False, False),
        ("node-down", {"DOWN", "NOT_RESPONDING"}, True, False, False),
        ("node-action-replace", {"DOWN", "NOT_RESPONDING"}, True, False, True),
        ("node-fail-idle", {"IDLE", "FAIL"}, True, False, True),
        ("node-fail-running", {"ALLOCATED", "FAIL"}, True, False, True),
        ("node-drained", {"IDLE", "DRAIN"}, False, False, False),
    ],
)
def test_a_node_is_what_the_controller_said(name: str, states: set[str], lost: bool, idle: bool, replace: bool) -> None:
    node = answers.node(recorded(name))
    assert node.states == states
    assert (node.lost, node.idle, node.to_be_replaced) == (lost, idle, replace)


def test_signs_of_a_short_state_are_read_as_its_words_are() -> None:
    assert answers.node("NodeName=n1\n   State=DOWN*+DRAIN ThreadsPerCore=1\n").states == {
        "DOWN", "DRAIN", "NOT_RESPONDING"
    }  # fmt: skip


def test_a_reason_keeps_its_words() -> None:
    assert answers.node(recorded("node-drained")).reason.startswith("NVRM Xid 79: GPU has fallen off the bus")


def test_all_nodes_are_found_and_only_those_of_the_job_count_as_lost() -> None:
    listed = answers.nodes(recorded("nodes-action"))
    assert [node.name for node in listed] == ["n1", "n2", "n3", "n4"]
    assert answers.lost(listed, among=["n2", "n1"]) == ["n2"]


def test_the_batch_script_of_a_restarted_job_finds_its_own_list_in_the_environment() -> None:
    """A restart writes it; a node that is replaced in a running job does not: that is the trap."""
    lines = (RECORDED / "environment-restarted.txt").read_text().splitlines()
    assert "SLURM_JOB_NODELIST=n[3-4]" in lines
    assert "SLURM_RESTART_COUNT=1" in lines
