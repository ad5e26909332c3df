"""The demo: the whole story on one machine, with the real cdk CLI and no AWS account.

Deploy, look, diff clean, scale by editing the environment file, diff, deploy, destroy, and prove by inventory that
nothing is left. Beside that, training loses a node and resumes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.ops.change.cdk import started
from hyperpod_ray_sandbox.aws import paths, process
from hyperpod_ray_sandbox.rehearsal.screen import Screen

ENVIRONMENT = "local"
PROJECT = paths.ROOT
WORK = PROJECT / ".local" / "demo"
LOG = PROJECT / ".local" / "demo.log"
"""What all commands of the demo print."""
TRAINING_LOG = PROJECT / ".local" / "demo-training.log"
"""What the training prints."""
CDK = PROJECT / "node_modules" / ".bin" / "cdk"
ASSEMBLY = WORK / "cdk.out"
SYNTHESIZED = ["--app", str(ASSEMBLY)]
"""Options of a command that takes the assembly as it is."""
UNASKED = ["--require-approval", "never", "--concurrency", "3"]


REPLACE_AFTER_S = 1800
"""Of a lost node, as on HyperPod: the second loss comes while there is no spare."""

START = "start the embedded AWS on loopback"
BOOTSTRAP = "cdk bootstrap"
DEPLOY = f'cdk deploy "{ENVIRONMENT}/*"'
DIFF = "cdk diff: nothing to change"
SCALE = "scale the workers by editing the environment file"
TRAIN = "beside these steps: train, lose a node, resume"
DESTROY = f'cdk destroy "{ENVIRONMENT}/*"'


class DemoError(ProjectError):
    """A step did not do what the story says; the message says which."""


def demo(*, rehearsal: bool = True, keep: bool = False) -> bool:
    """Run the whole story; whether every step did what it says and nothing is left.

    Args:
        rehearsal: Whether to run the training job that loses a node.
        keep: Whether the embedded AWS continues to run at the end.
    """
    steps = [START, BOOTSTRAP, DEPLOY, DIFF, SCALE, DESTROY, *([TRAIN] if rehearsal else [])]
    screen = Screen(LOG, steps=steps)
    state = WORK / "aws"
    running = None
    training = None
    problem: Exception | None = None
    with screen:
        try:
            if rehearsal:
                training = Training()
                screen.begin(TRAIN, log=TRAINING_LOG)
            with screen.step(START):
                running = _start(state)
                screen.fact("embedded AWS", f"{running.client.endpoint}, account {running.account}")
            _story(screen, Cdk(running), training)
        except (DemoError, process.StartError) as error:
            problem = error
        finally:
            if training is not None:
                training.stop()
            if running is not None and not keep:
                process.stop(running, state)
    if problem is not None:
        log = next((step.log for step in screen.steps if step.failed), None) or LOG
        sys.stderr.write("".join(f"  {line}\n" for line in screen.last_lines(log=log)))
        sys.stderr.write(f"demo: {problem}\nlog: {log}\n")
        return False
    sys.stdout.write(
        f"  {screen.seconds:6.1f} s in all. docs/embedded-aws.md says what this proves and what it cannot.\n"
    )
    return True


def _start(state: Path) -> process.Running:
    from hyperpod_ray import core  # the first synth reports its errors

    settings = core.load(ENVIRONMENT).settings
    process.clear(state)  # what an earlier demo kept, or left when it was killed
    shutil.rmtree(WORK, ignore_errors=True)
    # an environment file of its own to edit, so that the project's stays as it is
    shutil.copytree(PROJECT / "environments", WORK / "environments")
    return process.start(state=state, account=settings.account, region=settings.region)


class Cdk:
    """The real cdk CLI against the embedded AWS, with the demo's environment file."""

    def __init__(self, running: process.Running) -> None:
        self.running = running
        self._environment = {**os.environ, **running.client.environment()}
        self._environment["PATH"] = f"{PROJECT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # the CDK's own rules for templates take as long as the synth; the tests apply them to every template
        self._environment["CDK_VALIDATION"] = "false"

    @property
    def synthesizes(self) -> list[str]:
        """Options of a command that synthesizes first: once per change, the commands after it take the assembly."""
        context = [f"env={ENVIRONMENT}", f"environments={WORK / 'environments'}"]
        return ["--output", str(ASSEMBLY), *(word for value in context for word in ("-c", value))]

    def __call__(self, *arguments: str, expect: tuple[int, ...] = (0,), folder: Path = PROJECT) -> tuple[int, str]:
        """Run a command, its output streamed; DemoError when it exits otherwise than expected.

        Args:
            folder: Where it runs; a folder without cdk.json keeps the CLI from synthesizing the app first.
        """
        process_ = subprocess.Popen(
            [*started(CDK, "--require", str(paths.BEFORE_CDK)), *arguments],
            cwd=folder,
            env=self._environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        lines = []
        assert process_.stdout is not None  # noqa: S101  (narrowing only)
        for line in process_.stdout:
            sys.stdout.write(f"  {line}")
            sys.stdout.flush()
            lines.append(line)
        code = process_.wait()
        if code not in expect:
            raise DemoError(
                f"cdk {arguments[0]} failed: exit code {code}", expected="0", fix="see its messages in the log"
            )
        return code, "".join(lines)


PATIENCE_S = 900
"""The longest wait for a step: at a load of 18 on two cores, four nodes of Ray took more than the usual 240 s."""


class Training:
    """The rehearsal of a training job: a node lost with a spare, a process lost without one, resumed.

    It needs nothing of the embedded AWS, so it runs beside the other steps.
    """

    def __init__(self) -> None:
        self.out = PROJECT / ".local" / "rehearsal"
        shutil.rmtree(self.out, ignore_errors=True)
        TRAINING_LOG.parent.mkdir(parents=True, exist_ok=True)
        words = ["local", "rehearse", ENVIRONMENT, "--faults", "node,spareless", "--spares", "1", "--interval", "4"]
        words += ["--replace-after", str(REPLACE_AFTER_S), "--fault-timeout", str(PATIENCE_S)]
        with TRAINING_LOG.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hyperpod_ray.cli", *words, "--out", str(self.out)],
                cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def wait(self) -> str:
        """What happened, and where the picture is.

        Raises:
            DemoError: the run did not survive, or the rehearsal could not be carried through.
        """
        if code := self._process.wait():
            raise DemoError(
                f"the rehearsal ended with exit code {code}",
                expected="a run that survives the lost node",
                fix=f"see its messages in {TRAINING_LOG}",
            )
        pictures = sorted(self.out.rglob("*.png"))
        if not pictures:
            raise DemoError(
                "no picture of the run",
                expected="the file that the rehearsal draws",
                fix=f"see its messages in {TRAINING_LOG}",
            )
        node, process = json.loads((self.out / "report.json").read_text(encoding="utf-8"))["faults"]
        return (
            f"node lost, {node['taken_over_by']} took over, training back in {node['recovery_s']} s with "
            f"{_steps(node['steps_lost'])} done again; process lost without a spare, {process['taken_over_by']} took "
            f"over, back in {process['recovery_s']} s; picture {pictures[-1].relative_to(PROJECT)}"
        )

    def stop(self) -> None:
        """End it; it stops its own cluster first."""
        self._process.terminate()
        self._process.wait()


def _story(screen: Screen, cdk: Cdk, training: Training | None) -> None:
    everything, aws = f"{ENVIRONMENT}/*", cdk.running.client
    with screen.step(BOOTSTRAP):
        cdk("bootstrap", f"aws://{cdk.running.account}/{cdk.running.region}", folder=WORK)
    before = _resources(cdk.running)
    with screen.step(DEPLOY):
        cdk("deploy", *cdk.synthesizes, everything, *UNASKED, "--progress", "events")
        created = [r for r in aws.inventory() if _key(r) not in before]
        screen.fact("created", _count(created))
        nodes = _show_cluster(cdk.running)
        screen.fact("HyperPod cluster", f"InService, {nodes} nodes")
    with screen.step(DIFF):
        cdk("diff", *SYNTHESIZED, everything, "--fail")
        screen.fact("diff after deploy", "clean")
    with screen.step(SCALE):
        count = _scale_workers()
        _, text = cdk("diff", *cdk.synthesizes, everything, "--fail", expect=(1,))
        if "InstanceCount" not in text and "InstanceGroups" not in text:
            raise DemoError(
                "cdk diff: no word of the changed group",
                expected="the group in its output",
                fix="see its messages in the log",
            )
        cdk("deploy", *SYNTHESIZED, everything, *UNASKED)
        after = _show_cluster(cdk.running)
        if after != nodes + 1:
            raise DemoError(
                f"{after} nodes",
                expected=f"{nodes + 1} after the change of the count",
                fix="look at them: hyperpod-ray nodes ENV",
            )
        screen.fact("changed", f"group workers to {count} nodes; cluster has {after}")
    with screen.step(DESTROY):
        cdk("destroy", *SYNTHESIZED, everything, "--force", "--concurrency", "3")
        leftovers = [r for r in aws.inventory() if _key(r) not in before]
        for resource in leftovers:
            print(f"left behind: {resource['type']} {resource['id']}", flush=True)
        if leftovers:
            raise DemoError(
                f"{len(leftovers)} resources are left", expected="none after the destroy", fix="hyperpod-ray local down"
            )
        screen.fact(
            "destroyed", f"all of it; inventory as before the deploy ({len(before)} resources of the bootstrap)"
        )
    if training is not None:
        with screen.step(TRAIN):
            screen.fact("rehearsal", training.wait())


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def _show_cluster(running: process.Running) -> int:
    """A table of the cluster's nodes; their number. Waits for those that are still on their way."""
    import boto3  # slow to import, not needed for --help

    client = boto3.client(
        "sagemaker",
        endpoint_url=running.client.endpoint,
        region_name=running.region,
        aws_access_key_id=running.account,
        aws_secret_access_key=running.secret,
    )
    name = client.list_clusters()["ClusterSummaries"][0]["ClusterName"]
    deadline = time.monotonic() + 120
    while True:
        cluster: dict[str, Any] = client.describe_cluster(ClusterName=name)  # type: ignore[assignment]
        nodes = client.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
        target_count = sum(group["TargetCount"] for group in cluster["InstanceGroups"])
        if len(nodes) == target_count and all(node["InstanceStatus"]["Status"] == "Running" for node in nodes):
            break
        if time.monotonic() > deadline:
            raise DemoError(
                f"nodes after two minutes: {[node['InstanceStatus'] for node in nodes]}",
                expected="all Running",
                fix="see the logs of the embedded AWS",
            )
        time.sleep(0.5)
    if cluster["ClusterStatus"] != "InService":
        raise DemoError(
            f"cluster: {cluster['ClusterStatus']}", expected="InService", fix="see the logs of the embedded AWS"
        )
    table = Table(title=f"HyperPod cluster {name}: {cluster['ClusterStatus']}, node recovery {cluster['NodeRecovery']}")
    for column in ("group", "type", "node", "status"):
        table.add_column(column)
    for node in nodes:
        table.add_row(
            node["InstanceGroupName"],
            str(node["InstanceType"]),
            node["InstanceId"],
            str(node["InstanceStatus"]["Status"]),
        )
    Console().print(table)
    return len(nodes)


def _scale_workers() -> int:
    """One more worker node, by editing the file, as you would; the new count."""
    path = WORK / "environments" / f"{ENVIRONMENT}.yaml"
    text = path.read_text(encoding="utf-8")
    match = re.search(r"(- name: workers\b.*?\n\s+count: )(\d+)", text, re.DOTALL)
    if not match:
        raise DemoError(
            f"{path.name}: no group called workers with a count",
            expected="one: the demo changes its count",
            fix="add the group",
        )
    count = int(match[2]) + 1
    path.write_text(text[: match.start()] + match[1] + str(count) + text[match.end() :], encoding="utf-8")
    return count


def _resources(running: process.Running) -> set[tuple[str, str]]:
    return {_key(resource) for resource in running.client.inventory()}


def _key(resource: dict[str, Any]) -> tuple[str, str]:
    return resource["type"], resource["id"]


def _count(resources: list[dict[str, Any]]) -> str:
    stacks = sum(resource["type"] == "AWS::CloudFormation::Stack" for resource in resources)
    return f"{stacks} stacks, {len(resources) - stacks} resources"
