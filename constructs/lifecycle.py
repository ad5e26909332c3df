"""The lifecycle scripts, in a bucket that HyperPod may read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as deployment

from constructs import Construct
from hyperpod_ray.constructs.private_bucket import private_bucket

OWN_STEP = "after_create.sh"
"""File name of a project's own step."""


class LifecycleScripts(Construct):
    """A private bucket with the scripts that run on a node when it is created.

    Creates `AWS::S3::Bucket` (its name begins with `sagemaker-`, which is all that the managed policy of the execution
    role may read; versioned, encrypted, TLS only) and uploads `folder` under its content hash as prefix: a changed
    script shows in `cdk diff` as a changed `SourceS3Uri`, and nodes that start during the change see a whole version.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-lifecycle-best-practices-eks.html

    Args:
        bucket_name: Physical name, beginning with `sagemaker-`.
        folder: The scripts.
        efa_file_system: Whether the file system is EFA-enabled. Then a file `efa-file-system` lies beside the scripts,
            and they configure Lustre for EFA. Default: it is not.
        own_step: A script of the project's own, which they run last. Default: none; a file that is not there is none.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket_name: str,
        folder: Path,
        efa_file_system: bool = False,
        own_step: Path | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        # nothing in it that the project does not have, so nothing is retained
        self.bucket = private_bucket(
            self,
            bucket_name=bucket_name,
            lifecycle_rules=[s3.LifecycleRule(noncurrent_version_expiration=Duration.days(30))],
            versioned=True,
        )
        extra_files = {"efa-file-system": "Lustre uses EFA\n"} if efa_file_system else {}
        if own_step is not None and own_step.is_file() and own_step.parent != folder:
            extra_files[OWN_STEP] = own_step.read_text(encoding="utf-8")
        prefix = _content_hash(folder, extra_files)
        self.upload = deployment.BucketDeployment(
            self,
            "Upload",
            sources=[
                deployment.Source.asset(str(folder), exclude=["README.md"]),
                *(deployment.Source.data(name, text) for name, text in extra_files.items()),
            ],
            destination_bucket=self.bucket,
            destination_key_prefix=prefix,
            prune=False,
        )
        self.source_s3_uri = self.bucket.s3_url_for_object(prefix)


def _content_hash(folder: Path, extra_files: dict[str, str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "README.md"):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    for name, text in extra_files.items():
        digest.update(name.encode() + b"\0" + text.encode() + b"\0")
    return digest.hexdigest()[:16]
