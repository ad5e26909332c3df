"""The bucket of tiered checkpoints."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3

from constructs import Construct
from hyperpod_ray.constructs.private_bucket import private_bucket


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
        self.bucket = private_bucket(
            self,
            bucket_name=bucket_name,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="checkpoints",
                    expiration=Duration.days(keep_days),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            retain=retain,
        )
