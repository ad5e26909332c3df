"""The whole life with storage made by a claim: deployed, a node lost and found, a careless destroy, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import boto3
import botocore.exceptions
import pytest
import yaml

from hyperpod_ray.cli.main import main
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.names import OPERATOR_NAMESPACE
from tests.sandbox.story import Story, synthesized
from tests.support import kubectl
from tests.support.emulator import CDK, ROOT, running, until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "local"
BUCKET = "runs-of-ours"
FIRST, FALLBACK = "ml.g5.8xlarge", "ml.g5.16xlarge"
"""Types of the workers."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    root = tmp_path_factory.mktemp("story")
    settings = yaml.safe_load((FOLDER / f"{NAME}.yaml").read_text())
    settings["storage"] = {"mode": "dynamic", "on_destroy": "delete"}
    (workers,) = (group for group in settings["hyperpod"]["instance_groups"] if group["name"] == "workers")
    workers["fallback_types"] = [FALLBACK]
    settings["ray"]["access"] = {"s3": [{"bucket": BUCKET, "mode": "write"}]}
    with running(root / "aws", account=settings["account"], region=settings["region"]) as emulator:
        story = synthesized(emulator, root, name=NAME, settings=settings)
        story.cdk("bootstrap", f"aws://{settings['account']}/{settings['region']}")
        story.cdk("deploy", f"{NAME}/*", "--require-approval", "never", "--concurrency", "3")
        yield story


def test_the_claim_made_a_file_system_that_says_whose_it_is(story: Story) -> None:
    (made,) = story.file_systems()
    tags = {tag["Key"]: tag["Value"] for tag in made["Tags"]}
    assert tags["hyperpod-ray:environment"] == NAME
    assert tags["CSIVolumeName"]
    assert made["StorageCapacity"] == 1200
    # the Job that is root mounts it in a namespace of its own
    path = "jsonpath={range .items[*]}{.spec.claimRef.namespace} {.spec.csi.volumeHandle} {.status.phase},{end}"
    volumes = _kubectl(story, "get", "persistentvolumes", "-o", path).strip(",").split(",")
    assert sorted(volumes) == [f"{space} {made['FileSystemId']} Bound" for space in ("ray", "ray-storage")]
    owners = "jsonpath={.items[?(@.spec.template.metadata.labels.app=='volume-owner')].metadata.namespace}"
    assert _kubectl(story, "get", "jobs", "-A", "-o", owners) == "ray-storage"


@pytest.fixture
def buckets(story: Story) -> Iterator[tuple[str, str]]:
    """The bucket of `ray.access` and another; both go with the test, so that the last one finds nothing of it."""
    s3, both = story.emulator.boto("s3"), (BUCKET, "of-others")
    for bucket in both:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": story.emulator.running.region})
    yield both
    for bucket in both:
        for content in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
            s3.delete_object(Bucket=bucket, Key=content["Key"])
        s3.delete_bucket(Bucket=bucket)


def test_a_ray_pod_calls_s3_with_its_own_role_and_gets_no_further(
    story: Story, buckets: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Association, agent, nodes' role, network and trust, as the product deploys them; then IAM at each call."""
    own, others = buckets
    where = ["--state", str(story.environments.parent / "aws")]
    name = _pod(story, namespace="ray", labels="ray.io/node-type=head")
    command = [sys.executable, "-m", "hyperpod_ray.cli", "local", "env", *where, "--pod", f"ray/{name}"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    lines = [line.removeprefix("export ") for line in printed.stdout.splitlines() if line.startswith("export ")]
    given = dict(line.partition("=")[::2] for line in lines)
    as_pod = boto3.client(
        "s3", endpoint_url=given["AWS_ENDPOINT_URL"], region_name=given["AWS_REGION"],
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"], aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=given["AWS_SESSION_TOKEN"],
    )  # fmt: skip
    as_pod.put_object(Bucket=own, Key="first/step-1", Body=b"x")
    assert as_pod.get_object(Bucket=own, Key="first/step-1")["Body"].read() == b"x"
    with pytest.raises(botocore.exceptions.ClientError, match="AccessDenied"):
        as_pod.put_object(Bucket=others, Key="first/step-1", Body=b"x")
    # the association is of one namespace and one service account: the operator's pod, on a node of the same role, and a
    # pod that is not there get none
    operator = _pod(story, namespace=OPERATOR_NAMESPACE, labels="app.kubernetes.io/name=kuberay-operator")
    assert main([*command[3:-1], f"{OPERATOR_NAMESPACE}/{operator}"]) == 1
    assert (
        f"No Pod Identity association for service account kuberay-operator in namespace {OPERATOR_NAMESPACE}"
        in capsys.readouterr().err
    )
    for missing in ("none", "none at all"):
        assert main([*command[3:-1], f"kube-system/{missing}"]) == 1
        assert capsys.readouterr().err == (
            f'error: pods "{missing}" not found. Expected a pod that the Kubernetes API has\n'
            "Fix: kubectl get pods -A lists them\n"
        )


def test_a_lost_node_is_told_and_recovers(story: Story) -> None:
    until(lambda: story.ops("status", NAME, allowed=(0, 3))["verdict"]["state"] == "Healthy")
    nodes = story.ops("nodes", NAME, "--group", "workers")["nodes"]
    lost = nodes[0]["id"]
    with story.emulator.control.time_held():
        story.emulator.control.fail_node(lost, "NVRM: Xid 74: NVLink error")
        # Kubernetes may lose the node a moment later than HyperPod
        until(lambda: (found := story.ops("status", NAME, allowed=(0, 3))["verdict"])["state"] == "Recovering"
              and lost in json.dumps(found))  # fmt: skip
    until(lambda: story.ops("status", NAME, allowed=(0, 3))["verdict"]["state"] == "Healthy")
    events = story.ops("nodes", "events", NAME)
    assert "Xid 74" in json.dumps(events)
    assert lost not in [node["id"] for node in story.ops("nodes", NAME)["nodes"]]


def _workers(story: Story) -> dict[str, str]:
    """Type of each worker node, by its id."""
    return {node["id"]: node["type"] for node in story.ops("nodes", NAME, "--group", "workers")["nodes"]}


def test_a_node_comes_back_as_another_type_where_the_first_has_no_capacity(story: Story) -> None:
    assert set(_workers(story).values()) == {FIRST}
    control = story.emulator.control
    control.set_fault(operation=f"hyperpod.{FIRST}", effect="no-capacity", count=-1)
    lost = min(_workers(story))
    control.fail_node(lost, "NVRM: Xid 79: GPU has fallen off the bus")
    until(lambda: lost not in _workers(story) and len(_workers(story)) == 2)
    control.clear_faults()
    assert sorted(_workers(story).values()) == [FALLBACK, FIRST]
    until(lambda: story.ops("status", NAME, allowed=(0, 3))["verdict"]["state"] == "Healthy")
    (fallback,) = (node for node, kind in _workers(story).items() if kind == FALLBACK)
    assert story.ops("nodes", "show", NAME, fallback)["hyperpod"]["InstanceType"] == FALLBACK
    label = r"jsonpath={.metadata.labels.node\.kubernetes\.io/instance-type}"
    assert _kubectl(story, "get", "node", f"hyperpod-{fallback}", "-o", label) == FALLBACK


def test_a_node_is_removed_for_good_and_training_waits_for_room(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By BatchDeleteClusterNodes: the group asks for one node fewer, and the pod of Ray that was there has no place."""
    for name, value in story.emulator.environment().items():
        monkeypatch.setenv(name, value)
    leaving = min(_workers(story))
    command = ["--environments", str(story.environments), "nodes", "remove", NAME, leaving, "--yes"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{leaving}\n"
    assert "no instance comes in its place; a run with a worker there resumes from its last checkpoint" in printed.err
    assert "group 'workers' asks for 1 node then, and the file says 2: set its count to 1" in printed.err
    until(lambda: len(_workers(story)) == 1 and leaving not in _workers(story))
    groups = story.emulator.boto("sagemaker").describe_cluster(ClusterName="ray-local")["InstanceGroups"]
    assert {group["InstanceGroupName"]: group["TargetCount"] for group in groups}["workers"] == 1
    pending = "jsonpath={.items[?(@.status.phase=='Pending')].metadata.name}"
    until(lambda: _kubectl(story, "get", "pods", "-n", "ray", "-l", "ray.io/node-type=worker", "-o", pending))
    verdict = story.ops("status", NAME, allowed=(0, 3))["verdict"]
    assert verdict["state"] != "Healthy", "one of two workers of the RayCluster waits for a node"
    # the file's count comes back by the service's own call, as a deploy that changes the cluster does
    added = [{"InstanceGroupName": "workers", "IncrementTargetCountBy": 1}]
    story.emulator.boto("sagemaker").batch_add_cluster_nodes(ClusterName="ray-local", NodesToAdd=added)
    until(lambda: story.ops("status", NAME, allowed=(0, 3))["verdict"]["state"] == "Healthy")
    assert len(_workers(story)) == 2


def test_a_careless_destroy_waits_for_the_file_system_instead_of_orphaning_it(story: Story) -> None:
    control = story.emulator.control
    control.set_fault(operation="fsx.DeleteFileSystem", effect="stuck")
    # the stack that a destroy of everything begins with; the others follow it only if it ends well
    command = [str(CDK), "destroy", f"{NAME}/Ray", "--force", "--app", str(story.assembly)]
    log = (story.environments.parent / "destroy.log").open("w")
    destroy = subprocess.Popen(
        command, cwd=story.environments.parent, env=story.emulator.environment(), stdout=log, stderr=log
    )
    try:
        # the claim is gone, FSx is not done: the guard holds, and the driver's stack stands
        until(lambda: [fs["Lifecycle"] for fs in story.file_systems()] == ["DELETING"])
        until(lambda: _asked(story))
        assert destroy.poll() is None
        assert story.stack(f"{NAME}-Ray") == "DELETE_IN_PROGRESS"
        assert story.stack(f"{NAME}-Platform").endswith("_COMPLETE")
        assert len(story.file_systems()) == 1
        control.clear_faults()
        assert destroy.wait(timeout=1500) == 0, (story.environments.parent / "destroy.log").read_text()[-3000:]
    finally:
        control.clear_faults()
        if destroy.poll() is None:
            destroy.terminate()
            destroy.wait(timeout=1500)
    assert story.file_systems() == []


def test_teardown_killed_twice_and_started_again_leaves_nothing(story: Story) -> None:
    story.cdk("deploy", f"{NAME}/Ray", "--exclusively", "--require-approval", "never")
    until(lambda: [fs["Lifecycle"] for fs in story.file_systems()] == ["AVAILABLE"])
    control = story.emulator.control
    control.set_fault(operation="fsx.DeleteFileSystem", effect="stuck")
    try:
        _killed_when(story, "waiting for file systems of claims")
    finally:
        control.clear_faults()
    assert story.stack(f"{NAME}-Ray"), "nothing is destroyed before the claims' file systems are gone"
    _killed_when(story, f"{NAME}-Ray")  # cdk destroy is at work, and goes on for a while without its parent
    process, told = _teardown(story)
    everything = told.read()
    assert process.wait() == 0, everything
    assert f"'{NAME}' is down; nothing is left" in everything
    assert story.file_systems() == []
    assert story.left() == []


def _pod(story: Story, *, namespace: str, labels: str) -> str:
    """A pod with these labels, when it runs: one that waits for a node has no identity."""
    shown = "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}"
    return str(
        until(lambda: _kubectl(story, "get", "pods", "-n", namespace, "-l", labels, "-o", shown).partition(" ")[0])
    )


def _kubectl(story: Story, *arguments: str) -> str:
    seen = story.emulator.running
    environment = {"HOME": seen.home, "PATH": os.environ["PATH"], "KUBECONFIG": seen.kubeconfig}
    return kubectl.output(*arguments, environment=environment).strip()


def _teardown(story: Story) -> tuple[subprocess.Popen[str], IO[str]]:
    command = [
        sys.executable,
        "-m",
        "hyperpod_ray.cli",
        "--environments",
        str(story.environments),
        "teardown",
        NAME,
        "--yes",
    ]
    process = subprocess.Popen(
        [*command, "--poll", "0.5", "--app", str(story.assembly)],
        cwd=ROOT,
        env=story.emulator.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    return process, process.stderr


def _killed_when(story: Story, said: str) -> None:
    """Start a teardown and kill it as soon as it has said something."""
    process, told = _teardown(story)
    lines = []
    for line in told:
        lines.append(line)
        if said in line:
            break
    process.kill()
    assert process.wait() == -signal.SIGKILL, f"it ended before it said {said!r}: {''.join(lines)}"


def _asked(story: Story) -> bool:
    """The guard's waiter asked, and heard that the file system is still there: the embedded AWS logs what it prints."""
    return "still there" in Path(story.emulator.running.log).read_text()
