"""What the buckets of the constructs have in common."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_s3 as s3

from constructs import Construct


def private_bucket(
    scope: Construct,
    *,
    bucket_name: str,
    lifecycle_rules: Sequence[s3.LifecycleRule],
    versioned: bool = False,
    retain: bool = False,
) -> s3.Bucket:
    """A bucket that is encrypted, takes TLS only and is never public (`AWS::S3::Bucket`, construct ID `Bucket`).

    Args:
        scope: The construct that owns the bucket.
        bucket_name: Physical name.
        lifecycle_rules: When objects or their versions are deleted.
        versioned: Whether S3 keeps earlier versions of objects.
        retain: Whether the bucket stays when the stack goes; otherwise its objects go with it.
    """
    bucket = s3.Bucket(
        scope,
        "Bucket",
        bucket_name=bucket_name,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        versioned=versioned,
        lifecycle_rules=lifecycle_rules,
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else RemovalPolicy.DESTROY,
        auto_delete_objects=not retain,
    )
    if retain and bucket.policy is not None:
        # TLS only also for what stays
        bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
    return bucket
