"""Teardown with a file system that a claim made: killed half-way, stuck, and with nobody left to delete it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.ops.world import ROOT, World, environment_text

pytestmark = [pytest.mark.emulator, pytest.mark.slow]


@pytest.fixture
def dynamic(start_world: object) -> Iterator[World]:
    """An environment whose file system was made by its claim. Its stacks are small: they are not the matter."""
    made: World = start_world(seconds_per_state=1.0)  # type: ignore[operator]
    made.write(environment_text(mode="dynamic"))
    made.create()
    made.install()
    made.until(
        lambda: [f for f in file_systems(made) if f["Lifecycle"] == "AVAILABLE"] != [], "the claim's file system"
    )
    yield made
    made.stop()


def file_systems(world: World) -> list[dict]:  # type: ignore[type-arg]
    return list(world.client("fsx").describe_file_systems()["FileSystems"])


def stacks(world: World) -> list[str]:
    found = world.client("cloudformation").describe_stacks()["Stacks"]
    return sorted(s["StackName"] for s in found if s["StackStatus"] != "DELETE_COMPLETE")


def small_app(world: World) -> str:
    """An assembly with the environment's stacks, as a deploy of it would have left them: empty but for a marker."""
    from aws_cdk import App, CliCredentialsStackSynthesizer, Environment, Stack, Stage, aws_ssm

    from hyperpod_ray.core.plan_names import stack_names

    out = world.state / "cdk.out"
    app = App(outdir=str(out), builtin_cloud_formation_validation=False)
    stage = Stage(app, world.name, env=Environment(account=world.running.account, region=world.running.region))
    for name in stack_names(world.plan):
        # this account is not bootstrapped: it has no execution role
        credentials = CliCredentialsStackSynthesizer()
        stack = Stack(stage, name.removeprefix(f"{world.name}-"), synthesizer=credentials)
        aws_ssm.StringParameter(stack, "Marker", string_value="x")
    app.synth()
    return str(out)


def test_killed_half_way_and_started_again_it_leaves_nothing(dynamic: World) -> None:
    app = small_app(dynamic)
    shown = dynamic.ops("teardown", "demo", "--dry-run", "-o", "json").json
    assert ("file system", "blocks") in {(item["kind"], item["fate"]) for item in shown["items"]}
    # FSx does not get on with it: teardown waits, and has destroyed nothing else
    dynamic.running.client.set_fault(operation="fsx.DeleteFileSystem", effect="stuck", count=1)
    command = [sys.executable, "-m", "hyperpod_ray.cli", "teardown", "demo", "--yes", "--poll", "0.5", "--app", app]
    process = subprocess.Popen(
        command, env=dynamic.environ(), cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if "waiting for file systems of claims" in line and "DELETING" in line:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert any("deleting RayCluster ray/ray" in line for line in told), told
    assert len(stacks(dynamic)) == 6
    assert [f["Lifecycle"] for f in file_systems(dynamic)] == ["DELETING"]
    # FSx gets on; the second run goes on where the first was killed
    dynamic.running.client.clear_faults()
    again = dynamic.ops("teardown", "demo", "--yes", "--poll", "0.5", "--app", app)
    assert again.code == 0, again.err
    assert "nothing is left" in again.err
    assert (stacks(dynamic), file_systems(dynamic)) == ([], [])
    # and a third has nothing to do
    third = dynamic.ops("teardown", "demo", "--yes")
    assert (third.code, "nothing of 'demo' is left" in third.err) == (0, True), third.err


def test_an_orphan_of_a_careless_destroy_is_deleted_directly(dynamic: World) -> None:
    """The driver went before the claim's file system: nobody in Kubernetes will ever delete it."""
    dynamic.client("eks").delete_addon(clusterName=dynamic.plan.eks_cluster_name, addonName="aws-fsx-csi-driver")
    result = dynamic.ops("teardown", "demo", "--yes", "--poll", "0.5", "--app", small_app(dynamic))
    assert result.code == 0, result.err
    assert "has lost its claim and its driver: deleting it directly" in result.err
    assert (stacks(dynamic), file_systems(dynamic)) == ([], [])


def test_without_kubernetes_it_refuses_rather_than_orphaning(dynamic: World) -> None:
    dynamic.request(
        "POST", "/rehearsal/faults", {"kind": "error", "verb": "*", "resource": "*", "status": 503, "message": "away"}
    )
    result = dynamic.ops("teardown", "demo", "--yes", "--app", small_app(dynamic))
    assert result.code == 1
    assert "would be orphaned" in result.err
    assert len(stacks(dynamic)) == 6
    assert [f["Lifecycle"] for f in file_systems(dynamic)] == ["AVAILABLE"]
