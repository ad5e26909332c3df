"""The lifecycle scripts, in a bucket that HyperPod may read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as deployment

from constructs import Construct
from hyperpod_ray.constructs.private_bucket import private_bucket
from hyperpod_ray.core.names import LEFT_BY_TOOLS, NO_CONTENT

WITH_PROXY = "with_proxy.sh"
"""File name of the script that sets the proxy up and then runs the other."""
WITH_HOMES = "with_homes.sh"
"""File name of the script that sets home folders up and then runs the other."""
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
        folder: The scripts. None: there are none but those that other arguments add.
        efa_file_system: Whether the file system is EFA-enabled. Then a file `efa-file-system` lies beside the scripts,
            and they configure Lustre for EFA. Default: it is not.
        own_step: A script of the project's own, which they run last. Default: none; a file that is not there is none.
        script: Name of the script in the folder that HyperPod runs. Empty: none.
        homes: Where the home folders' file system is mounted. With it, another script comes first, which makes homes
            there. Default: none is.
        proxy: Variables of the HTTP proxy. With them, a script comes before these two, which sets the proxy up.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket_name: str,
        folder: Path | None,
        efa_file_system: bool = False,
        own_step: Path | None = None,
        script: str = "on_create.sh",
        homes: str | None = None,
        proxy: Mapping[str, str] | None = None,
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
        self.script = script
        if homes:
            extra_files["homes-path"] = f"{homes}\n"
            extra_files["after-homes"] = f"{script}\n"
            self.script = _comes_first(WITH_HOMES, extra_files)
        if proxy:
            extra_files["proxy.env"] = "".join(f"{name}={value}\n" for name, value in proxy.items())
            extra_files["then-run"] = f"{self.script}\n"
            self.script = _comes_first(WITH_PROXY, extra_files)
        prefix = _content_hash(folder, extra_files)
        self.upload = deployment.BucketDeployment(
            self,
            "Upload",
            sources=[
                *([deployment.Source.asset(str(folder), exclude=["README.md", *NO_CONTENT])] if folder else []),
                *(deployment.Source.data(name, text) for name, text in extra_files.items()),
            ],
            destination_bucket=self.bucket,
            destination_key_prefix=prefix,
            prune=False,
        )
        self.source_s3_uri = self.bucket.s3_url_for_object(prefix)


def _comes_first(script: str, extra_files: dict[str, str]) -> str:
    """Put a script of this package beside the others."""
    extra_files[script] = (Path(__file__).parent / script).read_text(encoding="utf-8")
    return script


def _content_hash(folder: Path | None, extra_files: dict[str, str]) -> str:
    digest = hashlib.sha256()
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "README.md") if folder else []
    for path in files:
        inside = path.relative_to(str(folder))
        if not any(fnmatch(part, pattern) for part in inside.parts for pattern in LEFT_BY_TOOLS):
            digest.update(inside.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    for name, text in extra_files.items():
        digest.update(name.encode() + b"\0" + text.encode() + b"\0")
    return digest.hexdigest()[:16]
