"""The whole life with storage made by a claim: deployed, a node lost and found, a careless destroy, nothing left."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from environments.loader import FOLDER
from tests.local.story import Story, synthesized
from tests.support.emulator import CDK, running, until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "local"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    root = tmp_path_factory.mktemp("story")
    settings = yaml.safe_load((FOLDER / f"{NAME}.yaml").read_text())
    settings["storage"] = {"mode": "dynamic", "on_destroy": "delete"}
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


def test_a_lost_node_is_told_and_recovers(story: Story) -> None:
    until(lambda: story.ops("status", NAME, allowed=(0, 3))["verdict"]["state"] == "Healthy")
    nodes = story.ops("nodes", NAME, "--group", "workers")["nodes"]
    lost = nodes[0]["id"]
    with story.emulator.control.time_held():
        story.emulator.control.fail_node(lost, "NVRM: Xid 74: NVLink error")
        seen = until(
            lambda: (status := story.ops("status", NAME, allowed=(0, 3)))["verdict"]["state"] != "Healthy" and status
        )
        assert seen["verdict"]["state"] == "Recovering"
        assert lost in json.dumps(seen["verdict"])
    until(lambda: story.ops("status", NAME, allowed=(0, 3))["verdict"]["state"] == "Healthy")
    events = story.ops("nodes", "events", NAME)
    assert "Xid 74" in json.dumps(events)
    assert lost not in [node["id"] for node in story.ops("nodes", NAME)["nodes"]]


def test_a_careless_destroy_waits_for_the_file_system_instead_of_orphaning_it(story: Story) -> None:
    control = story.emulator.control
    control.set_fault(operation="fsx.DeleteFileSystem", effect="stuck")
    command = [str(CDK), "destroy", f"{NAME}/*", "--force", "--app", str(story.assembly)]
    log = (story.environments.parent / "destroy.log").open("w")
    destroy = subprocess.Popen(
        command, cwd=story.environments.parent, env=story.emulator.environment(), stdout=log, stderr=log
    )
    try:
        # the claim is gone, FSx is not done: the guard holds, and the driver's stack stands
        until(lambda: [fs["Lifecycle"] for fs in story.file_systems()] == ["DELETING"], seconds=180)
        until(lambda: _waits(story), seconds=180)
        assert destroy.poll() is None
        assert story.stack(f"{NAME}-Ray") == "DELETE_IN_PROGRESS"
        assert story.stack(f"{NAME}-Platform").endswith("_COMPLETE")
        assert len(story.file_systems()) == 1
        control.clear_faults()
        assert destroy.wait(timeout=400) == 0, (story.environments.parent / "destroy.log").read_text()[-3000:]
    finally:
        control.clear_faults()
        if destroy.poll() is None:
            destroy.terminate()
            destroy.wait(timeout=60)
    assert story.file_systems() == []
    assert story.left() == []


def _waits(story: Story) -> bool:
    """The guard's waiter is under way."""
    machines = story.emulator.boto("stepfunctions")
    return any(
        machines.list_executions(stateMachineArn=machine["stateMachineArn"], statusFilter="RUNNING")["executions"]
        for machine in machines.list_state_machines()["stateMachines"]
    )
