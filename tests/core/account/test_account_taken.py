"""Rules of `hyperpod_ray/core/checks/account/taken.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import (
    FILE_SYSTEM,
    NEW,
    REGION,
)
from tests.core.account.sabotage import (
    ARN,
    BUCKET,
    CLOSED,
    OUR_STACK,
    RECORDED,
    RUNS,
    TIER,
    TIERED,
    Sabotage,
    assert_named_rules,
    assert_sabotage,
    case_id,
    judged,
)

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("bucket of another account", {"buckets": {BUCKET: "forbidden"}}, (("bucket names", "error", "another account"),), file=NEW),
    Sabotage("bucket of another stack", {"buckets": {BUCKET: REGION}, "stacks > theirs-Eks": {"status": "CREATE_COMPLETE", "resources": [BUCKET]}}, (("bucket names", "error", "belongs to stack theirs-Eks"),), file=NEW),
    Sabotage("bucket left behind, empty", {"buckets": {BUCKET: REGION}}, (("bucket names", "error", f"aws s3 rb s3://{BUCKET}, which is empty"),), file=NEW),
    Sabotage("bucket left behind, with somebody's file", {"buckets": {BUCKET: REGION}, "objects": {BUCKET: ["on_create.sh", "thesis.pdf"]}}, (("bucket names", "error", "it holds on_create.sh, thesis.pdf: look at them"),), file=NEW),
    Sabotage("bucket left behind, with many files", {"buckets": {BUCKET: REGION}, "objects": {BUCKET: [f"{n}.pt" for n in range(9)]}}, (("bucket names", "error", "4.pt and more: look"),), file=NEW),
    Sabotage("bucket left behind, closed to a look", {"buckets": {BUCKET: REGION}, "objects": {BUCKET: "forbidden"}}, (("bucket names", "error", "with a role that may list it"),), file=NEW),
    Sabotage("tier bucket left behind", {"buckets": {TIER: REGION}}, (("bucket names", "error", f"set hyperpod.tiered_storage.bucket: {TIER}"),), file=TIERED),
    Sabotage("MLflow bucket left behind", {"buckets": {RUNS: REGION}}, (("bucket names", "error", "name the app that uses it in ray.access.mlflow_arn"),), file=RECORDED),
    Sabotage("EKS name of another stack", {"eks > test-eks": {"status": "ACTIVE", "version": "1.35"}, "stacks > theirs-Eks": {"status": "CREATE_COMPLETE", "resources": ["test-eks"]}}, (("cluster names", "error", "EKS cluster test-eks belongs to stack theirs-Eks"),), file=NEW),
    Sabotage("EKS name by hand", {"eks > test-eks": {"status": "ACTIVE", "version": "1.35"}}, (("cluster names", "error", "name it in eks.existing"),), file=NEW),
    Sabotage("HyperPod name of another environment", {"hyperpod > test": {"ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService", "InstanceGroups": []}, "stacks > old-HyperPod": {"status": "CREATE_COMPLETE", "resources": [ARN]}}, (("cluster names", "error", "belongs to stack old-HyperPod"),), file=NEW),
    Sabotage("repository left behind", {"repositories": ["ray-test"]}, (("left behind", "error", "set image.repository_exists: true"),), file=NEW),
    Sabotage("repository of another environment", {"repositories": ["ray-test"], "stacks > other-Image": {"status": "CREATE_COMPLETE", "resources": ["ray-test"]}}, (("left behind", "error", "belongs to stack other-Image"),), file=NEW),
    Sabotage("log group left behind", {"log_groups": ["/aws/eks/test-eks/cluster"]}, (("left behind", "error", "set eks.log_group_exists: true"),), file=NEW),
    Sabotage("flow logs left behind", {"log_groups": ["/aws/vpc/ray-on-hyperpod/test"]}, (("left behind", "error", "set network.flow_log_group_exists: true"),), file=NEW),
    Sabotage("events left behind", {"log_groups": ["/aws/events/ray-on-hyperpod/test"]}, (("left behind", "error", "set hyperpod.event_log_group_exists: true"),), file=NEW),
    Sabotage("stack of another project", {"stacks > test-Network": {"status": "CREATE_COMPLETE"}}, (("stack names", "error", "is of another project"),), file=NEW),
    Sabotage("stack that no update begins from", {"stacks > test-Network": {**OUR_STACK, "status": "UPDATE_ROLLBACK_FAILED"}}, (("stack names", "error", "continue-update-rollback"),), file=NEW),
    Sabotage("file system kept by a teardown", {f"file_systems > {FILE_SYSTEM}": {"Tags": [{"Key": "hyperpod-ray:environment", "Value": "test"}]}}, (("kept file systems", "warning", f"file_system_id: {FILE_SYSTEM}, mount_name: fsx1abcd"),), file=NEW),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)


def test_a_mirror_repository_that_is_taken() -> None:
    made = judged(CLOSED, {})["mirror repositories"]
    assert {one.severity for one in made} == {"fine"}
    name = made[0].message.removesuffix(" is free")
    taken = judged(CLOSED, {"repositories": [name]})["mirror repositories"]
    assert [one.severity for one in taken].count("error") == 1
    assert any("which is empty" in one.message for one in taken)
    full = judged(CLOSED, {"repositories": [name], "image_tags": {name: ["1.0", "mine"]}})["mirror repositories"]
    assert any("it holds 2 images (1.0, mine): look at them" in one.message for one in full)
