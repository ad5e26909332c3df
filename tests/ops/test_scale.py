"""A thousand nodes: what a person reads stays short, what a browser loads stays small, and calls stay within limits."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import urllib3
from rich.console import Console

from hyperpod_ray.core import load
from hyperpod_ray.ops import orchestrators, status
from hyperpod_ray.ops.errors import ApiError, OpsError
from hyperpod_ray.ops.journal.record import RunEvent
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach import api_server, clients
from hyperpod_ray.ops.reach.api_server import ApiServer
from hyperpod_ray.ops.repair import nodes as verb
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.web import serve
from hyperpod_ray.ops.web.environment import view
from hyperpod_ray.planner import page_style
from tests.ops.api_server_helpers import answering
from tests.ops.scale_helpers import COUNT, RACK, shown, thousand
from tests.ops.test_api_server import nobody
from tests.support import pages, roles
from tests.support.emulator import Emulator, running, until

FIRST_PAGE = 60_000
BAD_RACK = 3


IN_TROUBLE = frozenset({*range(BAD_RACK * RACK, (BAD_RACK + 1) * RACK), 500, 700})
BAD = thousand(bad=IN_TROUBLE)


@pytest.mark.parametrize("bad", [frozenset(), IN_TROUBLE, frozenset(range(0, COUNT, 5)), frozenset(range(COUNT))],
                         ids=["well", "a rack", "each fifth", "all"])  # fmt: skip
def test_the_first_page_is_small_whatever_is_wrong(tmp_path: Path, bad: frozenset[int]) -> None:
    _, html = shown(tmp_path, thousand(bad=bad))
    assets = sum(file.stat().st_size for file in serve.ASSETS.iterdir()) + len(page_style.BASE)
    assert len(html.encode()) + assets <= FIRST_PAGE
    assert html.count("<") < 3000


def test_the_screen_of_status_stays_a_screen() -> None:
    console = Console(file=io.StringIO(), width=120)
    verdict = judge(BAD)
    status.show(console, BAD, verdict, events=5)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("\n") <= 75, text
    assert "18 ×, such as " in text and "982 pods" in text.replace("983", "982")
    # whoever reads JSON gets each
    assert len([finding for finding in verdict.findings if "does not answer" in finding.what]) == len(IN_TROUBLE)


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
