"""What is asked of HyperPod, CloudWatch Logs and Kubernetes about nodes. Calls are judged by botocore's models."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.snapshot import NODES, Instance, Snapshot, Unseen
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.orchestrators.eks.repair import EksRepair
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.repair import logs
from tests.ops.ops_node_services_helpers import Json, event, of
from tests.ops.snapshots import HEAD, NOW, ONE, SPARE_HEAD, THREE, TWO, healthy, with_instance, with_node
from tests.support.answers import Answers

# --- nodes -----------------------------------------------------------------------------------------------------------


# --- events ----------------------------------------------------------------------------------------------------------


def test_events_are_read_page_by_page_to_the_limit() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ListClusterEvents.html: MaxResults 1 to 100"""
    first = {"Events": [event(n) for n in range(100)], "NextToken": "t"}
    second = {"Events": [event(n) for n in range(100, 200)], "NextToken": "u"}
    target, account = of(list_cluster_events=[first, second])
    listed = hyperpod.events(target, limit=130)
    assert [one.id for one in listed] == [f"e{n}" for n in range(130)]
    assert [asked.get("NextToken") for asked in account.arguments("list_cluster_events")] == [None, "t"]
    usual = {"ClusterName": "ray-ops", "SortOrder": "Descending"}
    assert all(
        asked.items() >= {**usual, "MaxResults": 100}.items() for asked in account.arguments("list_cluster_events")
    )
    target, account = of(list_cluster_events=[{"Events": [event(1)]}])
    assert len(hyperpod.events(target, limit=3)) == 1
    assert account.arguments("list_cluster_events")[0]["MaxResults"] == 3


# --- repair ----------------------------------------------------------------------------------------------------------


def test_a_planned_repair_is_carried_out_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for verb, operation in (("reboot", "batch_reboot_cluster_nodes"), ("replace", "batch_replace_cluster_nodes")):
        answers: Any = {operation: {"Successful": [ONE.id]}}
        repair, _ = repairs(monkeypatch, None, **answers)
        planned = repair.planned([ONE.id], verb=cast("Any", verb), when=None)
        assert repair.carry_out(planned, verb=cast("Any", verb)) == "under way; hyperpod-ray wait demo --for workers"


class Nodes:
    """Nodes of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def look(self) -> Snapshot:
        return self.snapshot

    def find(self, name: str) -> Instance:
        return next(instance for instance in self.snapshot.instances if instance.id == name)


class Api:
    """Keeps changes."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, Json]] = []

    def patch(self, path: str, change: Json) -> None:
        self.changes.append((path, change))


def repairs(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot | None = None, **answers: Any) -> tuple[EksRepair, Api]:
    snapshot = snapshot or healthy()
    target, _ = of(**answers)
    api = Api()
    target.__dict__["kubernetes"] = api
    monkeypatch.setattr(gather, "snapshot", lambda target, only: snapshot)
    return EksRepair(target, cast("Any", Nodes(snapshot))), api


def test_what_rides_on_nodes_is_said_before_they_are_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    repair, _ = repairs(monkeypatch)
    planned = repair.planned([ONE.id, THREE.id, ONE.id], verb="replace", when=None)
    assert planned.when == "now"
    assert [instance.id for instance in planned.instances] == [ONE.id, THREE.id], "a node that is named twice is one"
    assert planned.lines == (f"{ONE.id} carries w1 (worker)", f"{THREE.id} carries no Ray pods")
    with pytest.raises(OpsError, match="only Slurm knows when a node's jobs end") as refused:
        repair.planned([ONE.id], verb="replace", when="after-jobs")
    assert refused.value.code == BAD_USE
    away = replace(healthy(), unseen=(Unseen(source="Kubernetes", why="it is away"),))
    repair, _ = repairs(monkeypatch, away)
    assert repair.planned([ONE.id], verb="reboot", when="now").lines == ("which pods sit there is unknown: it is away",)
    assert "new instance" in repair.outcome("replace")
    assert "stay" in repair.outcome("reboot")


# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-manual.html
LABEL = "sagemaker.amazonaws.com/node-health-status"


@pytest.mark.parametrize(
    ("action", "label"),
    [("replace", "UnschedulablePendingReplacement"), ("reboot", "UnschedulablePendingReboot")],
)
def test_a_drill_sets_the_label_that_the_health_agent_sets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], action: str, label: str
) -> None:
    repair, api = repairs(monkeypatch)
    assert repair.drill("", action=action, yes=True) == OK
    assert api.changes == [(f"/api/v1/nodes/hyperpod-{ONE.id}", {"metadata": {"labels": {LABEL: label}}})]
    written = capsys.readouterr()
    assert written.out.strip() == ONE.id
    assert f"{ONE.id} carries w1 (worker)" in written.err
    assert ("the node's disks are destroyed" in written.err) is (action == "replace")


def test_a_drill_says_what_it_does_and_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions: list[tuple[str, bool]] = []
    monkeypatch.setattr(output, "confirm", lambda text, *, yes: questions.append((text, yes)))
    repair, _ = repairs(monkeypatch)
    repair.drill("", action="reboot", yes=False)
    assert questions == [("Inject the fault on 'demo'?", False)]
    assert capsys.readouterr().err.splitlines() == [
        f"drill on {ONE.id} ({ONE.group}): label {LABEL}=UnschedulablePendingReboot",
        f"  {ONE.id} carries w1 (worker)",
        "  a running job loses this worker and resumes from its last checkpoint",
        f"watch it: hyperpod-ray status demo; hyperpod-ray nodes events demo --node {ONE.id}",
    ]


def test_a_drill_takes_a_node_that_carries_a_worker_or_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = replace(healthy(), pods=(healthy().pods[0], replace(healthy().pods[1], node=names.node_name(TWO.id))))
    repair, api = repairs(monkeypatch, bare)
    repair.drill("", action="reboot", yes=True)
    repair.drill(THREE.id, action="reboot", yes=True)
    assert [path.rpartition("hyperpod-")[2] for path, _ in api.changes] == [TWO.id, THREE.id]


def test_a_drill_waits_for_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    repair, api = repairs(monkeypatch)
    monkeypatch.setattr(output, "interactive", lambda: False)
    with pytest.raises(OpsError, match="no terminal to ask for a confirmation"):
        repair.drill("", action="replace", yes=False)
    assert api.changes == []


@pytest.mark.parametrize(
    ("snapshot", "node", "says"),
    [
        (healthy(), HEAD.id, "carries the Ray head"),
        (healthy(), SPARE_HEAD.id, "a running, ready, accelerated worker node"),
        (with_instance(healthy(), ONE, status="Pending"), ONE.id, "a running, ready, accelerated worker node"),
        (with_node(healthy(), ONE, ready=False), ONE.id, "a running, ready, accelerated worker node"),
        (replace(healthy(), nodes=()), "", "no node for a drill"),
        (replace(healthy(), unseen=(Unseen(source="Kubernetes", why="it is away"),)), "", "it is away"),
        (replace(healthy(), unseen=(Unseen(source=NODES, why="not allowed"),)), "", "not allowed"),
    ],
)
def test_a_drill_is_only_for_workers_that_work(
    monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, node: str, says: str
) -> None:
    repair, api = repairs(monkeypatch, snapshot)
    with pytest.raises(OpsError, match=says):
        repair.drill(node, action="replace", yes=True)
    assert api.changes == []


def test_a_drill_without_automatic_recovery_would_only_break_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    repair, api = repairs(monkeypatch, describe_cluster={**Answers().cluster, "NodeRecovery": "None"})
    with pytest.raises(OpsError, match="node recovery: None") as refused:
        repair.drill("", action="replace", yes=True)
    assert "hyperpod.node_recovery: Automatic" in refused.value.fix
    assert api.changes == []
    other = replace(healthy(), unseen=(Unseen(source="FSx", why="away"),))
    repair, api = repairs(monkeypatch, other)
    assert repair.drill("", action="reboot", yes=True) == OK


# --- logs ------------------------------------------------------------------------------------------------------------


# --- the command `logs` ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("15m", NOW - timedelta(minutes=15)),
        ("2h", NOW - timedelta(hours=2)),
        ("3d", NOW - timedelta(days=3)),
        ("2026-11-21T17:40:00Z", datetime(2026, 11, 21, 17, 40, tzinfo=UTC)),
        ("2026-11-21T17:40:00+01:00", datetime(2026, 11, 21, 16, 40, tzinfo=UTC)),
        ("2026-11-21T17:40", datetime(2026, 11, 21, 17, 40, tzinfo=UTC)),
        ("1970-01-01", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_span_or_a_time(monkeypatch: pytest.MonkeyPatch, text: str, moment: datetime) -> None:
    monkeypatch.setattr(output, "now", lambda: NOW)
    assert logs.moment(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "5",
        "5w",
        "-5m",
        "2026-13-01",
        "999999d",
        "99999999999d",
        "9" * 30 + "s",
        "1969-12-31",
        "40000d",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """Also what no calendar has, and what CloudWatch Logs does not know: milliseconds begin in 1970."""
    with pytest.raises(OpsError) as refused:
        logs.moment(text)
    assert refused.value.message == f"time: '{text}'. Expected 15m, 2h, 3d or 2026-11-21T17:40:00Z"
    assert refused.value.code == BAD_USE


class Reader:
    """Lines by look; then Ctrl-C."""

    group = "g"

    def __init__(self, *looks: list[Json]) -> None:
        self.looks = list(looks)
        self.windows: list[tuple[datetime, datetime | None]] = []

    def read(self, begin: datetime, end: datetime | None) -> list[Json]:
        self.windows.append((begin, end))
        if not self.looks:
            raise KeyboardInterrupt
        return self.looks.pop(0)


LINE = {"time": "2026-11-21T11:00:00Z", "kind": "lifecycle", "stream": "s", "message": "hello"}


def show(monkeypatch: pytest.MonkeyPatch, reader: Reader, *, form: Format = Format.table, **more: Any) -> int:
    monkeypatch.setattr(output, "now", lambda: NOW)
    asked: list[tuple[str, str]] = []

    def of_kind(kind: str, *, node: str) -> Reader:
        asked.append((kind, node))
        return reader

    monkeypatch.setattr(orchestrators, "of", lambda _: SimpleNamespace(logs=SimpleNamespace(reader=of_kind)))
    arguments: Json = {"since": "1h", "until": "", "follow": False, **more}
    code = logs.run(of()[0], kind="lifecycle", node="i-1", form=form, poll=0, **arguments)
    assert asked == [("lifecycle", "i-1")]
    return code


def test_what_logs_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    reader = Reader([LINE])
    assert show(monkeypatch, reader) == OK
    assert capsys.readouterr().out == "2026-11-21T11:00:00Z s: hello\n"
    assert reader.windows == [(NOW - timedelta(hours=1), None)]
    reader = Reader([LINE])
    assert show(monkeypatch, reader, form=Format.json, until="30m") == OK
    data = json.loads(capsys.readouterr().out)
    assert (data["kind"], data["log_group"], data["lines"]) == ("logs", "g", [LINE])
    assert reader.windows == [(NOW - timedelta(hours=1), NOW - timedelta(minutes=30))]
    assert show(monkeypatch, Reader([])) == OK
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", "no lifecycle lines since 2026-11-21T11:00:00Z in g\n")


def test_a_log_that_is_followed_ends_with_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = Reader([LINE], [], [{**LINE, "message": "more"}])
    with pytest.raises(KeyboardInterrupt):
        show(monkeypatch, reader, form=Format.json, follow=True)
    # a document a line: what has no end is no JSON document
    assert [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()] == ["hello", "more"]
    assert reader.windows == [(NOW - timedelta(hours=1), None)] * 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"since": "1h", "until": "2h"}, "--until: 2h. Expected a time after --since 1h"),
        ({"since": "1h", "until": "1h"}, "--until: 1h. Expected a time after --since 1h"),
        ({"since": "2h", "until": "1h", "follow": True}, "--follow with --until: both given"),
    ],
)
def test_windows_that_hold_nothing_are_refused(monkeypatch: pytest.MonkeyPatch, options: Json, says: str) -> None:
    with pytest.raises(OpsError) as refused:
        show(monkeypatch, Reader([]), **options)
    assert refused.value.message.startswith(says)
    assert refused.value.code == BAD_USE
