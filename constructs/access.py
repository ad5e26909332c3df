"""What work may use in AWS: buckets, keys and secrets, as values and as statements of a role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aws_cdk import Stack
from aws_cdk import aws_iam as iam


@dataclass(frozen=True, kw_only=True)
class BucketAccess:
    """A bucket, or what is below a prefix of it.

    Args:
        bucket: Name of the bucket.
        prefix: Prefix that ends with `/`. Default: the whole bucket.
        mode: `read`: list and read objects. `write`: also write and delete them.
    """

    bucket: str
    prefix: str = ""
    mode: Literal["read", "write"] = "read"


def statements(
    stack: Stack,
    *,
    buckets: Sequence[BucketAccess] = (),
    kms_key_arns: Sequence[str] = (),
    secret_arns: Sequence[str] = (),
    uploads: bool = True,
) -> list[iam.PolicyStatement]:
    """Rights to buckets, to secrets, and to keys through S3 and Secrets Manager alone.

    Args:
        stack: Whose partition and Region are meant.
        buckets: Buckets and prefixes.
        kms_key_arns: Keys of these buckets and secrets.
        secret_arns: Secrets in AWS Secrets Manager to read.
        uploads: Whether to list unfinished uploads of a bucket, for which S3 knows no prefix.
    """
    listed = [statement for grant in buckets for statement in s3_statements(stack.partition, grant, uploads=uploads)]
    writes = any(grant.mode == "write" for grant in buckets)
    through = [("s3", ["kms:Decrypt", *(["kms:GenerateDataKey"] if writes else [])])]
    through += [("secretsmanager", ["kms:Decrypt"])] if secret_arns else []
    if kms_key_arns:
        listed += [
            iam.PolicyStatement(
                actions=actions,
                resources=list(kms_key_arns),
                conditions={"StringEquals": {"kms:ViaService": f"{service}.{stack.region}.amazonaws.com"}},
            )
            for service, actions in through
        ]
    if secret_arns:
        # https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_iam-policies.html
        listed.append(iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=list(secret_arns)))
    return listed


def s3_statements(
    partition: str, grant: BucketAccess, *, deletes: bool = True, uploads: bool = True
) -> list[iam.PolicyStatement]:
    """Rights to a bucket or a prefix; with `uploads`, to list unfinished uploads, for which S3 knows no prefix."""
    bucket = f"arn:{partition}:s3:::{grant.bucket}"
    writes = grant.mode == "write"
    # a prefix is listed as a folder is: with and without its slash, and below it
    prefixes = [grant.prefix.rstrip("/"), f"{grant.prefix}*"]
    return [
        iam.PolicyStatement(
            actions=["s3:ListBucket"],
            resources=[bucket],
            conditions={"StringLike": {"s3:prefix": prefixes}} if grant.prefix else {},
        ),
        iam.PolicyStatement(
            actions=["s3:GetBucketLocation", *(["s3:ListBucketMultipartUploads"] if writes and uploads else [])],
            resources=[bucket],
        ),
        iam.PolicyStatement(
            actions=[
                "s3:GetObject",
                *(["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"] if writes else []),
                *(["s3:DeleteObject"] if writes and deletes else []),
            ],
            resources=[f"{bucket}/{grant.prefix}*"],
        ),
    ]
