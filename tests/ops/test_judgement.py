"""Which repairs of Slurm's nodes are done, need a choice, or are refused: each verb, role, state and choice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe.snapshot import (
    SLURM,
    Cluster,
    Group,
    Instance,
    Slurm,
    SlurmJob,
    SlurmNode,
    Snapshot,
    Unseen,
)
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair
from hyperpod_ray.ops.orchestrators.slurm import judgement

ROLES = ("Controller", "Login", "Compute")
CLUSTER = Cluster(
    name="ray-slurm", arn="arn", status="InService",
    groups=tuple(Group(name=role.lower(), type="ml.m5.xlarge", target=1, current=1, role=role) for role in ROLES),
)  # fmt: skip


def instance(group: str, number: int) -> Instance:
    return Instance(id=f"i-{number}", group=group, type="ml.m5.xlarge", status="Running", host=f"ip-10-0-0-{number}")


CONTROLLER, LOGIN = instance("controller", 1), instance("login", 2)
FREE, BUSY, BATCH, UNKNOWN = (instance("compute", number) for number in (3, 4, 5, 6))
REPLACED, REBOOTED = instance("compute", 7), instance("compute", 8)
JOB = SlurmJob(
    id="17", name="llama", user="ada", state="RUNNING", elapsed="1:02:03", nodes=2, where="ip-10-0-0-[4-5]",
    hosts=("ip-10-0-0-4", "ip-10-0-0-5"), batch_host="ip-10-0-0-5",
)  # fmt: skip
OTHER = SlurmJob(
    id="18", name="eval", user="bob", state="RUNNING", elapsed="4:05", nodes=1, where="ip-10-0-0-4",
    hosts=("ip-10-0-0-4",), batch_host="",
)  # fmt: skip
SEEN = Snapshot(
    environment="demo", at=datetime(2026, 11, 22, tzinfo=UTC), orchestrator="slurm", sources=(SLURM,), cluster=CLUSTER,
    instances=(CONTROLLER, LOGIN, FREE, BUSY, BATCH, UNKNOWN, REPLACED, REBOOTED),
    slurm=Slurm(
        nodes=(
            SlurmNode(name="ip-10-0-0-3", state="idle"),
            SlurmNode(name="ip-10-0-0-4", state="mixed"),
            SlurmNode(name="worker-5", state="allocated", address="10.0.0.5"),
            SlurmNode(name="ip-10-0-0-7", state="failing", reason="Action:Replace"),
            SlurmNode(name="ip-10-0-0-8", state="down", reason="Action:Reboot"),
        ),
        jobs=(JOB, OTHER, replace(JOB, id="19", hosts=("worker-5",), nodes=1, batch_host="worker-5")),
    ),
)  # fmt: skip
SILENT = replace(SEEN, slurm=None, unseen=(
    Unseen(source="FSx", why="no right"), Unseen(source=SLURM, why="no session"),
))  # fmt: skip
ENDS_17 = (
    "job 17 (llama, ada, 1:02:03 on 2 nodes) loses its steps since the last checkpoint; "
    "srun --auto-resume=1 or --requeue brings it back"
)
ENDS_18 = ENDS_17.replace("17 (llama, ada, 1:02:03 on 2 nodes)", "18 (eval, bob, 4:05 on 1 node)")
ENDS_19 = (
    "job 19 (llama, ada, 1:02:03 on 1 node) loses its steps since the last checkpoint; "
    "its batch script runs here, so only --requeue brings it back"
)


def judged(snapshot: Snapshot, *nodes: Instance, verb: Any = "replace", when: Any = None) -> NodeRepair:
    command = " ".join(["hyperpod-ray nodes", verb, "demo", *(node.id for node in nodes)])
    return judgement.judged(snapshot, nodes, verb=verb, when=when, command=command)


AT_ONCE: dict[str, tuple[Snapshot, tuple[Instance, ...], Any, Any, tuple[str, ...]]] = {
    "a node without a job": (SEEN, (FREE,), "replace", None, ("ip-10-0-0-3 has no job",)),
    "restarted": (SEEN, (FREE,), "reboot", None, ("ip-10-0-0-3 has no job",)),
    "removed": (SEEN, (FREE,), "remove", None, ("ip-10-0-0-3 has no job",)),
    "one that Slurm has not": (SEEN, (UNKNOWN,), "replace", None, ("i-6 is not in Slurm: no job runs there",)),
    "jobs end, as was asked for": (SEEN, (BUSY,), "replace", "now", (ENDS_17, ENDS_18)),
    "known by its address": (SEEN, (BATCH,), "remove", "now", (ENDS_19,)),
    "several": (SEEN, (FREE, BATCH), "reboot", "now", ("ip-10-0-0-3 has no job", ENDS_19)),
    "what is under way, as the last resort": (SEEN, (REPLACED,), "replace", "now", ("ip-10-0-0-7 has no job",)),
    "the controller restarts": (SEEN, (CONTROLLER,), "reboot", "now", ()),
    "a login node is replaced": (SEEN, (LOGIN,), "replace", "now", ()),
    "a login node and a worker": (SEEN, (LOGIN, FREE), "replace", "now", ("ip-10-0-0-3 has no job",)),
    "nobody knows which jobs run": (
        SILENT, (FREE,), "replace", "now", ("which jobs run there is unknown: no session",),
    ),
    "a controller that does not run": (
        replace(SILENT, unseen=()), (FREE,), "reboot", "now",
        ("which jobs run there is unknown: the controller does not run",),
    ),
    "the controller, of which Slurm says nothing": (SILENT, (CONTROLLER,), "reboot", "now", ()),
}  # fmt: skip


@pytest.mark.parametrize("case", AT_ONCE)
def test_what_is_done_at_once_says_what_it_costs(case: str) -> None:
    snapshot, nodes, verb, when, lines = AT_ONCE[case]
    repair = judged(snapshot, *nodes, verb=verb, when=when)
    assert (repair.when, repair.instances, repair.hosts, repair.lines) == ("now", nodes, (), lines)


LATER = "until a node is idle again, do not change its state and do not restart slurmctld: the repair can fail"
NO_NEW_JOB = "Slurm takes no new job there: scontrol update nodename={} state=fail reason="
AFTER_JOBS: dict[str, tuple[tuple[Instance, ...], Any, tuple[str, ...], tuple[str, ...]]] = {
    "replaced": (
        (BUSY,), "replace", ("ip-10-0-0-4",),
        (NO_NEW_JOB.format("ip-10-0-0-4") + '"Action:Replace"', "ip-10-0-0-4 is repaired after job 17, 18", LATER),
    ),
    "restarted": (
        (FREE, BATCH), "reboot", ("ip-10-0-0-3", "worker-5"),
        (NO_NEW_JOB.format("ip-10-0-0-3,worker-5") + '"Action:Reboot"', "worker-5 is repaired after job 19", LATER),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", AFTER_JOBS)
def test_after_its_jobs_a_node_gets_the_reason_that_hyperpod_acts_on(case: str) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-replace-faulty-instance.html"""
    nodes, verb, hosts, lines = AFTER_JOBS[case]
    repair = judged(SEEN, *nodes, verb=verb, when="after-jobs")
    assert (repair.when, repair.instances, repair.hosts, repair.lines) == ("after-jobs", nodes, hosts, lines)


OFF = replace(SEEN, cluster=replace(CLUSTER, node_recovery="None"))
UNDER_WAY = "node ip-10-0-0-7 is failing with the reason 'Action:Replace': its repair is under way"
RESTARTS = "node i-1 of cluster 'ray-slurm' has the role Controller"
LOGGED_IN = "who is logged in there loses the session and what runs in it"
REFUSED: dict[str, tuple[Snapshot, Instance, Any, Any, str, str, str]] = {
    "a node with jobs": (
        SEEN, BUSY, "replace", None, f"node ip-10-0-0-4 has work: {ENDS_17}; {ENDS_18}",
        "a choice: after these jobs, or now",
        "hyperpod-ray nodes replace demo i-4 --when after-jobs, or hyperpod-ray nodes replace demo i-4 --when now",
    ),
    "removing a node with a job": (
        SEEN, BATCH, "remove", None, f"node worker-5 has work: {ENDS_19}", "a node without a job",
        "hyperpod-ray nodes remove demo i-5 --when now, which ends them",
    ),
    "what is under way": (
        SEEN, REPLACED, "reboot", None, UNDER_WAY, "no change until it is idle again: the repair can fail",
        "wait; as the last resort, hyperpod-ray nodes reboot demo i-7 --when now",
    ),
    "what is under way, after its jobs": (
        SEEN, REBOOTED, "replace", "after-jobs",
        "node ip-10-0-0-8 is down with the reason 'Action:Reboot': its repair is under way",
        "no change until it is idle again: the repair can fail",
        "wait; as the last resort, hyperpod-ray nodes replace demo i-8 --when now",
    ),
    "nobody knows which jobs run": (
        SILENT, FREE, "replace", None, "which jobs run there is unknown: no session",
        "the Slurm controller to answer, or a choice",
        "hyperpod-ray nodes replace demo i-3 --when now, which ends the jobs there",
    ),
    "removing after jobs": (
        SEEN, FREE, "remove", "after-jobs",
        "--when after-jobs: Slurm has a reason that replaces or reboots a node, and none that removes it",
        "--when now, on nodes without a job",
        "on the controller, sudo scontrol update nodename=NAME state=drain reason=remove; when its jobs have ended, "
        "hyperpod-ray nodes remove demo i-3 --when now",
    ),
    "after jobs, and Slurm is silent": (
        SILENT, FREE, "replace", "after-jobs", "Slurm could not be asked: no session",
        "the Slurm controller to answer: --when after-jobs is its work",
        "repair the way to it, or hyperpod-ray nodes replace demo i-3 --when now",
    ),
    "after jobs, and nothing acts on reasons": (
        OFF, FREE, "replace", "after-jobs", "node recovery: None",
        "Automatic: otherwise nothing acts on the node's reason",
        "set hyperpod.node_recovery: Automatic and deploy, or hyperpod-ray nodes replace demo i-3 --when now",
    ),
    "after jobs, and Slurm has not this node": (
        SEEN, UNKNOWN, "replace", "after-jobs", "node i-6 is not in Slurm", "a node that sinfo lists",
        "hyperpod-ray nodes replace demo i-6 --when now",
    ),
    "replacing the controller": (
        SEEN, CONTROLLER, "replace", "now", "node i-1 is the Slurm controller, and HyperPod replaces no controller",
        "a node of a login or compute group", "restart it: hyperpod-ray nodes reboot demo i-1 --when now",
    ),
    "removing the controller": (
        SEEN, CONTROLLER, "remove", None, "node i-1 is the Slurm controller, and HyperPod removes no controller",
        "a node of a login or compute group", "restart it: hyperpod-ray nodes reboot demo i-1 --when now",
    ),
    "restarting the controller": (
        SEEN, CONTROLLER, "reboot", None, f"{RESTARTS}: while it restarts, jobs run on and none starts", "a choice",
        "hyperpod-ray nodes reboot demo i-1 --when now",
    ),
    "restarting the controller after jobs": (
        SEEN, CONTROLLER, "reboot", "after-jobs", f"{RESTARTS}, and Slurm places no job there",
        "a compute node with --when after-jobs",
        "hyperpod-ray nodes reboot demo i-1 --when now; while it restarts, jobs run on and none starts",
    ),
    "replacing a login node": (
        SEEN, LOGIN, "replace", None, f"node i-2 of cluster 'ray-slurm' has the role Login: {LOGGED_IN}", "a choice",
        "hyperpod-ray nodes replace demo i-2 --when now",
    ),
    "removing a login node after jobs": (
        SEEN, LOGIN, "remove", "after-jobs",
        "node i-2 of cluster 'ray-slurm' has the role Login, and Slurm places no job there",
        "a compute node with --when after-jobs", f"hyperpod-ray nodes remove demo i-2 --when now; {LOGGED_IN}",
    ),
}  # fmt: skip
FAILS = {"after jobs, and Slurm is silent"}
"""The others are wrong use: nothing was asked of anybody."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_must_not_be_done_says_what_to_do(case: str) -> None:
    snapshot, node, verb, when, message, expected, fix = REFUSED[case]
    with pytest.raises(OpsError) as refused:
        judged(snapshot, node, verb=verb, when=when)
    assert refused.value.what == message
    assert refused.value.expected == expected
    assert refused.value.fix == fix
    assert refused.value.code == (1 if case in FAILS else 2)


def test_one_node_that_must_not_be_repaired_stops_all() -> None:
    for when in (None, "after-jobs"):
        with pytest.raises(OpsError, match="its repair is under way"):
            judged(SEEN, FREE, REPLACED, when=when)
    with pytest.raises(OpsError, match="the Slurm controller"):
        judged(SEEN, FREE, CONTROLLER, when="now")


def test_a_group_that_hyperpod_does_not_list_computes() -> None:
    unlisted = replace(SEEN, cluster=replace(CLUSTER, groups=()))
    assert judgement.role(unlisted, CONTROLLER) == "Compute"
    assert [judgement.role(SEEN, node) for node in (CONTROLLER, LOGIN, FREE)] == list(ROLES)
