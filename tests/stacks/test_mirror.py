"""Copies of images are built before the pods that pull them, and from a digest alone."""

from __future__ import annotations

import json

from hyperpod_ray.core import needs
from hyperpod_ray.core.images import Reference
from tests.stacks.reachable_helpers import World


def test_what_is_pulled_from_this_account_is_put_there(on_eks: World) -> None:
    """By a build of exactly this tag, or by whoever the environment file names."""
    built = {
        f"{properties['repositoryUri']}:{properties['imageTag']}"
        for _, properties in on_eks.resolved("Custom::CDKContainerImageBuild")
    }
    given = {on_eks.plan.existing_image}
    for image in on_eks.images - given:
        reference = Reference.parse(image)
        if reference.ecr and reference.ecr[0] == on_eks.plan.settings.account:
            assert image in built


def test_one_without_a_digest_cannot_be_copied(worlds: dict[str, World]) -> None:
    """CloudFormation refuses the stack until `hyperpod-ray image pin` recorded what it copies."""
    for name in ("prod", "closed"):
        template = worlds[name].assembly.templates[f"{name}-Mirror"]
        unknown = [copy for copy in needs.copies(worlds[name].plan) if not copy.source.digest]
        assert bool(unknown) == any(
            "hyperpod-ray image pin" in json.dumps(rule) for rule in template.get("Rules", {}).values()
        )
