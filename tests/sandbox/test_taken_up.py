"""What a teardown kept under a fixed name is taken up by the next deploy: repository and control-plane log."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.loader import FOLDER
from tests.sandbox.story import Story, synthesized
from tests.support.emulator import CDK, Emulator, running

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "local"


def settings(**image: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{NAME}.yaml").read_text())
    found["image"] |= image
    return found


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    given = settings()
    with running(tmp_path_factory.mktemp("aws"), account=given["account"], region=given["region"]) as made:
        yield made


def deploy(story: Story) -> None:
    story.cdk("deploy", f"{NAME}/Network", f"{NAME}/Image", "--require-approval", "never")


def left_behind(story: Story) -> list[tuple[str, str]]:
    """Result and remedy of each of preflight's rows."""
    checks = story.ops("preflight", NAME, allowed=(0, 3))["checks"]
    return [(check["result"], check["do"]) for check in checks if check["check"] == "left behind"]


def test_a_repository_and_a_log_group_are_taken_up_again(emulator: Emulator, tmp_path: Path) -> None:
    given = settings(on_destroy="retain")
    group = f"/aws/eks/{given['hyperpod']['cluster_name']}-eks/cluster"
    (tmp_path / "first").mkdir()
    first = synthesized(emulator, tmp_path / "first", name=NAME, settings=given)
    first.cdk("bootstrap", f"aws://{given['account']}/{given['region']}")
    deploy(first)
    ecr, logs = emulator.boto("ecr"), emulator.boto("logs")
    (repository,) = [
        one["repositoryName"]
        for one in ecr.describe_repositories()["repositories"]
        if "cdk-" not in one["repositoryName"]
    ]
    pushed = ecr.list_images(repositoryName=repository)["imageIds"]
    assert pushed
    assert left_behind(first) == [("ok", ""), ("ok", "")], "both are this environment's"
    first.cdk("destroy", f"{NAME}/Network", f"{NAME}/Image", "--force")
    assert ecr.list_images(repositoryName=repository)["imageIds"] == pushed
    logs.create_log_group(logGroupName=group)  # as a protected environment leaves it, and as EKS makes it again

    # the same file again: preflight names both settings (the embedded CloudFormation takes a name twice, AWS does not)
    assert left_behind(first) == [
        ("failed", "set image.repository_exists: true, or delete it"),
        ("failed", "set eks.log_group_exists: true, or delete it"),
    ]

    taken = copy.deepcopy(settings(repository_exists=True))
    taken["image"].pop("on_destroy", None)
    taken["eks"] = {key: value for key, value in taken.get("eks", {}).items() if key != "log_retention_days"}
    taken["eks"]["log_group_exists"] = True
    (tmp_path / "again").mkdir()
    again = synthesized(emulator, tmp_path / "again", name=NAME, settings=taken)
    assert [result for result, _ in left_behind(again)] == ["ok", "ok"]
    deploy(again)
    assert {again.stack(f"{NAME}-{stack}") for stack in ("Network", "Image")} == {"CREATE_COMPLETE"}
    shown = again.ops("teardown", NAME, "--dry-run")
    assert ("repository", repository, "kept") in {(item["kind"], item["id"], item["fate"]) for item in shown["items"]}
    again.cdk("destroy", f"{NAME}/Network", f"{NAME}/Image", "--force")
    assert ecr.list_images(repositoryName=repository)["imageIds"] == pushed
    assert [one["logGroupName"] for one in logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]] == [group]
