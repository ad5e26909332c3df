"""Copies of other registries' images."""

from __future__ import annotations

from constructs import Construct
from hyperpod_ray.constructs.mirror import ImageCopy, ImageMirror
from hyperpod_ray.core import needs
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.stacks.base import EnvironmentStack


class MirrorStack(EnvironmentStack):
    """The mirror alone: it needs nothing of the other stacks, and is there long before the first node pulls."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan) -> None:
        super().__init__(scope, construct_id, plan=plan, description="copies of container images")
        copies = [
            ImageCopy(source=str(copy.source), name=copy.source.repository, repository=copy.repository, tag=copy.tag)
            for copy in needs.copies(plan)
        ]
        ImageMirror(self, "Mirror", copies=copies)
