"""The bucket of tiered checkpoints."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3

from constructs import Construct


class TierBucket(Construct):
    """A private bucket for the second tier of checkpoints (`AWS::S3::Bucket`: encrypted, TLS only, not versioned).

    Its lifecycle rule is what prunes it: neither HyperPod nor Ray deletes a checkpoint in S3.
    https://docs.aws.amazon.com/sagemaker/latest/dg/managed-tier-checkpointing.html

    Args:
        bucket_name: Physical name.
        keep_days: Days after which an object is deleted.
        retain: Whether the bucket stays when the stack goes; otherwise its objects go with it.
    """

    def __init__(self, scope: Construct, construct_id: str, *, bucket_name: str, keep_days: int, retain: bool) -> None:
        super().__init__(scope, construct_id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=bucket_name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="checkpoints",
                    expiration=Duration.days(keep_days),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else RemovalPolicy.DESTROY,
            auto_delete_objects=not retain,
        )
