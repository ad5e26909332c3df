"""An environment that 0.2.0 deployed, upgraded on the embedded AWS: what holds data, nodes or logs stays as it is."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.upgrade import upgraded
from tests.sandbox.story import Story, synthesized
from tests.support import released
from tests.support.emulator import CDK, ROOT, running

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "local"
FILE = ROOT / "tests" / "environments" / "released" / "0.2.0" / f"{NAME}.yaml"
MAY_BE_REPLACED = {"AWS::CDK::Metadata", "AWS::CloudWatch::Alarm", "AWS::Events::Rule"}
"""Types that hold nothing: each is created again, or another takes its place."""
LINE = "written while 0.2.0 was deployed"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    root = tmp_path_factory.mktemp("upgraded")
    text = upgraded(FILE.read_text(encoding="utf-8"), since="0.2.0", file=FILE.name).text
    settings = yaml.safe_load(text)
    with running(root / "aws", account=settings["account"], region=settings["region"]) as emulator:
        story = synthesized(emulator, root, name=NAME, settings=settings)
        story.cdk("bootstrap", f"aws://{settings['account']}/{settings['region']}")
        before = released.assembly("0.2.0", NAME, root / "before")
        emulator.cdk(
            "deploy", f"{NAME}/*", "--require-approval", "never", "--concurrency", "3", "--app", str(before), cwd=root
        )
        yield story


def resources(story: Story) -> dict[tuple[str, str], tuple[str, str]]:
    """Type and physical ID of every resource, by stack and logical ID."""
    cloudformation = story.emulator.boto("cloudformation")
    return {
        (stack, resource["LogicalResourceId"]): (resource["ResourceType"], resource["PhysicalResourceId"])
        for stack in [found["StackName"] for found in cloudformation.describe_stacks()["Stacks"]]
        for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack)
        for resource in page["StackResourceSummaries"]
        if stack != "CDKToolkit"
    }


def nodes(story: Story) -> set[str]:
    sagemaker = story.emulator.boto("sagemaker")
    (cluster,) = sagemaker.list_clusters()["ClusterSummaries"]
    listed = sagemaker.list_cluster_nodes(ClusterName=cluster["ClusterName"])["ClusterNodeSummaries"]
    return {node["InstanceId"] for node in listed}


def of_type(before: dict[Any, tuple[str, str]], resource_type: str, logical_id: str) -> str:
    (physical_id,) = [
        name for (_, key), (found, name) in before.items() if found == resource_type and key.startswith(logical_id)
    ]
    return physical_id


def lines(story: Story, group: str) -> list[str]:
    logs = story.emulator.boto("logs")
    return [event["message"] for event in logs.filter_log_events(logGroupName=group)["events"]]


def test_nothing_that_holds_data_nodes_or_logs_is_replaced(story: Story) -> None:
    before, nodes_before = resources(story), nodes(story)
    assert len(nodes_before) >= 3
    groups = [of_type(before, "AWS::Logs::LogGroup", key) for key in ("NetworkFlowLogs", "HealthEvents")]
    logs = story.emulator.boto("logs")
    for group in groups:
        logs.create_log_stream(logGroupName=group, logStreamName="earlier")
        event = {"timestamp": int(time.time() * 1000), "message": LINE}
        logs.put_log_events(logGroupName=group, logStreamName="earlier", logEvents=[event])

    review = story.ops("review", NAME, "--deployed", "--head-assembly", str(story.assembly))
    assert review["verdict"] == "weakens"
    command = [sys.executable, "-m", "hyperpod_ray.cli", "--environments", str(story.environments), "deploy", NAME]
    options = ["--accept", "weakens", "--app", str(story.assembly), "--poll", "1"]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=story.emulator.environment(), capture_output=True, text=True, check=False,
        timeout=1500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]

    after = resources(story)
    differing = {key: before[key] for key in before if after.get(key) != before[key]}
    # the alarm of a full file system moved into the alarms of the environment; no alarm holds anything
    assert {resource_type for resource_type, _ in differing.values()} <= MAY_BE_REPLACED, differing
    assert nodes(story) == nodes_before
    assert [lines(story, group).count(LINE) for group in groups] == [1, 1]
    assert of_type(after, "AWS::ECR::Repository", "Image") == "ray-training"


def test_the_upgraded_environment_is_the_deployed_one(story: Story) -> None:
    again = story.ops("review", NAME, "--deployed", "--head-assembly", str(story.assembly))
    (environment,) = again["environments"]
    assert environment["rows"] == [], json.dumps(environment["rows"])[:2000]
    status = story.ops("status", NAME, allowed=(0, 3))
    assert {stack["status"] for stack in status["stacks"]} <= {"UPDATE_COMPLETE", "CREATE_COMPLETE"}
