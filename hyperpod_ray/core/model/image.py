"""Sections `image` and `registries`: what pods run, and where nodes pull it from."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.words import CachePrefix, EcrRepositories, Settings, kind_of


class PackageIndex(Settings):
    """The package index that a build asks in place of PyPI: a repository of CodeArtifact, or an address."""

    codeartifact_arn: Annotated[str, shapes.CODEARTIFACT_ARN.field()] | None = None
    """Repository of AWS CodeArtifact. The build reads it by a token that is valid for one hour. Default: `url`."""
    url: Annotated[str, shapes.INDEX_URL.field(max_length=500)] | None = None
    """Address of the index, as pip's `--index-url` takes it. Default: `codeartifact_arn`."""
    secret_arn: Annotated[str, shapes.SECRET_ARN.field()] | None = None
    """Secret in AWS Secrets Manager with the keys `username` and `password`, for `url`. The build reads it; it is in
    no layer, log or template. Encrypt it with the key `aws/secretsmanager`. Default: the index asks for none."""


class BuiltImage(Settings):
    """An image that CodeBuild builds from a folder and stores in a repository of the stack (the default)."""

    kind: ClassVar = "built"

    repository_name: Annotated[str, shapes.REPOSITORY.field(min_length=2, max_length=256)] | None = None
    """ECR repository created by the stack (immutable tags, scanned on push). Default: `ray-` and the name of the
    environment."""
    repository_exists: bool = False
    """Push into a repository that exists, such as one that an earlier teardown kept. The stack then neither creates,
    changes nor deletes it."""
    folder: str = "image"
    """Folder with the Dockerfile, relative to the project; built by CodeBuild when its content changes."""
    set: Annotated[str, shapes.IMAGE_SET.field()] | None = None
    """Set of `hyperpod_ray/image/versions.yaml`: Ray, torch and CUDA, and with `-transformers` the usual libraries of
    language models. Default: its default set. Only of the folder `image`."""
    requirements: Annotated[str, shapes.REQUIREMENTS.field(max_length=200)] | None = None
    """Requirements file of your own (`NAME.in`, relative to the project), whose packages the image gets too.
    The command `image lock` writes its lock beside it, `NAME.txt`. Default: none. Only of the folder `image`."""
    index: PackageIndex | None = None
    """Package index of the build. Default: PyPI. Only of the folder `image`."""
    wheels: Annotated[str, shapes.FOLDER.field(max_length=200)] | None = None
    """Folder of wheels that travel with the build, relative to the project. pip takes a locked package from it where
    it is there. Default: none. Only of the folder `image`."""
    no_index: bool = False
    """Whether the build asks no package index at all: `wheels` has every file that the locks name."""
    base: Annotated[str, shapes.IMAGE_DIGEST.field()] | None = None
    """Base image by digest, such as a copy in Amazon ECR. Default: that of the set. Only of the folder `image`."""
    in_vpc: bool = False
    """Whether CodeBuild runs in the node subnets of the VPC. In a closed network it then reaches no internet: name
    `base`, and `index` or `no_index`."""
    keep_images: Annotated[int, Field(ge=1, le=1000)] = 30
    """Newest images kept by the repository's lifecycle rule."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the repository and its images."""


class ExistingImage(Settings):
    """An image that you name. Nothing is built and no repository is created."""

    kind: ClassVar = "existing"

    uri: Annotated[str, shapes.IMAGE_DIGEST.field()]
    """The image, by digest. It must contain Ray in the environment's version and a user that is not root. For nodes
    with EFA it needs libfabric and aws-ofi-nccl, without which NCCL trains over TCP (docs/packages-and-images.md)."""


Image = Annotated[
    Annotated[BuiltImage, Tag("built")] | Annotated[ExistingImage, Tag("existing")], kind_of("built", key="uri")
]
"""The container image of head and workers: built or existing."""


class Registries(Settings):
    """Where nodes pull container images from, besides AWS's own registries and the image's repository."""

    mirror: bool = False
    """Copy every image of another registry (KubeRay's operator, device plugins, Redis, `image.uri`) into repositories
    of this account that the Mirror stack creates, and let pods pull the copies. A closed network needs it."""
    pull_from: list[EcrRepositories] = []
    """Further Amazon ECR repositories that pods may pull from, of any account and region:
    `111122223333.dkr.ecr.us-west-2.amazonaws.com/team/*`. Their own policies must let this account pull."""
    pull_through_caches: list[CachePrefix] = []
    """Repository prefixes of pull-through caches that this account and region have: nodes may pull from them, and
    bring in what is not cached yet (`ecr:BatchImportUpstreamImage`, `ecr:CreateRepository`)."""
