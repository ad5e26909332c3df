"""A thousand nodes: what a person reads stays short, what a browser loads stays small, and calls stay within limits."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import urllib3
from rich.console import Console

from hyperpod_ray.core import load
from hyperpod_ray.core.names import node_name
from hyperpod_ray.ops import orchestrators, status
from hyperpod_ray.ops.errors import ApiError, OpsError
from hyperpod_ray.ops.journal.record import RunEvent
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.node_rows import FOLDED, folded
from hyperpod_ray.ops.observe.snapshot import Node, Snapshot
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach import api_server, clients
from hyperpod_ray.ops.reach.api_server import ApiServer
from hyperpod_ray.ops.repair import nodes as verb
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.verdict.finding import Finding
from hyperpod_ray.ops.verdict.finding import folded as folded_findings
from hyperpod_ray.ops.web import node_map, page, serve
from hyperpod_ray.ops.web.environment import view
from hyperpod_ray.ops.web.view import NodeLine, Tone, View
from hyperpod_ray.ops.web.watch import Latest
from hyperpod_ray.planner import page_style
from hyperpod_ray.pricing import price_file
from tests.ops.test_api_server import answering, nobody
from tests.support import pages, roles
from tests.support.emulator import Emulator, running, until
from tests.support.pages import NOW

COUNT, RACK = 1000, 16
FIRST_PAGE = 60_000
BAD_RACK = 3


def thousand(*, bad: frozenset[int] = frozenset()) -> Snapshot:
    """A healthy environment with a thousand workers, 16 below each network node; some do not answer."""
    base = pages.healthy()
    assert base.cluster is not None
    instances = [pages._instance(number + 10, "workers", "ml.p5.48xlarge") for number in range(COUNT)]
    nodes = [
        Node(name=node_name(instance.id), ready=number not in bad, unreachable=number in bad, group="workers",
             health="Schedulable", since=pages.ago(14), created=pages.ago(2000),
             network=("nn-top", f"nn-mid{number // 256}", f"nn-{number // RACK:017x}"))
        for number, instance in enumerate(instances)
    ]  # fmt: skip
    pods = [pages._pod(f"ray-gpu-worker-{number}", instance) for number, instance in enumerate(instances)]
    head, workers = base.cluster.groups
    return replace(
        base,
        cluster=replace(base.cluster, groups=(head, replace(workers, target=COUNT, current=COUNT))),
        instances=(*base.instances[:2], *instances),
        nodes=(*base.nodes[:2], *nodes),
        pods=(base.pods[0], *pods),
        ray_clusters=(replace(base.ray_clusters[0], desired_workers=COUNT, ready_workers=COUNT),),
        events=(),
    )


IN_TROUBLE = frozenset({*range(BAD_RACK * RACK, (BAD_RACK + 1) * RACK), 500, 700})
BAD = thousand(bad=IN_TROUBLE)


def shown(folder: Path, snapshot: Snapshot) -> tuple[View, str]:
    data = view(pages.plan(folder), snapshot, judge(snapshot), prices=price_file.recorded())
    sections = page.sections(Latest(value=data, at=NOW), environment="demo", every=15)
    return data, page.document("demo", sections, every=15, tone=data.tone)


@pytest.mark.parametrize("bad", [frozenset(), IN_TROUBLE, frozenset(range(0, COUNT, 5)), frozenset(range(COUNT))],
                         ids=["well", "a rack", "each fifth", "all"])  # fmt: skip
def test_the_first_page_is_small_whatever_is_wrong(tmp_path: Path, bad: frozenset[int]) -> None:
    _, html = shown(tmp_path, thousand(bad=bad))
    assets = sum(file.stat().st_size for file in serve.ASSETS.iterdir()) + len(page_style.BASE)
    assert len(html.encode()) + assets <= FIRST_PAGE
    assert html.count("<") < 3000


def test_a_small_cluster_has_no_picture(tmp_path: Path) -> None:
    _, html = shown(tmp_path, pages.healthy())
    assert 'id="node-map"' not in html and "node-find" not in html and "Nodes to look at" not in html
    assert "5 nodes ready for work" not in html and "7 nodes ready for work" in html


def test_the_bad_rack_is_first_in_the_picture_and_named(tmp_path: Path) -> None:
    data, html = shown(tmp_path, BAD)
    worst, *rest = node_map.blocks(data.nodes)
    rack = f"nn-{BAD_RACK:017x}"
    assert (worst.network, worst.troubled, len(worst.nodes)) == (rack, RACK, RACK)
    assert [block.troubled for block in rest[:3]] == [1, 1, 0]
    assert f"Not ready for work: {rack}: 16 of 16" in html
    assert "16 of 16 nodes below network node" in html and "elsewhere 2 of 986" in html
    assert html.count('class="cell bad"') == 2, "one path in the picture, one in the legend"


def test_what_needs_attention_goes_before_what_is_on_its_way() -> None:
    def nodes(network: str, *tones: Tone) -> list[NodeLine]:
        return [NodeLine(id=f"{network}{i}", group="a", tone=tone, state="x", network=network)
                for i, tone in enumerate(tones)]  # fmt: skip

    listed = [*nodes("n1", "good"), *nodes("n2", "busy", "busy"), *nodes("n3", "bad", "good")]
    assert [block.network for block in node_map.blocks(listed)] == ["n3", "n2", "n1"]


def test_each_cell_of_the_picture_leads_to_its_node(tmp_path: Path) -> None:
    data, html = shown(tmp_path, BAD)
    answer = json.loads(node_map.details(data.nodes))
    assert {row["id"] for row in answer["nodes"]} == {node.id for node in data.nodes}
    cells = {(row["x"], row["y"]): row for row in answer["nodes"]}
    assert len(cells) == len(data.nodes), "no two nodes have one place"
    drawn = html[html.index('id="node-map"') : html.index("</svg>", html.index('id="node-map"'))]
    for (x, y), row in cells.items():
        assert f"M{x} {y}" in drawn, row["id"]
        assert 0 <= x <= node_map.WIDTH - node_map.CELL
    lost = [row for row in answer["nodes"] if row["tone"] == "bad"]
    assert len(lost) == len(IN_TROUBLE) and all(row["state"] and row["pods"] for row in lost)


def test_details_are_served_beside_the_page(tmp_path: Path) -> None:
    data, _ = shown(tmp_path, BAD)
    watch: Any = type("W", (), {"latest": lambda self: Latest(value=data, at=NOW)})()
    answer = serve.paths(watch, environment="demo", every=15)["nodes.json"]()
    assert answer.type.startswith("application/json") and len(json.loads(answer.body)["nodes"]) == len(data.nodes)
    empty: Any = type("W", (), {"latest": lambda self: Latest()})()
    assert json.loads(serve.paths(empty, environment="demo", every=15)["nodes.json"]().body)["nodes"] == []


def test_the_screen_of_status_stays_a_screen() -> None:
    console = Console(file=io.StringIO(), width=120)
    verdict = judge(BAD)
    status.show(console, BAD, verdict, events=5)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("\n") <= 75, text
    assert "18 ×, such as " in text and "982 pods" in text.replace("983", "982")
    # whoever reads JSON gets each
    assert len([finding for finding in verdict.findings if "does not answer" in finding.what]) == len(IN_TROUBLE)


def test_findings_of_two_kinds_are_not_one() -> None:
    """The same words of another group, or of another kind, are another finding."""
    findings = [
        Finding(kind=kind, what=f"node i-{number} of group '{group}' is faulty", subject=f"i-{number}")
        for kind in ("note", "recovering") for group in ("a1", "a2") for number in range(7)
    ]  # fmt: skip
    assert [finding.what[:4] for finding in folded_findings(findings)] == ["7 ×,"] * 4
    assert folded_findings(findings[:5]) == tuple(findings[:5])
    unnamed = [replace(finding, subject="") for finding in findings]
    assert len(folded_findings(unnamed)) == len(unnamed)


@pytest.mark.parametrize(
    ("bad", "racks"),
    [(IN_TROUBLE, 1), (frozenset(range(2)), 0), (frozenset(range(COUNT)), 0), (frozenset(range(0, COUNT, 2)), 0),
     (frozenset(range(2 * RACK)), 2), (frozenset(range(7)), 0), (frozenset(range(8)), 1)],
)  # fmt: skip
def test_a_rack_is_named_where_it_stands_out(bad: frozenset[int], racks: int) -> None:
    found = [finding for finding in judge(thousand(bad=bad)).findings if "below network node" in finding.what]
    assert len(found) == racks


# --- nodes ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> clients.Target:
    pages.plan(tmp_path)
    made = clients.Target(load("demo", folder=tmp_path), folder=tmp_path)
    look: Any = type("Nodes", (), {"look": lambda self: BAD})()
    monkeypatch.setattr(orchestrators, "of", lambda target: type("O", (), {"nodes": look})())
    return made


def test_nodes_are_folded_unless_each_is_asked_for(target: clients.Target, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb.listing(target, form=Format.table) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") <= 30 and "982 nodes" in out and "1002 nodes in" in err and "--unhealthy" in err
    for number in IN_TROUBLE:
        assert f"i-{number + 10:017x}" in out
    verb.listing(target, form=Format.table, each=True)
    assert capsys.readouterr().out.count("i-0") == 1002
    verb.listing(target, form=Format.json)
    assert len(json.loads(capsys.readouterr().out)["nodes"]) == 1002


@pytest.mark.parametrize(
    ("only", "count"),
    [({"unhealthy": True}, 18), ({"state": "unreachable"}, 18), ({"state": "READY"}, 984), ({"state": "Failure"}, 0),
     ({"instance_type": "ml.m5.2xlarge"}, 2), ({"group": "head", "unhealthy": True}, 0),
     ({"group": "workers", "state": "ready"}, 982)],
)  # fmt: skip
def test_nodes_of_a_state_and_a_type(
    target: clients.Target, capsys: pytest.CaptureFixture[str], only: dict[str, Any], count: int
) -> None:
    verb.listing(target, form=Format.json, **only)
    assert len(json.loads(capsys.readouterr().out)["nodes"]) == count
    verb.listing(target, form=Format.table, **only)
    out, err = capsys.readouterr()
    assert ("no such node" in err) == (count == 0) and (out == "") == (count == 0)


@pytest.mark.parametrize(
    ("only", "said"),
    [({"state": "Failurx"}, "Failure"), ({"instance_type": "ml.p5.48xlage"}, "ml.p5.48xlarge"),
     ({"state": "idle"}, "Expected one of")],
)  # fmt: skip
def test_a_state_that_no_node_can_have_is_refused(target: clients.Target, only: dict[str, Any], said: str) -> None:
    with pytest.raises(OpsError) as refused:
        verb.listing(target, form=Format.table, **only)
    assert said in str(refused.value) and refused.value.code == 2


def test_few_nodes_are_listed_each() -> None:
    rows = orchestrators.named("eks").rows(BAD)
    assert folded(rows[:FOLDED]) == rows[:FOLDED]
    lines = folded(rows)
    assert sum(int(line.id.split()[0]) if " nodes" in line.id else 1 for line in lines) == len(rows)


# --- rate limits ------------------------------------------------------------------------------------------------------


class Recorded(clients.Aws):
    """The calls that go out, attempts included."""

    calls: ClassVar[dict[str, list[Any]]] = {}

    def client(self, service: str, *, region: str | None = None) -> Any:
        made = super().client(service, region=region)
        if service not in self.calls:
            self.calls[service] = []
            made.meta.events.register("before-send.*", lambda request, **_: self.calls[service].append(request.body))
        return made


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(tmp_path_factory.mktemp("aws")) as started:
        roles.node_role(started.boto("iam"))
        yield started


@pytest.mark.emulator
@pytest.mark.slow
def test_a_thousand_nodes_take_ten_calls_and_a_throttle_is_waited_for(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo.yaml").write_text(pages.FILE)
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    sagemaker = emulator.boto("sagemaker")
    script = {"SourceS3Uri": "s3://sagemaker-scripts/a/", "OnCreate": "on_create.sh"}
    group = {
        "InstanceGroupName": "workers", "InstanceType": "ml.g5.8xlarge", "InstanceCount": COUNT,
        "LifeCycleConfig": script, "ExecutionRole": "arn:aws:iam::000000000001:role/execution",
    }  # fmt: skip
    sagemaker.create_cluster(ClusterName="ray-ops", InstanceGroups=[group])
    until(
        lambda: len(sagemaker.list_cluster_nodes(ClusterName="ray-ops", MaxResults=100)["ClusterNodeSummaries"]) == 100
    )
    target = clients.Target(load("demo", folder=tmp_path), folder=tmp_path)
    target.aws = Recorded(target.plan)
    emulator.control.set_fault(operation="sagemaker.ListClusterNodes", code="ThrottlingException", count=4)
    instances = hyperpod.instances(target)
    assert len({instance.id for instance in instances}) == COUNT
    assert len(Recorded.calls["sagemaker"]) == COUNT / clients.PAGE + 4
    emulator.control.set_fault(operation="sagemaker.ListClusterNodes", code="ThrottlingException", count=-1)
    with pytest.raises(Exception, match="Throttling"):
        hyperpod.instances(target)
    emulator.control.clear_faults()


class Forgetful:
    """A Kubernetes API that pages, and forgets a listing in the middle (410), as etcd does after its compaction."""

    def __init__(self, *, forgets: int) -> None:
        self.forgets, self.asked = forgets, 0

    def __call__(self, method: str, path: str, *, query: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        assert query["limit"] == 500
        begin = int(query.get("continue", "0"))
        if begin == 1000 and self.forgets:
            self.forgets -= 1
            raise ApiError(status=410, reason="Gone", body="{}")
        rest = {"continue": str(begin + 500)} if begin + 500 < 1200 else {}
        return {"items": list(range(begin, min(1200, begin + 500))), "metadata": rest}


@pytest.mark.parametrize(("forgets", "asked"), [(0, 3), (1, 6), (3, 12)])
def test_a_listing_that_the_api_server_forgot_begins_again(forgets: int, asked: int) -> None:
    kubernetes = clients.Kubernetes.__new__(clients.Kubernetes)
    requests = Forgetful(forgets=forgets)
    kubernetes.request = requests  # type: ignore[method-assign, assignment]
    assert [*map(int, kubernetes.items("/api/v1/nodes"))] == list(range(1200))  # type: ignore[arg-type]
    assert requests.asked == asked


def test_a_listing_that_is_always_forgotten_is_an_error() -> None:
    kubernetes = clients.Kubernetes.__new__(clients.Kubernetes)
    kubernetes.request = Forgetful(forgets=9)  # type: ignore[method-assign, assignment]
    with pytest.raises(ApiError):
        kubernetes.items("/api/v1/nodes")


@pytest.mark.parametrize(("asks", "waits"), [("2", 2), ("86400", api_server.RETRY_AFTER_SECONDS), (None, None)])
def test_a_throttled_api_server_is_asked_again_when_it_wants_within_bounds(
    asks: str | None, waits: float | None
) -> None:
    answer = urllib3.HTTPResponse(status=429, headers={"Retry-After": asks} if asks else {})
    retry = api_server._patient(urllib3.Retry)(total=1, status_forcelist=api_server.RETRIED)
    assert retry.get_retry_after(answer) == waits
    again = retry.increment(method="GET", url="/", response=answer)
    assert again.get_retry_after(answer) == waits, "after an attempt too"


def test_the_request_waits_as_the_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    with answering() as server:
        server.retry_after = "3600"
        server.statuses = [429, 429, 200]
        assert ApiServer(server.url, nobody).send("GET", "/x", query={}, headers={})
    assert [seconds for seconds in waited if seconds >= 1] == [api_server.RETRY_AFTER_SECONDS] * 2


# --- causes -----------------------------------------------------------------------------------------------------------


def test_a_straggler_is_named_until_it_stands_out_no_more() -> None:
    from tests.ops.snapshots import RUN, ago, trains

    slow = RunEvent(at=ago(3), kind="slow", text="rank 3 on 10.0.0.9 holds the others up: they wait 60% of their time")
    save = RunEvent(at=ago(2), kind="save")
    over = RunEvent(at=ago(1), kind="slow", text="no rank stands out any more")
    again = RunEvent(at=ago(1), kind="restore")

    def notes(*events: RunEvent) -> list[str]:
        verdict = judge(trains(events=(*RUN.events, *events)))
        assert verdict.state == "Healthy"
        return [finding.what for finding in verdict.findings]

    assert notes(slow, save) == [f"run 'first': {slow.text}"]
    assert notes(slow, over) == [] and notes(slow, again) == []


def test_a_straggler_is_named_with_its_instance() -> None:
    """Ray knows a node by the address of its pod, Slurm by its host name, and people by its instance."""
    from hyperpod_ray.ops.reach.ray_pods import pod_of
    from tests.ops.snapshots import RUN, ago, trains, with_instance, with_pod

    slow = RunEvent(at=ago(3), kind="slow", text="rank 3 on 10.0.0.9 holds the others up: they wait 60% of their time")
    seen = trains(events=(*RUN.events, slow))
    pod = next(pod for pod in seen.pods if pod.role == "worker")
    instance = next(instance for instance in seen.instances if pod.node.endswith(instance.id))

    def said(snapshot: Snapshot) -> str:
        (finding,) = judge(snapshot).findings
        return finding.what

    assert said(seen) == f"run 'first': {slow.text}", "nobody has this address"
    named = f"run 'first': rank 3 on 10.0.0.9 ({instance.id}) holds the others up: they wait 60% of their time"
    assert said(with_pod(seen, pod.name, address="10.0.0.9")) == named
    assert said(with_pod(seen, pod.name, address="10.0.0.99")) == f"run 'first': {slow.text}"
    assert said(with_instance(seen, instance, host="10.0.0.9")) == named
    other = next(other for other in seen.instances if other.id != instance.id)
    listed = {"metadata": {"name": "w"}, "spec": {"nodeName": pod.node}, "status": {"podIP": "10.0.0.9"}}
    assert (pod_of(listed).address, pod_of(listed).node) == ("10.0.0.9", pod.node)
    twice = with_instance(with_instance(seen, instance, host="10.0.0.9"), other, host="10.0.0.9")
    assert said(twice) == f"run 'first': {slow.text}", "two hosts of one name"


def test_what_a_controller_is_for_stands_beside_its_fault_alone(tmp_path: Path) -> None:
    from tests.ops.snapshots import healthy, with_controller

    plan = pages.plan(tmp_path)
    well = healthy()
    assert {fact.detail for fact in view(plan, well, judge(well)).facts if fact.kind == "controller"} == {""}
    ill = with_controller(well, "CoreDNS", ready=1)
    said = [fact.detail for fact in view(plan, ill, judge(ill)).facts if fact.name == "CoreDNS"]
    assert said == ["something stops"]
