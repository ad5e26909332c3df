"""`nodes show`, `reboot` and `replace`: what is asked, done and said, with an orchestrator of the test's own."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe.snapshot import (
    Cluster,
    ClusterEvent,
    Group,
    Instance,
    Slurm,
    SlurmJob,
    SlurmNode,
    Snapshot,
    Unseen,
)
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.repair import nodes
from tests.ops import snapshots
from tests.ops.snapshots import ONE, THREE, TWO, healthy, with_instance, with_node
from tests.ops.world import environment_text

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DETAILS = {
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterNodeDetails.html
    "PrivatePrimaryIp": "10.0.0.7", "Placement": {"AvailabilityZone": "us-west-2a", "AvailabilityZoneId": "usw2-az1"},
    "CurrentImageReleaseVersion": "2026.10.02",
}  # fmt: skip


def instance(number: int, status: str = "Running") -> Instance:
    return Instance(id=f"i-{number}", group="workers", type="ml.g5.8xlarge", status=status, launched=NOW)


class Parts:
    """An orchestrator's nodes and repair; keeps what it is asked to do."""

    def __init__(self) -> None:
        self.carried: list[tuple[list[str], str]] = []
        self.planned_for: list[Any] = []

    def planned(self, chosen: list[str], *, verb: str, when: Any) -> NodeRepair:
        self.planned_for = [chosen, verb, when]
        listed = tuple(instance(number) for number, _ in enumerate(chosen))
        return NodeRepair(instances=listed, when=when or "now", lines=("its job goes on elsewhere",))

    def outcome(self, verb: str) -> str:
        return f"the disks after a {verb}"

    def carry_out(self, repair: NodeRepair, *, verb: str) -> str:
        self.carried.append(([one.id for one in repair.instances], verb))
        return "advice"

    # --- nodes

    def find(self, node: str) -> Instance:
        return instance(1)

    def details(self, found: Instance) -> dict[str, Any]:
        return DETAILS

    def look(self) -> Snapshot:
        happened = [
            ClusterEvent(id="1", time=NOW, level=level, instance=one, group="workers", description=text)
            for level, one, text in (("Error", "i-1", "lost"), ("Info", "i-1", "created"), ("Error", "i-2", "other"))
        ]
        cluster = Cluster(name="ray-ops", arn="arn", status="InService")
        both = (instance(1), instance(2))
        return Snapshot(environment="demo", at=NOW, cluster=cluster, instances=both, events=tuple(happened))

    def session(self, found: Instance) -> str:
        return f"sagemaker-cluster:abc_workers-{found.id}"

    def described(self, event: ClusterEvent) -> ClusterEvent:
        return ClusterEvent(**{**event.__dict__, "failure": "Xid 79"})

    def events(self, **_: Any) -> list[ClusterEvent]:
        return list(self.look().events)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    made = Parts()
    monkeypatch.setattr(orchestrators, "of", lambda target: SimpleNamespace(nodes=made, repair=made))
    return made


@pytest.fixture
def target() -> Target:
    return Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    questions: list[str] = []
    monkeypatch.setattr(output, "confirm", lambda text, *, yes: questions.append(f"{text} {yes}"))
    return questions


@pytest.mark.parametrize(
    ("verb", "chosen", "when", "question", "said"),
    [
        ("reboot", ["a"], None, "reboot 1 node of 'demo'? False", "  what runs there stops; the disks after a reboot"),
        ("replace", ["a", "b"], "now", "replace 2 nodes of 'demo'? False", "  what runs there stops; the disks"),
        ("reboot", ["a"], "after-jobs", "reboot 1 node of 'demo' after their jobs? False", "  the disks after"),
    ],
)
def test_what_is_asked_before_nodes_are_repaired(  # noqa: PLR0917
    parts: Parts,
    target: Target,
    asked: list[str],
    capfd: pytest.CaptureFixture[str],
    verb: str,
    chosen: list[str],
    when: Any,
    question: str,
    said: str,
) -> None:
    repair = nodes.reboot if verb == "reboot" else nodes.replace
    assert repair(target, chosen, when=when, yes=False) == 0
    assert asked == [question]
    assert parts.planned_for == [chosen, verb, when]
    assert parts.carried == [([f"i-{number}" for number, _ in enumerate(chosen)], verb)]
    log = capfd.readouterr().err
    assert f"{verb} i-0 (workers, Running)" in log
    assert "  its job goes on elsewhere" in log
    assert any(line.startswith(said) for line in log.splitlines())
    assert "advice" in log


def test_twenty_five_nodes_are_one_call(parts: Parts, target: Target, asked: list[str]) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchReplaceClusterNodes.html"""
    assert nodes.replace(target, [f"n{number}" for number in range(25)], yes=True) == 0
    with pytest.raises(OpsError, match="26 nodes in one call") as refused:
        nodes.replace(target, [f"n{number}" for number in range(26)], yes=True)
    assert refused.value.code == 2
    assert len(parts.carried) == 1


def test_one_node_has_what_hyperpod_says_of_it(
    parts: Parts, target: Target, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert nodes.show(target, "i-1", form=Format.table) == 0
    shown = capfd.readouterr().out
    for label, value in (
        ("node", "i-1"), ("group", "workers"), ("type", "ml.g5.8xlarge"), ("HyperPod", "Running"),
        ("address", "10.0.0.7"), ("zone", "usw2-az1"), ("software", "2026.10.02"),
        ("session", "sagemaker-cluster:abc_workers-i-1"),
    ):  # fmt: skip
        assert any(line.split()[:1] == [label] and value in line for line in shown.splitlines()), (label, shown)
    assert "lost: Xid 79" in shown
    assert "other" not in shown, "an event of another node"
    assert "created: Xid" not in shown, "only errors are asked for"


def test_a_shell_is_printed_as_a_command(
    parts: Parts, target: Target, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nodes.shell(target, "i-1", show_only=True) == 0
    assert capfd.readouterr().out.strip() == (
        "aws ssm start-session --target sagemaker-cluster:abc_workers-i-1 --region us-west-2"
    )
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OpsError, match="'aws' is not installed"):
        nodes.shell(target, "i-1", show_only=False)


def test_a_shell_is_session_managers(parts: Parts, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code is the command's; each of the two programs is asked for by name."""
    started: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> Any:
        started.append(command)
        return SimpleNamespace(returncode=7)

    monkeypatch.setattr(subprocess, "run", run)
    there = {"aws", "session-manager-plugin"}
    monkeypatch.setattr("shutil.which", lambda program: program if program in there else None)
    assert nodes.shell(target, "i-1", show_only=False) == 7
    assert [command[:4] for command in started] == [["aws", "ssm", "start-session", "--target"]]
    there.remove("session-manager-plugin")
    with pytest.raises(OpsError, match="'session-manager-plugin' is not installed") as refused:
        nodes.shell(target, "i-1", show_only=False)
    assert "https://docs.aws.amazon.com/systems-manager/" in refused.value.fix and "--print" in refused.value.fix
    assert len(started) == 1


# --- the list of nodes -----------------------------------------------------------------------------------------------

AT = snapshots.NOW
LEFT = ClusterEvent(
    id="1", time=AT - timedelta(hours=6), level="Error", group="workers", instance="i-0", description="lost"
)  # fmt: skip
TROUBLED = replace(
    with_node(
        with_node(
            with_instance(healthy(), TWO, status="Failure", message="Xid 79"),
            ONE, cordoned=True, health="UnschedulablePendingReboot", fault="Xid 74",
        ),
        THREE, ready=False, unreachable=True,
    ),
    events=(LEFT,),
    unseen=(Unseen(source="FSx", why="no right"),),
)  # fmt: skip
FIRST, SECOND, ONES, TWOS, THREES = (f"i-{number:017x}" for number in range(1, 6))


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, target: Target) -> Any:
    """Lists nodes of a snapshot: words of each line on stdout, and the lines on stderr."""

    def run(snapshot: Snapshot, capsys: Any, **options: Any) -> tuple[list[list[str]], list[str]]:
        monkeypatch.setattr(output, "now", lambda: AT)
        monkeypatch.setattr(
            orchestrators, "of", lambda _: SimpleNamespace(nodes=SimpleNamespace(look=lambda: snapshot))
        )
        assert nodes.listing(target, form=options.pop("form", Format.table), **options) == 0
        out, err = capsys.readouterr()
        lines = [line.strip() for line in out.splitlines() if line.strip("─ ")]
        return [re.split(r"\s{2,}", line) for line in lines], err.splitlines()

    return run


def test_the_list_has_what_each_service_says_of_a_node(listed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows, said = listed(TROUBLED, capsys)
    usual = ["Running", "Ready"]
    assert rows == [
        ["Node", "Group", "Type", "HyperPod", "Kubernetes", "Fault", "Age", "Repl."],
        [FIRST, "head", "ml.m5.2xlarge", *usual, "5 h 00 min"],
        [SECOND, "head", "ml.m5.2xlarge", *usual, "5 h 00 min"],
        [ONES, "workers", "ml.g5.8xlarge", "Running", "Ready, cordoned Unschedulable PendingReboot", "Xid 74",
         "5 h 00 min", "1"],
        [TWOS, "workers", "ml.g5.8xlarge", "Failure", "Ready", "Xid 79", "5 h 00 min"],
        [THREES, "workers", "ml.g5.8xlarge", "Running", "unreachable", "5 h 00 min"],
    ]  # fmt: skip
    assert said == ["FSx could not be asked: no right"]


def test_a_narrow_screen_has_no_types(
    listed: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns, types in (("99", False), ("100", True)):
        monkeypatch.setenv("COLUMNS", columns)
        rows, _ = listed(healthy(), capsys)
        assert ("Type" in rows[0]) is types
        assert any("ml.g5.8xlarge" in row for row in rows) is types


CHOSEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all": ({}, [FIRST, SECOND, ONES, TWOS, THREES]),
    "a group": ({"group": "head"}, [FIRST, SECOND]),
    "a type": ({"instance_type": "ml.g5.8xlarge"}, [ONES, TWOS, THREES]),
    "a state of HyperPod": ({"state": "failure"}, [TWOS]),
    "a state of Kubernetes": ({"state": "UNREACHABLE"}, [THREES]),
    "two states": ({"state": "Ready, cordoned"}, [ONES]),
    "a label's state": ({"state": "UnschedulablePendingReboot"}, [ONES]),
    "what cannot take work": ({"unhealthy": True}, [ONES, TWOS, THREES]),
    "all of it": ({"unhealthy": True, "state": "Running", "group": "workers"}, [ONES, THREES]),
    "nothing": ({"unhealthy": True, "group": "head"}, []),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_which_nodes_are_listed(case: str, listed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options, ids = CHOSEN[case]
    rows, said = listed(TROUBLED, capsys, **options)
    assert [row[0] for row in rows[1:]] == ids
    assert ("no such node" in said) is (not ids)
    listed(replace(TROUBLED, unseen=()), capsys, form=Format.json, **options)


def test_a_list_as_json(listed: Any, target: Target, capsys: pytest.CaptureFixture[str]) -> None:
    nodes_of = replace(TROUBLED, instances=TROUBLED.instances[2:3])
    orchestrators_of = SimpleNamespace(nodes=SimpleNamespace(look=lambda: nodes_of))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orchestrators, "of", lambda _: orchestrators_of)
        nodes.listing(target, form=Format.json, group="workers", state="Running")
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert err == ""
    assert (document["kind"], document["environment"]) == ("nodes", "demo")
    (row,) = document["nodes"]
    assert {key: row[key] for key in ("id", "status", "kubernetes", "health", "fault", "pods", "replacements")} == {
        "id": ONES, "status": "Running", "kubernetes": "Ready, cordoned", "health": "UnschedulablePendingReboot",
        "fault": "Xid 74", "pods": ["w1"], "replacements": 1,
    }  # fmt: skip
    assert document["unseen"] == [{"source": "FSx", "why": "no right", "next": "", "refused": False, "laptop": False}]


def test_no_nodes_are_none(listed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(replace(healthy(), instances=(), nodes=()), capsys) == ([], ["no nodes"])
    assert listed(healthy(), capsys, unhealthy=True) == ([], ["no such node"])


def test_many_nodes_are_folded_unless_each_is_asked_for(listed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple(snapshots.instance(number) for number in range(100, 170))
    snapshot = replace(healthy(), instances=many, nodes=tuple(snapshots.node(one) for one in many), pods=())
    rows, said = listed(snapshot, capsys)
    assert [row[0] for row in rows[1:]] == ["70 nodes"]
    assert said == [
        "70 nodes in 1 line; hyperpod-ray nodes demo --all lists each, --unhealthy those that cannot take work"
    ]
    rows, said = listed(snapshot, capsys, each=True)
    assert (len(rows), said) == (71, [])


WRONG: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a group": (
        {"group": "worker"}, "group: 'worker' is not in cluster 'ray-ops'", "one of head, workers",
        "hyperpod-ray nodes demo",
    ),
    "a state": (
        {"state": "Runing"}, "--state: no node can be 'Runing'",
        "one of Running, Failure, Pending, ShuttingDown, SystemUpdating, DeepHealthCheckInProgress, NotFound, gone, "
        "Ready, Ready, cordoned, NotReady, unreachable, not joined, UnschedulablePendingReboot, Schedulable",
        "did you mean 'Running'?",
    ),
    "a state of Slurm": ({"state": "drained"}, "--state: no node can be 'drained'", "", "hyperpod-ray nodes demo"),
    "a type": (
        {"instance_type": "ml.g5.xlarge"}, "--type: the cluster has no ml.g5.xlarge",
        "one of ml.m5.2xlarge, ml.g5.8xlarge", "did you mean 'ml.g5.8xlarge'?",
    ),
    "a type that is like none": (
        {"instance_type": "x"}, "--type: the cluster has no x", "one of ml.m5.2xlarge, ml.g5.8xlarge",
        "hyperpod-ray nodes demo",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_no_node_can_be_is_refused(case: str, listed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options, what, expected, fix = WRONG[case]
    with pytest.raises(OpsError) as refused:
        listed(TROUBLED, capsys, **options)
    assert refused.value.what == what
    assert refused.value.fix == fix
    assert refused.value.code == 2
    if expected:
        assert sorted(refused.value.expected.split(", ")) == sorted(expected.split(", "))


def test_states_of_slurm_are_those_of_a_cluster_with_slurm(
    listed: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm(nodes=(SlurmNode(name="ip-1", state="idle*"),))
    one = Instance(id="i-1", group="workers", type="ml.g5.8xlarge", status="Running", host="ip-1")
    snapshot = Snapshot(environment="demo", at=AT, orchestrator="slurm", sources=("Slurm",), instances=(one,),
                        cluster=Cluster(name="c", arn="a", status="InService"), slurm=slurm)  # fmt: skip
    monkeypatch.setattr(nodes, "_orchestrator", lambda _: orchestrators.named("slurm"))
    for state, count in (("drained", 0), ("idle", 1), ("idle*", 1), ("allocated", 0)):
        rows, _ = listed(snapshot, capsys, state=state)
        assert len(rows[1:]) == count, state


# --- one node, and its events ----------------------------------------------------------------------------------------


def test_one_node_as_json(parts: Parts, target: Target, capfd: pytest.CaptureFixture[str]) -> None:
    assert nodes.show(target, "i-1", form=Format.json) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["kind"], document["environment"], document["node"]["id"]) == ("node", "demo", "i-1")
    assert document["session_manager_target"] == "sagemaker-cluster:abc_workers-i-1"
    assert document["hyperpod"] == DETAILS
    assert [(event["description"], event["failure"]) for event in document["events"]] == [
        ("lost", "Xid 79"), ("created", ""),
    ]  # fmt: skip


def test_one_node_shows_what_is_known_and_no_empty_rows(
    parts: Parts, target: Target, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = SlurmJob(id="7", name="llama", user="ada", state="RUNNING", elapsed="1:02", nodes=1, where="n", hosts=("n",))
    row = replace(
        orchestrators.named("eks").rows(parts.look())[0], slurm="mixed", partitions=("gpu", "all"), name="ip-1",
        reason="low memory", jobs=("7",), health="Schedulable", fault="Xid 13", pods=("w1", "w2"), kubernetes="Ready",
        launched=NOW - timedelta(hours=5),
    )  # fmt: skip
    snapshot = replace(parts.look(), slurm=Slurm(jobs=(job,)), unseen=(Unseen(source="FSx", why="no right"),))
    monkeypatch.setattr(parts, "look", lambda: snapshot)
    monkeypatch.setattr(nodes, "_rows", lambda *_: [replace(row, id="i-9"), row])
    monkeypatch.setattr(output, "now", lambda: NOW)
    monkeypatch.setenv("COLUMNS", "160")
    assert nodes.show(target, "i-1", form=Format.table) == 0
    out, err = capfd.readouterr()
    lines = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if line.strip("─ ")]
    assert lines == [
        ["node", "i-1"], ["group", "workers"], ["type", "ml.g5.8xlarge"], ["HyperPod", "Running"],
        ["Kubernetes", "Ready"], ["Slurm", "mixed in gpu in all"], ["name", "ip-1"], ["reason", "low memory"],
        ["jobs", "7 (llama, ada, RUNNING, 1:02)"], ["health", "Schedulable"], ["fault", "Xid 13"],
        ["launched", "07:00 UTC (5 h 00 min)"], ["address", "10.0.0.7"], ["zone", "usw2-az1"],
        ["software", "2026.10.02"], ["Ray pods", "w1, w2"], ["session", "sagemaker-cluster:abc_workers-i-1"],
        ["When (UTC)", "Level", "Where", "What"],
        ["11-21 12:00:00", "Error", "i-1", "lost: Xid 79"], ["11-21 12:00:00", "Info", "i-1", "created"],
    ]  # fmt: skip
    assert err == "FSx could not be asked: no right\n"


def test_events_say_where_they_happened(
    parts: Parts, target: Target, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    base = ClusterEvent(id="1", time=NOW, level="Info", description="updated")

    def events(**options: Any) -> list[ClusterEvent]:
        asked.append(options)
        return [replace(base, group="workers", instance="i-1"), replace(base, group="workers"), base]

    monkeypatch.setattr(parts, "events", events)
    assert nodes.events(target, node="i-1", group="workers", limit=3) == 0
    lines = [re.split(r"\s{2,}", line.strip()) for line in capfd.readouterr().out.splitlines()[2:]]
    assert lines == [["11-21 12:00:00", "Info", where, "updated"] for where in ("i-1", "workers", "cluster")]
    assert asked == [{"node": "i-1", "group": "workers", "limit": 3}]
    assert nodes.events(target, form=Format.json) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["kind"], document["environment"], len(document["events"])) == ("events", "demo", 3)
    assert asked[1] == {"node": "", "group": "", "limit": 50}


def test_removed_nodes_leave_a_count_for_the_file(
    parts: Parts, target: Target, asked: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service lowers the group's count, and the file does not know: the next deploy would bring the nodes back."""
    groups = (Group(name="workers", type="ml.g5.8xlarge", target=3, current=3),)
    snapshot = replace(parts.look(), cluster=Cluster(name="ray-ops", arn="arn", status="InService", groups=groups))
    monkeypatch.setattr(parts, "look", lambda: snapshot)
    assert nodes.remove(target, ["a", "b"], yes=True) == 0
    assert asked == ["remove 2 nodes of 'demo'? True"]
    assert capfd.readouterr().err.splitlines() == [
        "remove i-0 (workers, Running), i-1 (workers, Running)",
        "  its job goes on elsewhere",
        "  group 'workers' asks for 1 node then, and the file says 3: set its count to 1, or a deploy that changes the "
        "cluster brings nodes back",
        "  what runs there stops; the disks after a remove",
        "advice",
    ]
    assert nodes.remove(target, ["a", "b", "c", "d"], yes=True) == 0
    assert "asks for 0 nodes then" in capfd.readouterr().err
    assert nodes.reboot(target, ["a"], yes=True) == 0
    assert "the file says" not in capfd.readouterr().err, "it stays in its group"
    monkeypatch.setattr(parts, "look", lambda: replace(snapshot, cluster=None))
    assert nodes.remove(target, ["a"], yes=True) == 0
    assert "the file says" not in capfd.readouterr().err, "nobody knows the count"
