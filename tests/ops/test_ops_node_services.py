"""What is asked of HyperPod, CloudWatch Logs and Kubernetes about nodes. Calls are judged by botocore's models."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters

from hyperpod_ray.core import names
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.snapshot import NODES, Instance, Snapshot, Unseen
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.orchestrators.eks.repair import EksRepair
from hyperpod_ray.ops.orchestrators.hyperpod_logs import STREAMS, HyperPodLogs, LogStreams
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import HyperPodNodes, act_now
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.repair import logs
from tests.ops.snapshots import HEAD, NOW, ONE, SPARE_HEAD, THREE, TWO, ago, healthy, with_instance, with_node
from tests.ops.world import environment_text
from tests.support.answers import CLUSTER_ARN, Answers, operation_model

Json = dict[str, Any]


class Aws:
    """Answers by operation, several in turn; what is asked and answered has the shapes of botocore's models."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"describe_cluster": Answers().cluster, **answers}
        self.asked: list[tuple[str, Json]] = []

    def require_account(self) -> str:
        return "arn"

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        model = operation_model(service, operation)
        validate_parameters(arguments, model.input_shape)
        self.asked.append((operation, dict(arguments)))
        answer = self.answers[operation]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        validate_parameters(answer, model.output_shape)
        return cast("Json", answer)

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Json]:
        listed: list[Json] = self.call(service, operation, **arguments)[key]
        return listed

    def arguments(self, operation: str) -> list[Json]:
        return [arguments for name, arguments in self.asked if name == operation]


def of(**answers: Any) -> tuple[Target, Aws]:
    target = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    account = Aws(**answers)
    target.aws = account  # type: ignore[assignment]
    return target, account


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Operation")


def summary(of: Instance, host: str = "") -> Json:
    listed: Json = {
        "InstanceId": of.id,
        "InstanceGroupName": of.group,
        "InstanceType": of.type,
        "LaunchTime": of.launched,
    }
    listed["InstanceStatus"] = {"Status": of.status}
    return {**listed, **({"PrivateDnsHostname": host} if host else {})}


# --- nodes -----------------------------------------------------------------------------------------------------------

LISTED = {
    "ClusterNodeSummaries": [summary(ONE, "ip-10-0-0-7.us-west-2.compute.internal"), summary(TWO)],
    "NextToken": "",
}


def test_a_node_is_named_by_its_id_its_kubernetes_name_its_host_or_a_beginning() -> None:
    for name in (ONE.id, names.node_name(ONE.id), "ip-10-0-0-7"):
        target, _ = of(list_cluster_nodes=LISTED)
        assert HyperPodNodes(target).find(name).id == ONE.id
    three = summary(replace(ONE, id="i-0abc000000000001"))
    both = {"ClusterNodeSummaries": [three, summary(replace(ONE, id="i-0abc000000000002"))], "NextToken": ""}
    target, _ = of(list_cluster_nodes=both)
    assert HyperPodNodes(target).find("i-0abc000000000002").id.endswith("2")
    with pytest.raises(OpsError, match="fits i-0abc000000000001, i-0abc000000000002") as ambiguous:
        HyperPodNodes(target).find("i-0abc")
    assert ambiguous.value.code == BAD_USE
    # an ID that is the beginning of another one names itself
    short = {"ClusterNodeSummaries": [three, summary(replace(ONE, id="i-0abc0000"))], "NextToken": ""}
    target, _ = of(list_cluster_nodes=short)
    assert HyperPodNodes(target).find("i-0abc0000").id == "i-0abc0000"
    for name in ("i-", "i-0", "i-9999999", "other"):
        target, _ = of(list_cluster_nodes={"ClusterNodeSummaries": [three], "NextToken": ""})
        with pytest.raises(OpsError, match=r"is not in cluster 'ray-ops'\. Expected the id of a node") as absent:
            HyperPodNodes(target).find(name)
        assert (absent.value.code, absent.value.fix) == (BAD_USE, "hyperpod-ray nodes demo")


def test_session_manager_names_a_node_by_cluster_group_and_instance() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-run-jobs-slurm-access-nodes.html"""
    target, _ = of()
    session = HyperPodNodes(target).session(ONE)
    assert session == f"sagemaker-cluster:{CLUSTER_ARN.rpartition('/')[2]}_workers-{ONE.id}"


def test_details_of_a_node_omit_its_lifecycle_script() -> None:
    script = {"SourceS3Uri": "s3://b/p", "OnCreate": "on_create.sh"}
    node = {"InstanceId": ONE.id, "PrivatePrimaryIp": "10.0.0.7", "LifeCycleConfig": script}
    target, account = of(describe_cluster_node={"NodeDetails": node})
    assert HyperPodNodes(target).details(ONE) == {"InstanceId": ONE.id, "PrivatePrimaryIp": "10.0.0.7"}
    assert account.arguments("describe_cluster_node") == [{"ClusterName": "ray-ops", "NodeId": ONE.id}]


def test_without_hyperpod_no_node_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = of()
    asked: list[tuple[str, ...]] = []

    def snapshot(_: Target, *, only: tuple[str, ...]) -> Snapshot:
        asked.append(only)
        return latest

    monkeypatch.setattr(gather, "snapshot", snapshot)
    latest = replace(healthy(), unseen=(Unseen(source="Kubernetes", why="away"),))
    assert HyperPodNodes(target).look() is latest
    assert {"HyperPod", "HyperPod events", "Kubernetes", "Slurm"} == set(asked[0])
    latest = replace(healthy(), unseen=(Unseen(source="HyperPod", why="throttled"),))
    with pytest.raises(OpsError, match="throttled") as away:
        HyperPodNodes(target).look()
    assert away.value.fix == "hyperpod-ray status demo"
    latest = replace(healthy(), unseen=(Unseen(source="HyperPod", why="denied", next="ask for it"),))
    with pytest.raises(OpsError, match="denied") as denied:
        HyperPodNodes(target).look()
    assert denied.value.fix == "ask for it"
    nothing, _ = of(describe_cluster=refusal("ResourceNotFound"))
    with pytest.raises(OpsError, match="HyperPod cluster 'ray-ops' does not exist") as absent:
        HyperPodNodes(nothing).look()
    assert absent.value.fix == "hyperpod-ray deploy demo"


# --- events ----------------------------------------------------------------------------------------------------------


def event(number: int, **more: Any) -> Json:
    usual = {"EventId": f"e{number}", "ClusterArn": CLUSTER_ARN, "ClusterName": "ray-ops", "EventTime": ago(number)}
    return {**usual, "ResourceType": "Cluster", "EventLevel": "Info", "Description": "x", **more}


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


def test_events_of_a_node_or_a_group_are_asked_of_the_service() -> None:
    for about, filters in (
        ({"node": names.node_name(ONE.id)}, {"NodeId": ONE.id}),
        ({"group": "workers"}, {"InstanceGroupName": "workers"}),
        ({}, {}),
    ):
        target, account = of(list_cluster_events=[{"Events": []}])
        assert HyperPodNodes(target).events(limit=7, **about) == []
        (asked,) = account.arguments("list_cluster_events")
        assert {key: asked[key] for key in ("NodeId", "InstanceGroupName") if key in asked} == filters
    target, _ = of()
    with pytest.raises(OpsError, match=r"group: 'other' is not in cluster 'ray-ops'\. Expected one of head, workers"):
        HyperPodNodes(target).events(group="other", limit=1)


def test_the_failure_of_an_event_is_asked_for_by_its_id() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_EventMetadata.html"""
    metadata = {"EventMetadata": {"Instance": {"FailureMessage": "Xid 79"}}}
    details = event(7, EventLevel="Error", InstanceId=ONE.id, InstanceGroupName="workers", EventDetails=metadata)
    target, account = of(describe_cluster_event={"EventDetails": details})
    listed = hyperpod._event(event(7))
    assert (listed.failure, listed.level, listed.resource, listed.instance) == ("", "Info", "Cluster", "")
    described = HyperPodNodes(target).described(listed)
    assert (described.failure, described.level, described.instance) == ("Xid 79", "Error", ONE.id)
    assert (described.group, described.time) == ("workers", ago(7))
    assert account.arguments("describe_cluster_event") == [{"ClusterName": "ray-ops", "EventId": "e7"}]
    bare = {key: details[key] for key in ("EventId", "ClusterArn", "ClusterName", "EventTime", "ResourceType")}
    assert hyperpod._event(bare).level == "Info"
    assert hyperpod._event({**bare, "EventDetails": {"EventMetadata": {"Instance": {}}}}).failure == ""


# --- repair ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "operation"), [("reboot", "batch_reboot_cluster_nodes"), ("replace", "batch_replace_cluster_nodes")]
)
def test_nodes_are_repaired_by_hyperpods_api(verb: Any, operation: str, capsys: pytest.CaptureFixture[str]) -> None:
    target, account = of(**{operation: {"Successful": [ONE.id, TWO.id]}})
    advice = act_now(target, [ONE, TWO], verb=verb)
    assert advice == "under way; hyperpod-ray wait demo --for workers"
    assert account.arguments(operation) == [{"ClusterName": "ray-ops", "NodeIds": [ONE.id, TWO.id]}]
    assert capsys.readouterr().out.splitlines() == [ONE.id, TWO.id]
    failed = [{"NodeId": TWO.id, "ErrorCode": "InvalidNodeStatus", "Message": "it is Pending"}]
    target, _ = of(**{operation: {"Successful": [ONE.id], "Failed": failed}})
    with pytest.raises(OpsError, match=f"{verb} was refused: {TWO.id}: InvalidNodeStatus it is Pending"):
        act_now(target, [ONE, TWO], verb=verb)
    assert capsys.readouterr().out.splitlines() == [ONE.id], "the one that was accepted is under way"


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


def stream(name: str) -> Json:
    return {"logStreamName": name}


def entry(at: datetime, text: str, name: str, identifier: str = "") -> Json:
    millis = int(at.timestamp() * 1000)
    return {
        "timestamp": millis,
        "message": text,
        "logStreamName": name,
        **({"eventId": identifier} if identifier else {}),
    }


def test_a_log_is_read_stream_by_stream_a_hundred_at_a_time() -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html: 1 to 100 names"""
    streams = [stream(f"LifecycleConfig/workers/i-{number:017x}") for number in range(101)]
    one, last = streams[0]["logStreamName"], streams[100]["logStreamName"]
    target, account = of(
        describe_log_streams={"logStreams": streams},
        filter_log_events=[{"events": [entry(ago(1), "late\n", one)]}, {"events": [entry(ago(5), "early", last)]}],
    )
    reader = LogStreams(target, group="/aws/sagemaker/Clusters/ray-ops/abc", kinds=["lifecycle"], instance="")
    lines = reader.read(ago(10), ago(0))
    assert [(line["time"], line["kind"], line["stream"], line["message"]) for line in lines] == [
        (output.stamp(ago(5)), "lifecycle", last, "early"),
        (output.stamp(ago(1)), "lifecycle", one, "late"),
    ]
    first, second = account.arguments("filter_log_events")
    assert [len(first["logStreamNames"]), len(second["logStreamNames"])] == [100, 1]
    assert (first["startTime"], first["endTime"]) == (int(ago(10).timestamp() * 1000), int(ago(0).timestamp() * 1000))
    assert first["logGroupName"] == "/aws/sagemaker/Clusters/ray-ops/abc"
    (asked,) = account.arguments("describe_log_streams")
    assert asked["logStreamNamePrefix"] == "LifecycleConfig/"


def test_a_line_counts_once_however_often_it_is_read() -> None:
    name = f"LifecycleConfig/workers/{ONE.id}"
    other = stream(f"LifecycleConfig/workers/{TWO.id}")
    twice = [entry(ago(2), "same", name), entry(ago(2), "same", name, "1"), entry(ago(2), "same", name, "2")]
    more = [*twice, entry(ago(1), "new", name, "3")]
    target, account = of(
        describe_log_streams={"logStreams": [stream(name), other]},
        filter_log_events=[{"events": twice}, {"events": more}],
    )
    reader = LogStreams(target, group="g", kinds=["lifecycle"], instance=ONE.id)
    assert len(reader.read(ago(9), None)) == 3
    assert [line["message"] for line in reader.read(ago(9), None)] == ["new"]
    assert all(asked["logStreamNames"] == [name] for asked in account.arguments("filter_log_events"))
    assert all("endTime" not in asked for asked in account.arguments("filter_log_events"))


def test_every_log_is_one_reader_and_a_group_that_is_not_there_says_so() -> None:
    target, account = of(describe_log_streams={"logStreams": []})
    reader = HyperPodLogs(target, HyperPodNodes(target)).reader("all", node="")
    assert reader.group == f"/aws/sagemaker/Clusters/ray-ops/{CLUSTER_ARN.rpartition('/')[2]}"
    assert reader.read(ago(1), None) == []
    prefixes = [asked["logStreamNamePrefix"] for asked in account.arguments("describe_log_streams")]
    assert prefixes == list(STREAMS.values())
    assert prefixes == ["LifecycleConfig/", "SagemakerHealthMonitoringAgent/", "DeepHealthCheckResults/"]
    reader = HyperPodLogs(target, HyperPodNodes(target)).reader("health-agent", node="")
    assert reader._kinds == ["health-agent"]
    target, _ = of(describe_log_streams=refusal("ResourceNotFoundException"))
    with pytest.raises(OpsError, match=r"no log group g\. Expected a cluster whose first node has started") as absent:
        LogStreams(target, group="g", kinds=["lifecycle"], instance="").read(ago(1), None)
    assert absent.value.fix == "hyperpod-ray nodes events demo"
    target, _ = of(describe_log_streams=refusal("AccessDeniedException"))
    with pytest.raises(ClientError):
        LogStreams(target, group="g", kinds=["lifecycle"], instance="").read(ago(1), None)


def test_logs_outlive_nodes_so_that_an_id_is_taken_as_it_is() -> None:
    gone = "i-0123456789abcdef0"
    for name, identifier, listings in (
        (gone, gone, 0),
        (f"hyperpod-{gone}", gone, 0),
        ("ip-10-0-0-7", ONE.id, 1),
        ("", "", 0),
    ):
        target, account = of(list_cluster_nodes=LISTED)
        assert HyperPodLogs(target, HyperPodNodes(target)).reader("lifecycle", node=name)._instance == identifier
        assert len(account.arguments("list_cluster_nodes")) == listings


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
