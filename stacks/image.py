"""The container image of head and workers."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from constructs import Construct
from core.ground import GroundPlan
from core.image_packages import lock_of
from core.model import BuiltImage
from hyperpod_ray.image import TrainingImage
from image.context import DOCKERFILE, stage
from image.versions import ImageError, choose
from stacks.base import EnvironmentStack

OWN_FOLDER = "image"
"""This project's image, whose context and build arguments `image/` knows; any other folder is built as it is."""


class ImageStack(EnvironmentStack):
    """ECR repository and the image built into it."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: GroundPlan, project: Path) -> None:
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
        )
        if settings.folder != OWN_FOLDER:
            self.image = image(context=project / settings.folder)
        else:
            chosen, arguments, incomplete = choose(settings.set), None, None
            own = lock_of(project / settings.requirements) if settings.requirements else None
            try:
                arguments = chosen.build_args()
            except ImageError as error:
                incomplete = str(error)
            with tempfile.TemporaryDirectory() as context:
                stage(Path(context), project=project, chosen=chosen, own=own)
                self.image = image(
                    context=Path(context), dockerfile=DOCKERFILE, build_args=arguments, incomplete=incomplete
                )
        self.output("RepositoryUri", self.image.repository.repository_uri, "where the Ray image is pushed")
