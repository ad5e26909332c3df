from __future__ import annotations

import json
from typing import Any

import pytest

from tests.stacks.assembled import Assembly
from tests.stacks.identity_helpers import s3
from tests.support.iam import Request, allows

TIER = "tier-everything-111122223333-us-west-2"


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        # what the README of amzn-sagemaker-checkpointing 1.1.3 asks for
        *(
            (s3(action, f"{TIER}/checkpoints/run/step_5/rank_0/checkpoint.pt"), True)
            for action in ("PutObject", "GetObject", "DeleteObject")
        ),
        (s3("ListBucket", TIER), True),
        (s3("GetBucketLocation", TIER), True),
        (s3("DeleteBucket", TIER), False),
        (s3("PutLifecycleConfiguration", TIER), False),
        (s3("PutObject", f"{TIER}-2/x"), False),
    ],
)
def test_tiered_checkpoints_have_their_bucket(
    role: tuple[str, list[Any], list[Any]], asked: Request, allowed: bool
) -> None:
    assert allows(role[2], asked) is allowed


def test_the_tiers_bucket_prunes_itself_and_stays(everything: Assembly) -> None:
    """Neither HyperPod nor Ray deletes a checkpoint in S3."""
    (bucket,) = [
        resource
        for resource in everything.of_type("AWS::S3::Bucket").values()
        if resource["Properties"]["BucketName"] == TIER
    ]
    (rule,) = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
    assert (rule["Status"], rule["ExpirationInDays"]) == ("Enabled", 5)
    assert "Prefix" not in rule, "all of the bucket"
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert bucket["DeletionPolicy"] in {"Retain", "RetainExceptOnCreate"}
    assert set(bucket["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}


def test_pods_are_told_where_the_second_tier_is(everything: Assembly) -> None:
    (cluster,) = [
        text
        for resource in everything.of_type("Custom::AWSCDK-EKS-KubernetesResource").values()
        if '\\"kind\\":\\"RayCluster\\"' in (text := json.dumps(resource["Properties"]["Manifest"]))
    ]
    told = f'\\"name\\":\\"TIERED_S3_BASE\\",\\"value\\":\\"s3://{TIER}/checkpoints\\"'
    assert cluster.count(told) >= 2, "head and workers"
