"""`deploy` with the real cdk CLI: without a terminal and at one, beside another deploy, during a destroy, and failing.

One embedded AWS and one environment; the tests build on each other, in this order.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

from hyperpod_ray.ops.change.progress import COMPLETE
from tests.sandbox.story import Story, settings_in, synthesized
from tests.support.emulator import CDK, ROOT, running, until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "local"
REGION = "eu-central-1"  # other stories are in us-west-2 and us-east-1
POLL = "2"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    root = tmp_path_factory.mktemp("deploys")
    settings = settings_in(REGION)
    with running(root / "aws", account=settings["account"], region=settings["region"]) as emulator:
        story = synthesized(emulator, root, name=NAME, settings=settings)
        story.cdk("bootstrap", f"aws://{settings['account']}/{settings['region']}")
        yield story


@pytest.fixture(scope="module")
def fewer(story: Story, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An assembly with one worker less."""
    settings = yaml.safe_load((story.environments / f"{NAME}.yaml").read_text())
    settings["hyperpod"]["instance_groups"][1]["count"] = 1
    settings["ray"]["workers"][0]["replicas"] = 1
    return synthesized(story.emulator, tmp_path_factory.mktemp("fewer"), name=NAME, settings=settings).assembly


def test_a_first_deploy_without_stdin_and_a_second_one_meanwhile(story: Story) -> None:
    story.emulator.control.set_fault(operation="AWS::EKS::Cluster.create", delay_seconds=7200)
    first = _start(story, closed=True)
    until(lambda: "IN_PROGRESS" in story.stack(f"{NAME}-Eks") or first.poll() is not None)
    assert first.poll() is None, first.communicate()
    # not a pipe: it is read while the command runs
    log = story.environments.parent / "second.log"
    with log.open("w") as output:
        second = _start(story, stderr=output)
    until(lambda: "waiting for what is in progress" in log.read_text() or second.poll() is not None)
    story.emulator.control.clear_faults()
    review, said = first.communicate(timeout=1500)
    assert first.returncode == 0, review + said
    second.communicate(timeout=1500)
    said_by_second = log.read_text()
    assert second.returncode == 0, said_by_second
    assert _unfinished(story) == []
    # the review of a new environment, and the deploy's own account of it
    assert "Usually" in review and "environment local: new" in review
    assert " left: " in said and "(usually " in said
    assert said.rstrip().endswith(f"wait {NAME} --for healthy")
    assert "waiting for what is in progress" in said_by_second


def test_a_change_that_loses_nodes_is_stopped_before_anything_is_touched(story: Story, fewer: Path) -> None:
    before = _history(story)
    for accepted in ([], ["--accept", "interrupts"]):
        stopped = _start(story, "--app", str(fewer), *accepted)
        review, said = stopped.communicate(timeout=1500)
        assert stopped.returncode == 3, review + said
        assert "loses nodes" in review
        assert "Nothing was changed" in said
        next_command = said.strip().splitlines()[-1]
        assert f"deploy {NAME} --accept loses-nodes --app {fewer}" in next_command
    assert _history(story) == before


@pytest.mark.parametrize(("change", "code", "verdict"), [(False, 0, "no change"), (True, 3, "loses nodes")])
def test_a_review_against_what_is_deployed(story: Story, fewer: Path, change: bool, code: int, verdict: str) -> None:
    before = _history(story)
    head = fewer if change else story.assembly
    command = [
        sys.executable,
        "-m",
        "hyperpod_ray.cli",
        "--environments",
        str(story.environments),
        "review",
        NAME,
        "--deployed",
    ]
    done = subprocess.run(
        [*command, "--head-assembly", str(head), "--fail-on", "loses-nodes"], cwd=ROOT, check=False, text=True,
        env=story.emulator.environment(), capture_output=True, timeout=1500,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert verdict in done.stdout
    assert _history(story) == before, "a review is read-only"


def test_a_failing_resource_speaks_for_itself_and_the_old_state_can_be_deployed_again(
    story: Story, fewer: Path
) -> None:
    story.emulator.control.set_fault(
        operation="AWS::SageMaker::Cluster.update", code="ResourceLimitExceeded", message="no such quota"
    )
    failing = _start(story, "--accept", "loses-nodes", "--app", str(fewer))
    _, said = failing.communicate(timeout=1500)
    story.emulator.control.clear_faults()
    assert failing.returncode == 1, said
    error, following = said.strip().splitlines()[-2:]
    assert error.startswith(f"error: {NAME}-HyperPod is UPDATE_ROLLBACK_COMPLETE: ")
    assert "AWS::SageMaker::Cluster" in error and "no such quota" in error
    assert following.startswith("Fix: correct the reason, then hyperpod-ray ")
    again = _start(story)
    assert again.wait(timeout=1500) == 0, again.communicate()


def test_ctrl_c_at_a_teardown_says_what_continues(story: Story) -> None:
    story.emulator.control.set_fault(operation="Custom::AWSCDK-EKS-KubernetesResource.delete", delay_seconds=7200)
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
    teardown = subprocess.Popen(
        [*command, "--app", str(story.assembly), "--poll", "0.5"],
        cwd=ROOT, env=story.emulator.environment(), stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until(lambda: story.stack(f"{NAME}-Ray") == "DELETE_IN_PROGRESS" or teardown.poll() is not None)
    # as a terminal does it: the whole process group gets the signal
    os.killpg(teardown.pid, signal.SIGINT)
    _, said = teardown.communicate(timeout=1500)
    assert teardown.returncode == 130, said
    error, following = said.strip().splitlines()[-2:]
    assert "interrupted: " in error and "nothing else is deleted" in error
    assert following.endswith(f"teardown {NAME}")
    assert story.stack(f"{NAME}-Ray") == "DELETE_IN_PROGRESS"
    story.emulator.control.clear_faults()
    until(lambda: story.stack(f"{NAME}-Ray") == "")
    assert story.stack(f"{NAME}-Platform").endswith("_COMPLETE")


def test_a_first_deploy_at_a_terminal_that_begins_during_a_destroy(story: Story) -> None:
    story.emulator.control.set_fault(operation="AWS::SageMaker::Cluster.delete", delay_seconds=7200)
    # not a pipe: nobody reads it meanwhile, and a full one stops the CLI
    log = story.environments.parent / "destroy.log"
    destroy = subprocess.Popen(
        [str(CDK), "destroy", f"{NAME}/*", "--force", "--app", str(story.assembly)],
        cwd=story.environments.parent, env=story.emulator.environment(), stdout=log.open("w"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    until(lambda: story.stack(f"{NAME}-Platform") == "DELETE_IN_PROGRESS" or destroy.poll() is not None)
    ended, said = _at_a_terminal(
        _command(story), story, once="waiting for what is in progress: ", do=story.emulator.control.clear_faults
    )
    assert destroy.wait(timeout=1500) == 0, log.read_text()[-3000:]
    assert ended == 0, said
    assert "waiting for what is in progress: " in said
    assert "environment local: new" in said, "everything was gone before it began"
    assert _unfinished(story) == []


# --- one deploy ------------------------------------------------------------------------------------------------------


def _command(story: Story, *arguments: str) -> list[str]:
    options = [*arguments] if "--app" in arguments else [*arguments, "--app", str(story.assembly)]
    command = [sys.executable, "-m", "hyperpod_ray.cli", "--environments", str(story.environments), "deploy", NAME]
    return [*command, *options, "--poll", POLL]


def _start(
    story: Story, *arguments: str, closed: bool = False, stderr: IO[str] | int = subprocess.PIPE
) -> subprocess.Popen[str]:
    command = _command(story, *arguments)
    if closed:
        command = ["bash", "-c", 'exec "$@" <&-', "deploy", *command]
    return subprocess.Popen(
        command, cwd=ROOT, env=story.emulator.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=stderr, text=True,
    )  # fmt: skip


def _at_a_terminal(command: list[str], story: Story, *, once: str, do: Callable[[], object]) -> tuple[int, str]:
    """Run a command on a terminal of its own; nobody types an answer. Something is done once it has said a text."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, cwd=ROOT, env=story.emulator.environment(), stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    parts: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            parts.append(part)

    def said() -> str:
        return b"".join(parts).decode(errors="replace")

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: once in said() or process.poll() is not None)
    do()
    ended = process.wait(timeout=1500)
    reader.join(timeout=1500)
    os.close(ours)
    return ended, said()


def _unfinished(story: Story) -> list[str]:
    stacks: list[Any] = story.emulator.boto("cloudformation").list_stacks()["StackSummaries"]
    found = {s["StackName"]: s["StackStatus"] for s in stacks if s["StackStatus"] != "DELETE_COMPLETE"}
    assert len(found) > 5
    return [f"{name} {status}" for name, status in found.items() if status not in COMPLETE]


def _history(story: Story) -> str:
    """Every event of every stack, and every change set: what a deploy that touches anything adds to."""
    cloudformation = story.emulator.boto("cloudformation")
    seen: dict[str, Any] = {}
    for stack in cloudformation.list_stacks()["StackSummaries"]:
        if stack["StackStatus"] != "DELETE_COMPLETE":
            name = stack["StackName"]
            events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
            sets = cloudformation.list_change_sets(StackName=name)["Summaries"]
            seen[name] = [len(events), stack["StackStatus"], sorted(one["ChangeSetName"] for one in sets)]
    return json.dumps(seen, sort_keys=True)
