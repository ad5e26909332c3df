"""What a teardown kept under a fixed name is taken up by the next deploy: repository and log groups."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.story import Story, settings_in, synthesized
from tests.support.emulator import CDK, Emulator, running, until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "local"
STACKS = (f"{NAME}/Network", f"{NAME}/Image")
PLATFORM = f"{NAME}-Platform"
FLOW_LOGS, EVENTS = f"/aws/vpc/ray-on-hyperpod/{NAME}", f"/aws/events/ray-on-hyperpod/{NAME}"
LOG_GROUPS = {
    FLOW_LOGS: ("network", "flow_log_group_exists", "flow_log_retention_days"),
    "/aws/eks/ray-local-eks/cluster": ("eks", "log_group_exists", "log_retention_days"),
    EVENTS: ("hyperpod", "event_log_group_exists", "event_retention_days"),
}


def settings(**image: Any) -> dict[str, Any]:
    found = settings_in("us-east-1")  # other stories are in us-west-2 and eu-central-1
    found["image"] |= image
    return found


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    given = settings()
    with running(tmp_path_factory.mktemp("aws"), account=given["account"], region=given["region"]) as made:
        yield made


def left_behind(story: Story) -> list[tuple[str, str]]:
    """Result and remedy of each of preflight's rows."""
    checks = story.ops("preflight", NAME, allowed=(0, 3))["checks"]
    return [(check["result"], check["fix"]) for check in checks if check["check"] == "left behind"]


def archive(story: Story) -> dict[str, Any]:
    """The Platform stack's template with the archive, its rules and alarms; the rest needs a cluster with nodes."""
    (path,) = story.assembly.rglob(f"*{NAME}Platform*.template.json")
    template = json.loads(path.read_text())
    mine = {key: value for key, value in template["Resources"].items() if key.startswith("Health")}
    return {"Resources": _without_imports(mine)}


def _without_imports(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_imports(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "Fn::ImportValue" in value:
        return "of-another-stack"
    return {key: _without_imports(item) for key, item in value.items()}


def deploy(story: Story) -> str:
    """The two stacks by the real CLI, and the archive's; returns the status of the latter."""
    story.cdk("deploy", *STACKS, "--require-approval", "never")
    story.emulator.boto("cloudformation").create_stack(StackName=PLATFORM, TemplateBody=json.dumps(archive(story)))
    until(lambda: not story.stack(PLATFORM).endswith("IN_PROGRESS"))
    return story.stack(PLATFORM)


def tear_down(story: Story) -> None:
    story.ops("teardown", NAME, "--yes", "--confirm", NAME, "--poll", "0.5", "--app", str(story.assembly))


def test_a_repository_and_log_groups_are_taken_up_again(emulator: Emulator, tmp_path: Path) -> None:
    given = settings(on_destroy="retain") | {"protected": True}
    given["storage"]["on_destroy"] = "retain"
    (tmp_path / "first").mkdir()
    first = synthesized(emulator, tmp_path / "first", name=NAME, settings=given)
    first.cdk("bootstrap", f"aws://{given['account']}/{given['region']}")
    assert deploy(first) == "CREATE_COMPLETE"
    ecr, logs = emulator.boto("ecr"), emulator.boto("logs")

    def groups() -> set[str]:
        """The log groups with a fixed name; those of functions have names that CloudFormation made."""
        found = {group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]}
        return {name for name in found if name.startswith(("/aws/vpc/", "/aws/eks/", "/aws/events/"))}

    (repository,) = [
        repository["repositoryName"]
        for repository in ecr.describe_repositories()["repositories"]
        if "cdk-" not in repository["repositoryName"]
    ]
    pushed = ecr.list_images(repositoryName=repository)["imageIds"]
    assert pushed
    assert groups() == set(LOG_GROUPS)
    assert left_behind(first) == [("ok", "")] * 4, "all are this environment's"
    tear_down(first)
    assert ecr.list_images(repositoryName=repository)["imageIds"] == pushed
    assert groups() == set(LOG_GROUPS)

    # the same file again: preflight names each setting, and CloudFormation refuses
    assert left_behind(first) == [
        *[("failed", f"set {section}.{name}: true, or delete it") for section, name, _ in LOG_GROUPS.values()],
        ("failed", "set image.repository_exists: true, or delete it"),
    ]
    refused = emulator.cdk("deploy", STACKS[1], "--require-approval", "never", "--app", str(first.assembly),
                           cwd=tmp_path, check=False)  # fmt: skip
    assert refused.returncode == 1
    assert "already exists" in refused.stdout + refused.stderr
    assert ecr.list_images(repositoryName=repository)["imageIds"] == pushed, "a failed creation deletes nothing of it"
    api = emulator.boto("cloudformation")  # the CLI replaces no failed stack that is protected
    api.update_termination_protection(StackName=f"{NAME}-Image", EnableTerminationProtection=False)
    api.delete_stack(StackName=f"{NAME}-Image")
    until(lambda: not first.stack(f"{NAME}-Image"))

    taken = copy.deepcopy(settings(repository_exists=True))
    taken["image"].pop("on_destroy", None)
    for section, name, retention in LOG_GROUPS.values():
        taken[section].pop(retention, None)
        taken[section][name] = True
    (tmp_path / "again").mkdir()
    again = synthesized(emulator, tmp_path / "again", name=NAME, settings=taken)
    assert [result for result, _ in left_behind(again)] == ["ok"] * 4
    assert deploy(again) == "CREATE_COMPLETE"
    assert {again.stack(f"{NAME}-{stack}") for stack in ("Network", "Image")} == {"CREATE_COMPLETE"}
    (network,) = again.assembly.rglob(f"*{NAME}Network*.template.json")
    resources = json.loads(network.read_text())["Resources"].values()
    assert [
        resource["Properties"]["LogGroupName"] for resource in resources if resource["Type"] == "AWS::EC2::FlowLog"
    ] == [FLOW_LOGS]
    filters = logs.describe_metric_filters(logGroupName=EVENTS)["metricFilters"]
    assert filters, "the alarms read the archive"
    shown = again.ops("teardown", NAME, "--dry-run")
    assert ("repository", repository, "kept") in {(item["kind"], item["id"], item["fate"]) for item in shown["items"]}
    tear_down(again)
    assert ecr.list_images(repositoryName=repository)["imageIds"] == pushed
    assert groups() == set(LOG_GROUPS)
    shown = again.ops("teardown", NAME, "--dry-run")
    kept = {item["id"] for item in shown["items"] if (item["kind"], item["fate"]) == ("log group", "kept")}
    assert kept == set(LOG_GROUPS)
