"""States that services document, each with what is made of it: Slurm's nodes, Kubernetes without KubeRay, findings."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import urllib3
from botocore.exceptions import ClientError

from hyperpod_ray.ops import preflight
from hyperpod_ray.ops.change import deploy
from hyperpod_ray.ops.errors import ApiError, OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.node_rows import Row
from hyperpod_ray.ops.observe.snapshot import Instance, RayJob, Stack
from hyperpod_ray.ops.reach import api_server
from hyperpod_ray.ops.reach.api_server import ApiServer
from hyperpod_ray.ops.reach.kubeconfig import Credential
from hyperpod_ray.ops.repair import nodes
from hyperpod_ray.ops.verdict import judge
from tests.ops.ops_more_states_helpers import target
from tests.ops.snapshots import (
    NOW,
    SPARE_HEAD,
    THREE,
    ago,
    event,
    healthy,
    trains,
    with_cluster,
    with_instance,
)
from tests.support.faults import FAULTS, Fault

Json = dict[str, Any]


# --- Slurm -----------------------------------------------------------------------------------------------------------


# --- Kubernetes ------------------------------------------------------------------------------------------------------


def test_a_request_gives_up_in_time_and_repeats_only_what_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, str, Json]] = []

    class Pool:
        def request(self, method: str, url: str, **options: Any) -> Any:
            sent.append((method, url, options))
            return SimpleNamespace(status=200, reason="OK", data=b"{}")

    monkeypatch.setattr(ApiServer, "_pool", lambda *_: Pool())
    server = ApiServer("https://k", lambda **_: Credential(headers={"Authorization": "Bearer t"}))
    server.send("PATCH", "/api/v1/x", query={"a": "b c"}, headers={"Accept": "y"}, body={"n": 1})
    server.send("GET", "/api/v1/x", query={}, headers={})
    (method, url, options), (_, bare, get) = sent
    assert (method, url, bare) == ("PATCH", "https://k/api/v1/x?a=b+c", "https://k/api/v1/x")
    assert (options["body"], get["body"]) == (b'{"n": 1}', None)
    assert options["headers"] == {"Accept": "y", "Authorization": "Bearer t"}
    timeout = options["timeout"]
    assert isinstance(timeout, urllib3.Timeout)
    assert (timeout.connect_timeout, timeout.read_timeout) == (api_server.CONNECT_SECONDS, api_server.READ_SECONDS)
    retries = options["retries"]
    assert isinstance(retries, urllib3.Retry)
    assert retries.allowed_methods == {"GET"}, "a change that was lost on the way may have been made"
    # https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
    assert {429, 503} <= set(retries.status_forcelist)
    assert retries.redirect == 0, "the token is not sent elsewhere"
    assert not retries.raise_on_status


def test_a_socket_of_a_forward_sends_at_once_and_is_closed_where_it_cannot_be_used() -> None:
    """Nagle's algorithm would hold back each key of a shell, and each small request, for a round trip."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        context = ssl.create_default_context()
        near = ApiServer(f"http://127.0.0.1:{port}", lambda **_: Credential())._socket(context)
        assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert near.gettimeout() == api_server.READ_SECONDS
        near.close()
        listening.accept()[0].close()
        refusing = mock.Mock()
        refusing.wrap_socket.side_effect = ssl.SSLError("no")
        server = ApiServer(f"https://127.0.0.1:{port}", lambda **_: Credential(), tls_server_name="k.example.com")
        with pytest.raises(ssl.SSLError):
            server._socket(refusing)
        (plain,), options = refusing.wrap_socket.call_args
        assert (plain.fileno(), options) == (-1, {"server_hostname": "k.example.com"})


# --- a list of nodes -------------------------------------------------------------------------------------------------


def row(**changes: Any) -> Row:
    usual: Json = {
        "id": "i-1", "group": "workers", "type": "ml.g5.8xlarge", "status": "Running", "kubernetes": "Ready",
        "health": "", "fault": "", "launched": NOW, "replacements": 0, "pods": (),
    }  # fmt: skip
    return Row(**(usual | changes))


def test_a_state_or_a_type_that_no_node_can_have_is_refused() -> None:
    """An empty list would say that all is well."""
    rows = [row(), row(type="", status="gone"), row(type="ml.p5.48xlarge")]
    for words in ({"state": "running"}, {"state": "NotReady"}, {"instance_type": "ml.p5.48xlarge"}):
        nodes._refuse(target(), rows, **{"state": "", "instance_type": "", **words})
    with pytest.raises(OpsError) as refused:
        nodes._refuse(target(), rows, state="", instance_type="ml.trn1.32xlarge")
    expected = "one of ml.m5.2xlarge, ml.g5.8xlarge, ml.p5.48xlarge"
    assert (refused.value.what, refused.value.expected) == ("--type: the cluster has no ml.trn1.32xlarge", expected)
    with pytest.raises(OpsError, match="--state: no node can be 'idle'") as no_slurm:
        nodes._refuse(target(), rows, state="idle", instance_type="")
    assert "Failure" in no_slurm.value.expected
    nodes._refuse(target(), [row(slurm="idle")], state="drained", instance_type="")


# --- findings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.state != "Healthy"], ids=lambda fault: fault.name)
def test_every_finding_says_what_to_do_or_until_when_to_wait(fault: Fault) -> None:
    findings = judge(fault.answers().snapshot()).findings
    assert findings
    for finding in findings:
        assert finding.expected_by is None or finding.since is None or finding.expected_by > finding.since, finding
        if finding.kind == "action-required":
            assert finding.next, finding
        assert finding.what
        assert finding.subject


@pytest.mark.parametrize(
    ("node", "recovery", "minutes", "kind", "words"),
    [
        (THREE, "Automatic", 3, "recovering", "the service replaces it"),
        (THREE, "Automatic", 90, "action-required", "was not replaced in time"),
        (THREE, "None", 3, "action-required", "node recovery is off"),
        (SPARE_HEAD, "Automatic", 3, "action-required", "CPU nodes are not replaced automatically"),
    ],
)
def test_a_faulty_node_says_since_when_and_why(
    node: Instance, recovery: str, minutes: float, kind: str, words: str
) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-recovery.html"""
    faulty = with_cluster(with_instance(healthy(), node, status="Failure"), node_recovery=recovery)
    snapshot = replace(faulty, events=(event(minutes, node, level="Error", failure="Xid 79"),))
    finding = next(finding for finding in judge(snapshot).findings if finding.subject == node.id)
    assert (finding.kind, finding.since, finding.why) == (kind, ago(minutes), "Xid 79")
    assert finding.what.startswith(f"node {node.id} of group '{node.group}' is faulty")
    assert words in finding.what
    if kind == "recovering":
        assert finding.expected_by == ago(minutes - 30), "20 to 30 minutes"
    else:
        assert finding.next == f"hyperpod-ray nodes replace demo {node.id}"


@pytest.mark.parametrize(
    ("state", "recovers"),
    [
        ("starting", True),
        ("restoring", True),
        ("recovering", True),
        ("saving", False),
        ("paused", False),
    ],
)
def test_a_run_between_steps_says_since_when_and_how_long_it_may_take(state: str, recovers: bool) -> None:
    (finding,) = judge(trains(state=state, state_since=ago(1), last_step_at=ago(1))).findings
    assert (finding.kind, finding.since) == ("recovering" if recovers else "note", ago(1))
    assert (finding.expected_by is not None) is recovers
    assert finding.expected_by is None or finding.expected_by > NOW
    late = judge(
        trains(state=state, state_since=ago(24 * 60), started=ago(25 * 60), last_step_at=ago(24 * 60))
    ).findings[0]
    assert (late.kind, late.since) == ("action-required", ago(24 * 60))
    assert late.next.startswith("hyperpod-ray ")


@pytest.mark.parametrize(("minutes", "kind", "until"), [(2, "recovering", 15), (120, "action-required", None)])
def test_a_ray_job_that_waits_says_why_and_until_when(minutes: float, kind: str, until: float | None) -> None:
    job = RayJob(
        name="first", namespace="ray", deployment_status="Initializing", cluster="first-x", message="pulls its image",
        created=ago(minutes),
    )  # fmt: skip
    finding = next(f for f in judge(replace(healthy(), ray_jobs=(job,))).findings if f.subject == "first")
    assert (finding.kind, finding.why, finding.since) == (kind, "pulls its image", ago(minutes))
    assert finding.what.startswith("RayJob 'first' is Initializing")
    assert finding.expected_by == (None if until is None else ago(minutes - until))
    assert bool(finding.next) is (kind == "action-required")


def test_an_environment_without_a_cluster_has_no_events_and_a_refusal_is_not_hidden() -> None:
    def refuse(name: str) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            raise ClientError({"Error": {"Code": name, "Message": "no"}}, "ListClusterEvents")

        return SimpleNamespace(call=call)

    environment = target()
    environment.aws = refuse("ResourceNotFound")
    assert hyperpod.events_part(environment) == {}
    environment.aws = refuse("AccessDeniedException")
    with pytest.raises(ClientError):
        hyperpod.events_part(environment)


@pytest.mark.parametrize(("status", "first"), [("UPDATE_ROLLBACK_FAILED", True), ("UPDATE_ROLLBACK_COMPLETE", False)])
def test_a_rollback_that_failed_is_continued_first(status: str, first: bool) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-continueupdaterollback.html"""
    fix = deploy._next(
        target(), [Stack(name="demo-Eks", status="CREATE_FAILED"), Stack(name="demo-Ray", status=status)]
    )
    assert ("npx cdk rollback 'demo/*'" in fix) is first
    assert fix.endswith("then hyperpod-ray deploy demo")


# --- preflight -------------------------------------------------------------------------------------------------------


def test_a_defect_of_a_check_is_raised_and_a_failed_call_is_unknown() -> None:
    def check(error: Exception) -> Any:
        def fails() -> Any:
            raise error

        return fails

    with pytest.raises(ZeroDivisionError):
        preflight._run(target(), "x", check(ZeroDivisionError()))
    (unknown,) = preflight._run(target(), "x", check(ApiError(status=500)))
    assert (unknown.check, unknown.result) == ("x", "unknown")
