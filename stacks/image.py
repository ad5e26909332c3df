"""The container image of head and workers."""

from __future__ import annotations

from pathlib import Path

from constructs import Construct
from environments.plan import Plan
from hyperpod_ray.image import TrainingImage
from stacks.base import EnvironmentStack


class ImageStack(EnvironmentStack):
    """ECR repository and the image built into it."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, project: Path) -> None:
        super().__init__(scope, construct_id, plan=plan, description="Ray image")
        settings = plan.settings.image
        self.image = TrainingImage(self, "Image", settings=settings, context=project / settings.folder)
        self.say("RepositoryUri", self.image.repository.repository_uri, "where the Ray image is pushed")
