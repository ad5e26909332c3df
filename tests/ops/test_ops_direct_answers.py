"""Small functions of the operations, asked directly for what the service's page or their own sentence says."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

import argparse
import base64
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.acceptance import check as acceptance
from hyperpod_ray.ops.acceptance import node_probe
from hyperpod_ray.ops.journal.record import Interruption
from hyperpod_ray.ops.observe import hyperpod, node_rows
from hyperpod_ray.ops.orchestrators.eks import runs
from hyperpod_ray.ops.orchestrators.slurm import nodes as slurm_nodes
from hyperpod_ray.ops.reach import kubeconfig, ray_pods, tunnel
from hyperpod_ray.ops.verdict import finding, nodes

Json = dict[str, Any]
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("role", "host", "answers", "word"),
    [
        ("Controller", "ip-1", True, ""), ("Login", "ip-1", True, ""), ("Compute", "ip-1", True, "not joined"),
        (None, "ip-1", True, "not joined"), ("Compute", "", True, "?"), ("Compute", "ip-1", False, "?"),
    ],
)  # fmt: skip
def test_a_node_that_slurm_does_not_list(role: str | None, host: str, answers: bool, word: str) -> None:
    """The controller and login nodes run no slurmd: https://slurm.schedmd.com/slurmd.html."""
    snapshot: Any = SimpleNamespace(
        group=lambda name: None if role is None else SimpleNamespace(role=role), slurm=object() if answers else None
    )
    instance: Any = SimpleNamespace(group="workers", host=host)
    assert slurm_nodes._not_in_slurm(snapshot, instance) == word


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("python train.py --storage /fsx/runs --name first", "/fsx/runs/first"),
        ("python train.py --storage /fsx/runs/ --name first", "/fsx/runs/first"),
        ("python train.py --storage /fsx/runs", ""),
        ("python train.py --name first", ""),
        ("python train.py", ""),
    ],
)
def test_the_folder_of_a_run_is_known_where_its_command_names_both_parts(command: str, folder: str) -> None:
    """https://docs.ray.io/en/latest/cluster/running-applications/job-submission/api.html (JobDetails)."""
    answer = {"submission_id": "raysubmit_1", "status": "RUNNING", "entrypoint": command}
    run = runs._run(answer)
    assert (run.folder, run.command, run.state, run.id) == (folder, command, "RUNNING", "raysubmit_1")
    named = runs._run({**answer, "metadata": {"run": "other", "run_folder": "s3://b/other", "command": "x"}})
    assert (named.folder, named.command) == ("s3://b/other", "x")


def test_a_group_as_describe_cluster_has_it() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupDetails.html."""
    plan = SimpleNamespace(
        known=lambda name: name == "ml.m5.large",
        type_spec=lambda name: SimpleNamespace(accelerators=0),
        role=lambda n: "",
        groups=[
            SimpleNamespace(name="w", image_id="ami-0123456789abcdef0"),
            SimpleNamespace(name="head", image_id=None),
        ],
    )
    patch = datetime(2026, 12, 1, tzinfo=UTC)
    group = hyperpod._group(
        SimpleNamespace(plan=plan),  # type: ignore[arg-type]
        {
            "InstanceGroupName": "head", "InstanceType": "ml.m5.large", "CurrentCount": 2, "TargetCount": 3,
            "Status": "Updating", "TrainingPlanArn": "arn:plan", "ImageVersionStatus": "UpdateAvailable",
            "CurrentImageReleaseVersion": "1.0.0", "DesiredImageReleaseVersion": "1.1.0",
            "SoftwareUpdateStatus": "Pending", "SlurmConfig": {"NodeType": "Login"},
            "AutoPatchConfig": {"CurrentPatchSchedule": {"NextPatchDate": patch}},
        },
    )  # fmt: skip
    assert (group.name, group.type, group.current, group.target, group.status) == (
        "head",
        "ml.m5.large",
        2,
        3,
        "Updating",
    )
    assert (group.role, group.training_plan, group.accelerated) == ("Login", "arn:plan", False)
    assert (group.image_status, group.image_release, group.image_available) == ("UpdateAvailable", "1.0.0", "1.1.0")
    assert (group.update_status, group.next_patch) == ("Pending", patch)
    listed = {
        "InstanceGroupName": "w",
        "InstanceRequirements": {"DesiredInstanceTypes": ["ml.m5.large", "ml.new.large"]},
    }
    several = hyperpod._group(SimpleNamespace(plan=plan), listed)  # type: ignore[arg-type]
    assert several.type == "ml.m5.large or ml.new.large"
    assert several.accelerated, "an unknown type may be"
    assert (several.current, several.target, several.next_patch) == (0, 0, None)
    assert (group.own_image, several.own_image) == ("", "ami-0123456789abcdef0")


PEM = "-----BEGIN CERTIFICATE-----"


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        # https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#file-references
        ({"ca": "pki/ca.crt"}, "read /home/me/.kube/pki/ca.crt"),
        ({"ca": "/etc/ca.crt"}, "read /etc/ca.crt"),
        ({"ca": "~/ca.crt"}, "read /root-of-me/ca.crt"),
        ({"ca-data": base64.b64encode(PEM.encode()).decode(), "ca": "pki/ca.crt"}, PEM),
        ({}, ""),
    ],
    ids=str,
)
def test_a_certificate_of_a_kubeconfig(holder: Json, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/root-of-me")
    reader: Any = SimpleNamespace(_content=lambda path, name: f"read {path}")
    assert kubeconfig.Kubeconfig._text(reader, holder, "ca", Path("/home/me/.kube")) == text
    with pytest.raises(kubeconfig.KubeconfigError):
        kubeconfig.Kubeconfig._text(reader, {"ca-data": "no base64"}, "ca", Path())


def pod(name: str, **more: Any) -> Any:
    usual = {"cluster": "ray", "namespace": "ray", "role": "worker", "node": "a", "ready": True, "deleting_since": None}
    return SimpleNamespace(name=name, **(usual | more))


HEAD = pod("head", role="head")
COMPLETE: dict[str, tuple[list[Any], bool]] = {
    "head and both workers": ([HEAD, pod("w1"), pod("w2")], True),
    "a worker of another cluster": ([HEAD, pod("w1"), pod("w2", cluster="other")], False),
    "a worker of another namespace": ([HEAD, pod("w1"), pod("w2", namespace="other")], False),
    "a worker that is not ready": ([HEAD, pod("w1"), pod("w2", ready=False)], False),
    "a worker that goes": ([HEAD, pod("w1"), pod("w2", deleting_since=NOW)], False),
    "a worker on a silent node": ([HEAD, pod("w1"), pod("w2", node="silent")], False),
    "no head": ([pod("w1"), pod("w2"), pod("w3")], False),
    "one worker more": ([HEAD, pod("w1"), pod("w2"), pod("w3")], True),
}


@pytest.mark.parametrize("name", COMPLETE)
def test_whether_ray_has_all_its_pods_on_nodes_that_answer(name: str) -> None:
    pods, complete = COMPLETE[name]
    cluster = SimpleNamespace(name="ray", namespace="ray", desired_workers=2)
    snapshot: Any = SimpleNamespace(ray_clusters=[cluster], pods=pods, answers=lambda node: node != "silent")
    assert finding._complete(snapshot) is complete


@pytest.mark.parametrize(
    ("minutes", "kind"),
    [(0, "recovering"), (4.9, "recovering"), (5, "action-required"), (60, "action-required"), (None, "recovering")],
)
def test_a_silent_node_is_waited_for_as_long_as_kubernetes_waits(minutes: float | None, kind: str) -> None:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions (300 s)."""
    since = None if minutes is None else NOW - timedelta(minutes=minutes)
    snapshot: Any = SimpleNamespace(at=NOW, pods=[], ray_clusters=[], environment="prod")
    said = nodes._silent(snapshot, SimpleNamespace(name="n", since=since), SimpleNamespace(id="i-1"))  # type: ignore[arg-type]
    assert said.kind == kind
    assert said.subject == "i-1"
    if kind == "recovering":
        assert said.expected_by == (since or NOW) + timedelta(minutes=5)
    else:
        assert said.next == "hyperpod-ray nodes reboot prod i-1, or hyperpod-ray nodes free prod i-1"


@pytest.mark.parametrize(
    ("pods", "state", "why"),
    [
        (("driver other ray", "w1 ray ray"), "ready", "RayCluster 'ray' says ready, but w1 is on it"),
        (("w1 ray ray",), "unready", ""),
        (("driver other ray",), "ready", ""),
        (("w1 ray team",), "ready", ""),  # of the same name, in another namespace
    ],
)
def test_a_cluster_that_says_ready_is_named_with_its_own_pod(pods: tuple[str, ...], state: str, why: str) -> None:
    listed = [
        SimpleNamespace(name=name, cluster=cluster, namespace=namespace, node="n")
        for name, cluster, namespace in map(str.split, pods)
    ]
    clusters = [SimpleNamespace(name="ray", namespace="ray", state=state)]
    snapshot: Any = SimpleNamespace(at=NOW, pods=listed, ray_clusters=clusters, environment="prod")
    said = nodes._silent(snapshot, SimpleNamespace(name="n", since=NOW), SimpleNamespace(id="i-1"))  # type: ignore[arg-type]
    assert said.why == why


def event(minutes: int, level: str, failure: str) -> Any:
    return SimpleNamespace(
        time=NOW - timedelta(minutes=minutes), level=level, failure=failure, instance="i-1", resource=""
    )


@pytest.mark.parametrize(
    ("events", "minutes", "why"),
    [
        ((event(9, "Error", "XID 79"), event(1, "Info", "rebooting")), 9, "XID 79"),
        ((event(9, "Error", "XID 79"), event(4, "Error", "XID 94")), 4, "XID 94"),
        ((event(3, "Info", "unhealthy"),), 3, "unhealthy"),
    ],
    ids=["the error, not what came later", "the newest error", "where there is no error"],
)
def test_since_when_and_why_a_node_is_faulty(events: tuple[Any, ...], minutes: int, why: str) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterEventSummary.html (EventLevel)."""
    snapshot: Any = SimpleNamespace(
        group=lambda name: SimpleNamespace(accelerated=False), events=events, environment="prod", at=NOW, pods=[],
        nodes=[], ray_clusters=[], node_of=lambda instance: None, cluster=None,
    )  # fmt: skip
    instance: Any = SimpleNamespace(id="i-1", group="head", message="")
    said = nodes._faulty(snapshot, instance)
    assert (said.since, said.why) == (NOW - timedelta(minutes=minutes), why)


@pytest.mark.parametrize(
    ("resumed", "step", "seconds", "again"),
    [(None, None, None, 0), (130.0, 40, 30.0, 10), (130.0, 50, 30.0, 0), (130.0, 60, 30.0, 0)],
)
def test_what_an_interruption_cost(resumed: float | None, step: int | None, seconds: float | None, again: int) -> None:
    stop = Interruption(stopped_t=100.0, resumed_t=resumed, stopped_step=50, resumed_step=step, source="", cause="")
    assert (stop.seconds, stop.again) == (seconds, again)


def test_the_session_manager_plugin_is_called_as_the_aws_cli_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """https://github.com/aws/aws-cli (`awscli/customizations/sessionmanager.py`): the response is in a variable."""
    calls: list[tuple[list[str], Json]] = []

    def popen(arguments: list[str], **more: Any) -> None:
        calls.append((arguments, more))
        raise StopIteration

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    client = SimpleNamespace(meta=SimpleNamespace(endpoint_url="https://ssm.us-west-2.amazonaws.com"))
    made: Any = SimpleNamespace(
        _plugin="/bin/plugin", _region="us-west-2", _aws=SimpleNamespace(client=lambda name: client),
        _parameters=lambda node: {"Target": node},
    )  # fmt: skip
    answer = {"SessionId": "s", "TokenValue": "t", "StreamUrl": "wss://x", "ResponseMetadata": {}}
    with pytest.raises(StopIteration):
        tunnel.Tunnel._run(made, "sagemaker-cluster:a_b-i-1", answer)
    ((arguments, more),) = calls
    variable = arguments[1]
    assert arguments[2:4] == ["us-west-2", "StartSession"]
    assert arguments[4:] == ["mine", '{"Target": "sagemaker-cluster:a_b-i-1"}', "https://ssm.us-west-2.amazonaws.com"]
    assert more["env"][variable] == '{"SessionId": "s", "TokenValue": "t", "StreamUrl": "wss://x"}'
    assert more["env"]["HTTPS_PROXY"] == "http://proxy:3128"
    assert variable not in os.environ


@pytest.mark.parametrize(("cuda", "backend"), [(True, "cpu:gloo,cuda:nccl"), (False, "gloo")])
def test_processes_meet_over_nccl_where_they_have_gpus(
    cuda: bool, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group."""
    calls: list[tuple[str, Json]] = []
    distributed = ModuleType("torch.distributed")
    distributed.init_process_group = lambda name, **more: calls.append((name, more))  # type: ignore[attr-defined]
    package = ModuleType("torch")
    package.distributed = distributed  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", package)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    options = argparse.Namespace(master="10.0.0.1:29500", node=2, ranks=8, local=3, nodes=4, patience=90)
    node_probe.Rank.join(SimpleNamespace(options=options, cuda=cuda))  # type: ignore[arg-type]
    ((name, more),) = calls
    assert name == backend
    assert (more["init_method"], more["rank"], more["world_size"]) == ("tcp://10.0.0.1:29500", 19, 32)
    assert more["timeout"] == timedelta(seconds=90)


def row(number: int, **more: Any) -> node_rows.Row:
    usual: Json = {
        "id": f"i-{number:03}", "group": "w", "type": "ml.p5.48xlarge", "status": "Running", "kubernetes": "Ready",
        "health": "Schedulable", "fault": "", "launched": NOW - timedelta(days=number), "replacements": 1, "pods": (),
    }  # fmt: skip
    return node_rows.Row(**(usual | more))


def test_nodes_that_are_well_are_one_line_and_of_one_trouble_the_first_have_lines_of_their_own() -> None:
    few = [row(number) for number in range(node_rows.FOLDED)]
    assert node_rows.folded(few) == few
    good = [row(number) for number in range(70)]
    bad = [row(100 + number, status="Failure", fault="XID 79") for number in range(node_rows.NAMED + 2)]
    alone = row(200, group="head")
    lines = node_rows.folded([*good, *bad, alone])
    assert [line.id for line in lines] == [
        "70 nodes", *(f"i-{100 + number}" for number in range(node_rows.NAMED)), "2 more nodes", "i-200",
    ]  # fmt: skip
    assert lines[0].launched == NOW - timedelta(days=69), "the age of the oldest"
    assert lines[0].replacements == 70
    assert sum(line.replacements for line in lines) == 70 + len(bad) + 1


def kubernetes_node(number: int, *, network: str, ready: bool) -> Any:
    return SimpleNamespace(name=f"hyperpod-i-{number:017x}", network=("top", network), ready=ready, since=NOW)


@pytest.mark.parametrize(
    ("bad_here", "bad_elsewhere", "said"),
    [
        (4, 0, True),  # half of the rack, and nothing elsewhere
        (3, 0, False),  # fewer than half
        (8, 8, False),  # the whole cluster
        (8, 2, True),  # 100 % here, 2 of 8 elsewhere: four times as many
        (8, 3, False),
        (0, 0, False),
    ],
)
def test_a_rack_is_named_where_half_of_it_is_in_trouble_and_far_more_than_elsewhere(
    bad_here: int, bad_elsewhere: int, said: bool
) -> None:
    listed = [kubernetes_node(number, network="here", ready=number >= bad_here) for number in range(8)]
    listed += [kubernetes_node(100 + number, network="there", ready=number >= bad_elsewhere) for number in range(8)]
    snapshot: Any = SimpleNamespace(nodes=listed, instances=[], environment="prod", at=NOW)
    found = [one.subject for one in nodes.racks(snapshot)]
    assert ("here" in found) is said


def test_two_nodes_in_trouble_are_no_rack() -> None:
    listed = [kubernetes_node(number, network="here", ready=False) for number in range(2)]
    snapshot: Any = SimpleNamespace(nodes=listed, instances=[], environment="prod", at=NOW)
    assert list(nodes.racks(snapshot)) == []


@pytest.mark.parametrize(
    ("states", "written", "bandwidth", "total"),
    [
        (("good", "good"), (2.0, 3.0), 90.0, 5.0),
        (("good", "busy"), (2.0, None), None, 2.0),  # an exchange of one node with itself is no figure of the fabric
        (("busy", "busy"), (None, None), None, None),
    ],
)
def test_what_a_check_of_nodes_writes_down(
    states: tuple[str, ...], written: tuple[float | None, ...], bandwidth: float | None, total: float | None
) -> None:
    listed = [
        SimpleNamespace(name=f"n{number}", state=state, write_gb_s=gigabytes)
        for number, (state, gigabytes) in enumerate(zip(states, written, strict=True))
    ]
    report: Any = SimpleNamespace(nodes=listed, transport="efa", all_reduce_gb_s=90.0, findings=[])
    checked = acceptance.record(report, kind="ml.p5.48xlarge")
    assert (checked.all_reduce_gb_s, checked.write_gb_s, checked.transport) == (bandwidth, total, "efa")
    assert checked.nodes == {"n0": states[0], "n1": states[1]}


@pytest.mark.parametrize(
    ("status", "conditions", "why"),
    [
        # https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-states
        ({}, {"PodScheduled": {"status": "False", "reason": "Unschedulable", "message": "0/3"}}, ("Unschedulable", "0/3")),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, {}, ("", "")),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}]}, {}, ("", "")),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "m"}}}]}, {}, ("ImagePullBackOff", "m")),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"reason": "OOMKilled"}}}]},
            {}, ("OOMKilled", ""),
        ),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "Error", "exitCode": 1}}}]}, {}, ("Error", "")),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}]}, {}, ("", "")),
        ({"initContainerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}], "reason": "x"}, {}, ("ErrImagePull", "")),
        ({"reason": "Evicted", "message": "disk"}, {"PodScheduled": {"status": "True"}}, ("Evicted", "disk")),
    ],
    ids=str,
)  # fmt: skip
def test_why_a_pod_does_not_run(status: Json, conditions: Json, why: tuple[str, str]) -> None:
    assert ray_pods._why_not(status, conditions) == why
