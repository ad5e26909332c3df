"""What is read of Slurm, and what follows from it; the answers are a real Slurm's (`tests/ops/slurm_outputs`)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hyperpod_ray import core
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops import status
from hyperpod_ray.ops.observe import slurm
from hyperpod_ray.ops.observe.hyperpod import _group
from hyperpod_ray.ops.observe.snapshot import (
    RayCluster,
    Slurm,
    SlurmNode,
    Snapshot,
    Unseen,
)
from hyperpod_ray.ops.orchestrators.eks import nodes as eks_nodes
from hyperpod_ray.ops.orchestrators.slurm.nodes import rows
from hyperpod_ray.ops.reach.clients import SlurmTarget
from hyperpod_ray.ops.verdict import RULES, judge
from hyperpod_ray.planner.cluster import cluster
from tests.ops.ops_slurm_helpers import CLUSTER, CONTROLLER, RECORDED, WORKER, answer, judged, seen

COLUMNS = re.compile(r"%\.?\d*(\w)")


@pytest.fixture(scope="module")
def target() -> SlurmTarget:
    file = core.load_any("slurm", folder=FOLDER / "examples")
    assert isinstance(file, core.SlurmFile)
    return SlurmTarget(file)


def test_jobs_and_nodes_of_a_real_slurm_are_read() -> None:
    found = slurm.parsed(answer("running"))
    assert [node.name for node in found.nodes] == ["n1", "n2", "n3", "n4"]
    assert {node.partitions for node in found.nodes} == {("dev",)}
    assert [(job.id, job.name, job.state, job.where) for job in found.jobs] == [
        ("2", "waits", "PENDING", "(Resources)"),
        ("1", "finetune|70b", "RUNNING", "n[1-2]"),
    ]


STATES = sorted(path.stem.removeprefix("nodes-") for path in RECORDED.glob("nodes-*.json"))


@pytest.mark.parametrize("state", STATES)
def test_nodes_are_those_of_slurms_own_json(state: str) -> None:
    """`sinfo --json` of the same moment says the same, from another part of Slurm."""
    found = slurm.parsed(answer(state)).nodes
    wanted = judged(f"nodes-{state}.json")
    assert [(one.name, one.address, list(one.partitions), one.reason) for one in found] == [
        (one["name"], one["address"], one["partitions"], one["reason"]) for one in wanted
    ]
    for node, own in zip(found, wanted, strict=True):
        flags = set(own["state_flags"])
        assert node.silent == ("NOT_RESPONDING" in flags), node
        assert node.lost == (own["state"] == "down" or "FAIL" in flags), node
        assert node.drained == ("DRAIN" in flags), node
        assert node.repaired == own["reason"].startswith("Action:"), node


@pytest.mark.parametrize("state", STATES)
def test_jobs_are_those_of_slurms_own_json(state: str) -> None:
    found = slurm.parsed(answer(state)).jobs
    hosts = {"": (), "n1": ("n1",), "n[1-2]": ("n1", "n2")}
    assert {(one.id, one.name, one.user, one.state, one.nodes, one.batch_host, one.hosts) for one in found} == {
        (str(one["job_id"]), one["name"], one["user_name"], one["job_state"], one["node_count"],
         one["batch_host"] or "", hosts[one["nodes"]])
        for one in judged(f"jobs-{state}.json")
        if one["job_state"] in ("RUNNING", "PENDING")
    }  # fmt: skip


def test_every_recorded_state_is_judged() -> None:
    assert STATES == ["action-replace", "down", "drained", "idle", "requeued", "running", "silent"]


@pytest.mark.parametrize(
    ("reason", "state", "next_"),
    [
        ("Node unexpectedly rebooted", "Action required", "sudo scontrol update nodename=n2 state=resume"),
        ("Not responding", "Action required", "hyperpod-ray nodes replace slurm n2 --when now"),
        ("Action:Reboot", "Recovering", ""),
        ("Action:Replace", "Recovering", ""),
    ],
)
def test_what_is_next_follows_from_the_reason(reason: str, state: str, next_: str) -> None:
    found = replace(seen("idle"), slurm=Slurm(nodes=(SlurmNode(name="n2", state="down", reason=reason),)))
    verdict = judge(found)
    assert verdict.state == state
    assert next_ in verdict.findings[0].next


def test_a_repair_that_waits_names_its_jobs() -> None:
    running = slurm.parsed(answer("running"))
    failing = replace(running.nodes[0], state="failing", reason="Action:Replace")
    found = judge(replace(seen("running"), slurm=replace(running, nodes=(failing,))))
    assert any("after its jobs end (1)" in finding.what for finding in found.findings)


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
    (finding,) = [finding for finding in judge(seen("down")).findings if finding.kind == "action-required"]
    assert finding.next.startswith("hyperpod-ray nodes replace slurm n2 --when now")
    assert "ends the jobs" in finding.next
    assert finding.subject == "n2"


def test_a_drained_node_is_a_note() -> None:
    notes = [finding for finding in judge(seen("drained")).findings if finding.kind == "note"]
    assert any("takes no new job" in note.what for note in notes)


def test_without_an_answer_hyperpods_view_remains() -> None:
    unseen = (Unseen(source="Slurm", why="no plugin", next="install it"),)
    found = judge(replace(seen("idle"), slurm=None, unseen=unseen))
    assert [finding.why for finding in found.findings if "Slurm was not asked" in finding.what] == ["no plugin"]


def test_nothing_of_kubernetes_is_judged_or_shown() -> None:
    assert not {rule.__module__ for source, rule in RULES if source in ("", *seen("idle").sources)} & {
        "hyperpod_ray.ops.verdict.ray",
        "hyperpod_ray.ops.verdict.controllers",
    }
    found = seen("idle")
    assert {row.kubernetes for row in rows(found)} == {""}
    assert status.counts(found, CLUSTER.groups[1])["ready"] == 1


@pytest.mark.parametrize(
    ("state", "host", "ready"),
    [
        ("idle", "n2", 1), ("running", "n2", 1), ("silent", "n2", 0), ("down", "n2", 0), ("action-replace", "n3", 0),
        ("drained", "n3", 1), ("idle", "n9", 0), ("down", "", 1),
    ],
)  # fmt: skip
def test_a_compute_node_is_ready_when_slurm_can_use_it(state: str, host: str, ready: int) -> None:
    """A node that somebody drained is well; one without a name in HyperPod's list counts as HyperPod says."""
    found = replace(seen(state), instances=(CONTROLLER, replace(WORKER, host=host)))
    assert status.counts(found, CLUSTER.groups[1])["ready"] == ready
    assert status.counts(found, CLUSTER.groups[0])["ready"] == 1


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
    assert COLUMNS.findall(first) == ["N", "o", "T", "P", "E"]
    assert COLUMNS.findall(second) == ["i", "u", "T", "M", "D", "B", "N", "R", "j"]


def test_a_node_of_two_partitions_has_both() -> None:
    text = f"n1|10.0.0.1|idle|train*|none\nn1|10.0.0.1|idle|debug|none\n{slurm.MARK}\n{slurm.DONE}"
    (node,) = slurm.parsed(text).nodes
    assert node.partitions == ("train", "debug")


def test_only_a_controller_that_runs_is_asked(target: SlurmTarget) -> None:
    for status_ in ("Pending", "Failure", "ShuttingDown"):
        assert slurm.controller_of(target, [replace(CONTROLLER, status=status_)]) is None
    assert slurm.controller_of(target, [WORKER, CONTROLLER]) == CONTROLLER


@pytest.mark.parametrize("state", ["maint", "reserved"])
def test_a_reserved_node_is_a_note_and_is_not_resumed(state: str) -> None:
    found = judge(replace(seen("idle"), slurm=Slurm(nodes=(SlurmNode(name="n1", state=state),))))
    (note,) = found.findings
    assert (found.state, note.kind) == ("Healthy", "note")
    assert "reservation" in note.what
    assert "state=resume" not in note.next


@pytest.mark.parametrize(("role", "ready"), [("Controller", 1), ("Login", 1), ("Compute", 0)])
def test_only_compute_nodes_have_to_be_in_slurm(role: str, ready: int) -> None:
    group = replace(CLUSTER.groups[1], role=role)
    found = replace(seen("idle"), instances=(replace(WORKER, host="n9"),))
    assert status.counts(found, group)["ready"] == ready


def test_a_cluster_without_its_roles_has_those_of_the_file(target: SlurmTarget) -> None:
    """An older cluster has no SlurmConfig in its answer."""
    made = [_group(target, {"InstanceGroupName": name}).role for name in ("controller", "login", "workers", "other")]
    assert made == ["Controller", "Login", "Compute", ""]
    assert _group(target, {"InstanceGroupName": "workers", "SlurmConfig": {"NodeType": "Login"}}).role == "Login"


def test_a_plan_counts_the_time_until_slurm_calls_a_node_down(target: SlurmTarget) -> None:
    part = cluster(target.plan)
    assert (part.lost_after, part.world, part.nodes, part.spares, part.per_pod) == (300.0, 32, 4, 0, 8)
    assert part.pod_memory_gib == target.plan.type_spec("ml.p5.48xlarge").memory_gib


def test_only_sources_that_an_environment_has_are_judged() -> None:
    """A RayCluster in a snapshot of Slurm is nobody's: its rules do not run."""
    ray = RayCluster(name="ray", namespace="ray", state="failed", desired_workers=2, ready_workers=0)
    assert judge(replace(seen("idle"), ray_clusters=(ray,))) == judge(seen("idle"))


def test_an_instance_without_a_node_is_not_joined_where_kubernetes_lists_nodes() -> None:
    at = datetime(2026, 11, 22, tzinfo=UTC)
    found = Snapshot(environment="eks", at=at, cluster=CLUSTER, instances=(WORKER,))
    assert [row.kubernetes for row in eks_nodes.rows(found)] == ["not joined"]
    hidden = replace(found, unseen=(Unseen(source="Kubernetes nodes", why="forbidden", refused=True),))
    assert [row.kubernetes for row in eks_nodes.rows(hidden)] == ["?"]
