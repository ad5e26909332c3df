"""The container image of head and workers."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from constructs import Construct
from hyperpod_ray.constructs.build_environment import BuildEnvironment, BuildNetwork, CodeArtifactAccess, SecretAccess
from hyperpod_ray.constructs.image import TrainingImage
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.core import outbound
from hyperpod_ray.core import project as places
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.image_build import NETRC, CodeArtifact, base_repository, credential_commands, index_url
from hyperpod_ray.core.image_packages import lock_of
from hyperpod_ray.core.model import BuiltImage
from hyperpod_ray.core.service_limits import partition_of
from hyperpod_ray.image.context import DOCKERFILE, stage
from hyperpod_ray.image.versions import ImageError, choose
from hyperpod_ray.stacks.base import EnvironmentStack

OWN_FOLDER = "image"
"""The product's image, whose context `hyperpod_ray/image/` knows; any other folder is built as it is."""


class ImageStack(EnvironmentStack):
    """ECR repository and the image built into it."""

    def __init__(
        self, scope: Construct, construct_id: str, *, plan: CommonPlan, project: Path, network: Network
    ) -> None:
        super().__init__(scope, construct_id, plan=plan, description="Ray image")
        settings = plan.settings.image
        assert isinstance(settings, BuiltImage)  # noqa: S101  (the stage makes this stack only then)
        image = partial(
            TrainingImage,
            self,
            "Image",
            repository_name=plan.image_repository,
            keep_images=settings.keep_images,
            retain=settings.on_destroy == "retain",
            exists=settings.repository_exists,
            environment=_environment(plan, settings, network),
        )
        if settings.folder != OWN_FOLDER:
            self.image = image(context=places.file(project, settings.folder))
        else:
            chosen, incomplete = choose(settings.set, project=project), None
            own_lock = lock_of(project / settings.requirements) if settings.requirements else None
            # also where something is missing: a review shows what else changes
            arguments = chosen.build_args(
                base=settings.base, index_url=index_url(settings.index), no_index=settings.no_index
            )
            try:
                chosen.require_complete(base=settings.base)
            except ImageError as error:
                incomplete = str(error)
            with tempfile.TemporaryDirectory() as context:
                wheels = project / settings.wheels if settings.wheels else None
                stage(Path(context), chosen=chosen, own_lock=own_lock, wheels=wheels)
                self.image = image(
                    context=Path(context), dockerfile=DOCKERFILE, build_args=arguments, incomplete=incomplete
                )
        self.output("RepositoryUri", self.image.repository.repository_uri, "where the Ray image is pushed")


def _environment(plan: CommonPlan, settings: BuiltImage, network: Network) -> BuildEnvironment | None:
    """What the build needs besides PyPI and Docker Hub; None where it needs nothing."""
    package_index, base = settings.index, base_repository(settings)
    index: CodeArtifactAccess | SecretAccess | None = None
    if package_index is not None and package_index.codeartifact_arn:
        domain = CodeArtifact.parse(package_index.codeartifact_arn).domain_arn
        index = CodeArtifactAccess(repository_arn=package_index.codeartifact_arn, domain_arn=domain)
    elif package_index is not None and package_index.secret_arn:
        index = SecretAccess(secret_arn=package_index.secret_arn)
    if index is None and base is None and not settings.in_vpc:
        return None
    inside = BuildNetwork(vpc=network.vpc, subnets=list(network.node_subnets.values())) if settings.in_vpc else None
    arn = None
    if base is not None and base.ecr is not None:
        account, region = base.ecr
        arn = f"arn:{partition_of(region)}:ecr:{region}:{account}:repository/{base.repository}"
    return BuildEnvironment(
        index=index,
        credentials=credential_commands(package_index),
        credentials_file=NETRC,
        network=inside,
        base_repository_arn=arn,
        base_registry=base.registry if base else None,
        proxy=outbound.variables(plan) if settings.in_vpc else {},
    )
