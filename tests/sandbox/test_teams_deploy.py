"""The example with teams on an embedded AWS: the real CLI deploys it, and nothing is left after its teardown.

One deploy; the tests build on each other, in this order. The embedded Kubernetes has a stand-in of what the service
makes of a quota, and no Kueue.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.new_file import default_zones
from hyperpod_ray.core.stand_ins import rehearsed
from tests.sandbox.story import Story, synthesized
from tests.support.emulator import CDK, running, until

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "teams"
REGION = "ap-northeast-1"  # other stories are in other regions
STACKS = ("Network", "Eks", "Storage", "Image", "Mirror", "HyperPod", "Platform", "Ray")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    root = tmp_path_factory.mktemp("teams")
    file = yaml.safe_load((FOLDER / "examples" / f"{NAME}.yaml").read_text(encoding="utf-8"))
    settings, _ = rehearsed({**file, "region": REGION})
    settings["network"]["availability_zone_ids"] = list(default_zones(REGION))
    with running(root / "aws", account=settings["account"], region=REGION, api_server="embedded") as emulator:
        story = synthesized(emulator, root, name=NAME, settings=settings)
        story.cdk("bootstrap", f"aws://{settings['account']}/{REGION}")
        story.cdk("deploy", f"{NAME}/*", "--require-approval", "never", "--concurrency", "3")
        yield story


def test_each_team_has_its_quota_and_the_policy_is_there(story: Story) -> None:
    sagemaker = story.emulator.boto("sagemaker")
    quotas = sagemaker.list_compute_quotas()["ComputeQuotaSummaries"]
    assert {quota["ComputeQuotaTarget"]["TeamName"] for quota in quotas} == {"vision", "speech"}
    (policy,) = sagemaker.list_cluster_scheduler_configs()["ClusterSchedulerConfigSummaries"]
    assert policy["Status"] == "Created"
    states = {stack: story.stack(f"{NAME}-{stack}") for stack in STACKS}
    assert {state for state in states.values() if state} == {"CREATE_COMPLETE"}, states
    assert states["Platform"]
    assert states["Ray"]


def test_a_second_deploy_has_nothing_to_do(story: Story) -> None:
    story.cdk("diff", f"{NAME}/*", "--fail")


def test_nothing_is_left(story: Story) -> None:
    story.ops("teardown", NAME, "--yes", "--delete-logs", "--app", str(story.assembly), "--poll", "1")
    until(lambda: story.left() == [])
