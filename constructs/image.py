"""The container image of head and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import FileSystem, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecr_assets as assets
from aws_cdk.aws_logs import LogGroup, RetentionDays
from cdklabs.deploy_time_build import ContainerImageBuild

from constructs import Construct
from hyperpod_ray.constructs.build_environment import BuildEnvironment
from hyperpod_ray.constructs.refuse import refuse_deployment
from hyperpod_ray.core.names import NO_CONTENT

BUILD_COMPUTE = "BUILD_GENERAL1_LARGE"
BUILD_MINUTES = 55


class TrainingImage(Construct):
    """An ECR repository and an image in it that was built from a folder of this project, without a local Docker.

    Creates `AWS::ECR::Repository` (immutable tags, scanned on push, newest `keep_images` kept) and a CodeBuild project
    that builds the folder during the deployment whenever its content changes; the tag is the content's hash, so what a
    RayCluster refers to exists and never changes. The build is `ContainerImageBuild` of cdklabs.
    https://github.com/cdklabs/deploy-time-build

    Args:
        repository_name: Name of the repository.
        keep_images: Newest images that its lifecycle rule keeps.
        retain: Whether repository and images stay when the stack goes.
        exists: Whether the repository is there already: it is used as it is, and stays. `keep_images` and `retain` then
            say nothing.
        context: Folder that holds the Dockerfile and everything it copies.
        build_args: Docker build arguments.
        environment: How the build gets packages and its base.
        incomplete: What is missing for a build, for people; the stack can then be reviewed but not deployed.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository_name: str,
        keep_images: int,
        retain: bool,
        exists: bool = False,
        context: Path,
        dockerfile: str = "Dockerfile",
        build_args: Mapping[str, str] | None = None,
        environment: BuildEnvironment | None = None,
        incomplete: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if incomplete is not None:
            refuse_deployment(self, incomplete)
        self.repository: ecr.IRepository = (
            ecr.Repository.from_repository_name(self, "Repository", repository_name)
            if exists
            else _repository(self, repository_name, keep_images=keep_images, retain=retain)
        )
        # Our own hash, known at synth: the construct's tag is an attribute of the build, and an exported attribute that
        # another stack imports could never change.
        # It counts all that starts a build: one that pushes to a tag which is there fails, as tags are immutable.
        build_secrets = environment.secrets if environment else None
        build_args = {**(build_args or {}), **(environment.proxy if environment else {})}
        counted = [dockerfile, dict(build_args or {}), *([build_secrets] if build_secrets else [])]
        self.content = FileSystem.fingerprint(str(context), exclude=NO_CONTENT, extra_hash=json.dumps(counted))
        build = ContainerImageBuild(
            self,
            "Build",
            directory=str(context),
            file=dockerfile,
            repository=self.repository,
            tag=self.content,
            exclude=NO_CONTENT,
            platform=assets.Platform.LINUX_AMD64,
            build_args=dict(build_args or {}) or None,
            build_secrets=build_secrets,
        )
        # CodeBuild's own group would have no retention and outlive the stack
        logs = LogGroup(self, "BuildLogs", retention=RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY)
        logs.grant_write(build)
        log_builds_to(build, logs)
        fit_large_images(build)
        if environment is not None:
            environment.apply(self, build)
        self.uri = self.repository.repository_uri_for_tag(self.content)


def _repository(scope: Construct, name: str, *, keep_images: int, retain: bool) -> ecr.Repository:
    """A new repository."""
    return ecr.Repository(
        scope,
        "Repository",
        repository_name=name,
        image_tag_mutability=ecr.TagMutability.IMMUTABLE,
        image_scan_on_push=True,
        # the account's own aws/ecr key: a repository that is kept depends on no key of the stack
        encryption=ecr.RepositoryEncryption.KMS,
        lifecycle_rules=[ecr.LifecycleRule(max_image_count=keep_images, description="keep the newest")],
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else RemovalPolicy.DESTROY,
        empty_on_delete=not retain,
    )


def fit_large_images(build: ContainerImageBuild) -> None:
    """Give a build the disk and the processors that an image of 20 GB with CUDA needs, and an end.

    Large has 128 GB of disk, Small 64, and layers are there twice while they are pushed. The build reports to
    CloudFormation, which waits for one hour at most: a build that ends before says why.
    https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html
    """
    for project in Stack.of(build).node.find_all():
        if isinstance(project, codebuild.CfnProject):
            project.add_property_override("Environment.ComputeType", BUILD_COMPUTE)
            project.add_property_override("TimeoutInMinutes", BUILD_MINUTES)


def log_builds_to(build: ContainerImageBuild, group: LogGroup) -> None:
    """Let a build log into a group of the stack; its project is a singleton that the construct does not expose."""
    log_settings = {"Status": "ENABLED", "GroupName": group.log_group_name}
    for project in Stack.of(build).node.find_all():
        if isinstance(project, codebuild.CfnProject):
            project.add_property_override("LogsConfig.CloudWatchLogs", log_settings)
