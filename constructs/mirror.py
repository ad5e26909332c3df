"""Copies of other registries' images in this account's registry."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecr_assets as assets
from aws_cdk.aws_logs import LogGroup, RetentionDays
from cdklabs.deploy_time_build import ContainerImageBuild

from constructs import Construct
from hyperpod_ray.constructs.image import log_builds_to
from hyperpod_ray.constructs.refuse import refuse_deployment


@dataclass(frozen=True, kw_only=True)
class ImageCopy:
    """An image of another registry, and where its copy goes.

    Args:
        source: Upstream reference; with its digest, unless nobody recorded it yet.
        name: Repository upstream; the construct's id derives from it.
        repository: Repository in this account's registry.
        tag: Tag in it, which never means another image.
    """

    source: str
    name: str
    repository: str
    tag: str


class ImageMirror(Construct):
    """An ECR repository per image (immutable tags, scanned on push) and a CodeBuild project that copies into it.

    Each copy is a build of `FROM image@digest`, outside the VPC: nodes of a closed network then pull from Amazon ECR
    alone. No pull-through cache: where a VPC reaches Amazon ECR by interface endpoints, the first pull of an image
    needs a NAT gateway all the same, and nvcr.io and Docker Hub are no upstreams without credentials.
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html#ecr-vpc-endpoint-considerations

    An image whose digest is not recorded yet does not stop a synth: CloudFormation refuses the stack.

    Args:
        copies: What to copy where.
    """

    def __init__(self, scope: Construct, construct_id: str, *, copies: Sequence[ImageCopy]) -> None:
        super().__init__(scope, construct_id)
        missing = [copy.source for copy in copies if "@" not in copy.source]
        if missing:
            refuse_deployment(
                self,
                f"no digest is recorded for {', '.join(missing)}: run 'hyperpod-ray image pin', then deploy again",
            )
        logs = LogGroup(self, "BuildLogs", retention=RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY)
        for copy in copies:
            name = "".join(word.capitalize() for word in re.split(r"[^a-z0-9]+", copy.name.lower()))
            # copies: they can be created again, and nothing of an environment is left without them
            repository = ecr.Repository(
                self,
                f"{name}Repository",
                repository_name=copy.repository,
                image_tag_mutability=ecr.TagMutability.IMMUTABLE,
                image_scan_on_push=True,
                encryption=ecr.RepositoryEncryption.KMS,
                removal_policy=RemovalPolicy.DESTROY,
                empty_on_delete=True,
            )
            with tempfile.TemporaryDirectory() as context:
                (Path(context) / "Dockerfile").write_text(f"FROM {copy.source}\n", encoding="utf-8")
                build = ContainerImageBuild(
                    self,
                    f"{name}Copy",
                    directory=context,
                    repository=repository,
                    tag=copy.tag,
                    platform=assets.Platform.LINUX_AMD64,
                )
            logs.grant_write(build)
            log_builds_to(build, logs)
