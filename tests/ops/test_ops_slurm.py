"""What is read of Slurm, and what follows from it; the answers are a real Slurm's (`tests/ops/slurm_outputs`)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import core
from core.loader import FOLDER
from ops import slurm, status
from ops.clients import SlurmTarget
from ops.node_rows import joined
from ops.snapshot import Cluster, Group, Instance, Snapshot, Unseen
from ops.verdict import RULES, judge

RECORDED = Path(__file__).parent / "slurm_outputs"
ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl"
CONTROLLER = Instance(id="i-0123456789abcdef0", group="controller", type="ml.m5.4xlarge", status="Running")
WORKER = Instance(id="i-0123456789abcdef1", group="workers", type="ml.p5.48xlarge", status="Running")
CLUSTER = Cluster(
    name="train-slurm",
    arn=ARN,
    status="InService",
    groups=(
        Group(name="controller", type="ml.m5.4xlarge", target=1, current=1),
        Group(name="workers", type="ml.p5.48xlarge", target=1, current=1, accelerated=True),
    ),
)
COLUMNS = re.compile(r"%\.?\d*(\w)")


@pytest.fixture(scope="module")
def target() -> SlurmTarget:
    file = core.load_any("slurm", folder=FOLDER / "examples")
    assert isinstance(file, core.SlurmFile)
    return SlurmTarget(file)


def answer(state: str) -> str:
    """What the command prints in a recorded state, between what Session Manager prints around it."""
    nodes = (RECORDED / f"sinfo-N-{state}.txt").read_text(encoding="utf-8").splitlines()[1:]  # -h prints no heading
    jobs = (RECORDED / f"squeue-o-{state}.txt").read_text(encoding="utf-8")
    return "\n".join(["", "Starting session with SessionId: x", *nodes, slurm.MARK, jobs, "Exiting session", ""])


def seen(state: str) -> Snapshot:
    return Snapshot(
        environment="slurm",
        at=datetime(2026, 11, 22, tzinfo=UTC),
        orchestrator="slurm",
        cluster=CLUSTER,
        instances=(CONTROLLER, WORKER),
        slurm=slurm.parsed(answer(state)),
    )


def test_jobs_and_nodes_of_a_real_slurm_are_read() -> None:
    found = slurm.parsed(answer("running"))
    assert [node.name for node in found.nodes] == ["n1", "n2", "n3", "n4"]
    assert {node.partitions for node in found.nodes} == {("dev",)}
    assert [(job.id, job.name, job.state, job.where) for job in found.jobs] == [
        ("2", "waits", "PENDING", "(Resources)"),
        ("1", "finetune", "RUNNING", "n[1-2]"),
    ]


def test_an_idle_cluster_has_no_job() -> None:
    found = slurm.parsed(answer("idle"))
    assert found.jobs == ()
    assert not any(node.lost or node.silent or node.drained for node in found.nodes)


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("idle", "Healthy"),
        ("running", "Healthy"),
        ("silent", "Recovering"),
        ("down", "Action required"),
        ("action-replace", "Recovering"),
    ],
)
def test_the_verdict_of_each_recorded_state(state: str, verdict: str) -> None:
    assert judge(seen(state)).state == verdict, judge(seen(state)).findings


def test_a_node_that_is_down_without_a_request_says_what_to_do() -> None:
    (finding,) = [item for item in judge(seen("down")).findings if item.kind == "action-required"]
    assert 'state=down reason="Action:Replace"' in finding.next
    assert "ends the jobs" in finding.next
    assert finding.subject == "n2"


def test_a_drained_node_is_a_note() -> None:
    notes = [item for item in judge(seen("drained")).findings if item.kind == "note"]
    assert any("takes no new job" in item.what for item in notes)


def test_without_an_answer_hyperpods_view_remains() -> None:
    unseen = (Unseen(source="Slurm", why="no plugin", next="install it"),)
    found = judge(replace(seen("idle"), slurm=None, unseen=unseen))
    assert [item.why for item in found.findings if "Slurm was not asked" in item.what] == ["no plugin"]


def test_nothing_of_kubernetes_is_judged_or_shown() -> None:
    assert not {rule.__module__ for rule in RULES["slurm"]} & {"ops.verdict.ray", "ops.verdict.controllers"}
    found = seen("idle")
    assert {row.kubernetes for row in joined(found)} == {""}
    assert status.counts(found, CLUSTER.groups[1])["ready"] == 1


def test_one_session_asks_the_controller(target: SlurmTarget) -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> str:
        asked.append(command)
        return answer("running")

    found = slurm.look(target, CLUSTER, [WORKER, CONTROLLER], run=run)
    assert found is not None
    assert len(found.nodes) == 4
    (command,) = asked
    assert f"sagemaker-cluster:abcdefghijkl_controller-{CONTROLLER.id}" in command
    assert json.loads(command[-1])["command"] == [slurm.COMMAND]
    assert slurm.look(target, None, []) is None
    assert slurm.look(target, CLUSTER, [WORKER]) is None


def test_the_formats_have_the_columns_that_are_read() -> None:
    first, second = re.findall(r"-o '([^']+)'", slurm.COMMAND)
    assert COLUMNS.findall(first) == ["N", "T", "P", "E"]
    assert COLUMNS.findall(second) == ["i", "j", "u", "T", "M", "D", "R"]
