"""The example on Slurm on an embedded AWS: the real CLI deploys it, it is looked at, and nothing is left after it.

One deploy; the tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.new_file import default_zones
from hyperpod_ray.core.stand_ins import rehearsed
from tests.sandbox.story import Story, synthesized
from tests.support.emulator import CDK, running, until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "slurm"
REGION = "eu-north-1"  # other stories are in other regions


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    root = tmp_path_factory.mktemp("slurm")
    file = yaml.safe_load((FOLDER / "examples" / f"{NAME}.yaml").read_text(encoding="utf-8"))
    settings, notes = rehearsed({**file, "region": REGION})
    assert [note.partition(":")[0] for note in notes] == ["storage.on_destroy"]
    settings["network"]["availability_zone_ids"] = list(default_zones(REGION))
    with running(root / "aws", account=settings["account"], region=REGION) as emulator:
        story = synthesized(emulator, root, name=NAME, settings=settings)
        story.cdk("bootstrap", f"aws://{settings['account']}/{REGION}")
        story.cdk("deploy", f"{NAME}/*", "--require-approval", "never", "--concurrency", "3")
        yield story


def cluster(story: Story) -> dict[str, Any]:
    return dict(story.emulator.boto("sagemaker").describe_cluster(ClusterName="train-slurm"))


def test_the_service_took_the_cluster_as_slurm(story: Story) -> None:
    until(lambda: cluster(story)["ClusterStatus"] == "InService")
    found = cluster(story)
    assert found["Orchestrator"] == {"Slurm": {"SlurmConfigStrategy": "Managed"}}
    assert {group["InstanceGroupName"]: group["SlurmConfig"]["NodeType"] for group in found["InstanceGroups"]} == {
        "controller": "Controller",
        "login": "Login",
        "workers": "Compute",
    }
    (file_system,) = story.file_systems()
    for group in found["InstanceGroups"]:
        mounts = [
            config["FsxLustreConfig"] for config in group["InstanceStorageConfigs"] if "FsxLustreConfig" in config
        ]
        assert [mount["DnsName"] for mount in mounts] == [file_system["DNSName"]]
    assert [story.stack(f"{NAME}-{stack}") for stack in ("Network", "Storage", "HyperPod")] == ["CREATE_COMPLETE"] * 3
    assert not story.stack(f"{NAME}-Eks")


def test_a_second_deploy_has_nothing_to_do(story: Story) -> None:
    story.cdk("diff", f"{NAME}/*", "--fail")


def test_its_nodes_are_listed_with_their_part(story: Story) -> None:
    until(lambda: len(story.ops("nodes", "list", NAME)["nodes"]) == 6)
    rows = story.ops("nodes", "list", NAME)["nodes"]
    assert sorted(row["group"] for row in rows) == ["controller", "login", *["workers"] * 4]


def test_what_is_taken_down_is_known_before(story: Story) -> None:
    found = story.ops("teardown", NAME, "--dry-run")
    kinds = {(item["kind"], item["fate"]) for item in found["items"]}
    assert ("stack", "destroyed") in kinds
    assert ("file system", "destroyed") in kinds


def test_nothing_is_left(story: Story) -> None:
    story.ops("teardown", NAME, "--yes", "--delete-logs", "--app", str(story.assembly), "--poll", "1")
    assert story.left() == []
