"""Rules about what the image must serve: Ray's version, and the processors and accelerators of the pods' nodes."""

from __future__ import annotations

from collections.abc import Iterator

from core.checks.lookup import find, workers
from core.evidence import Repository
from core.findings import Finding, error, rule
from core.image_sets import BuildableImage, default_image
from core.model import InstanceGroup
from core.plan import Plan
from core.yaml_source import Path

ARM_TYPES = ("ml.p6e-gb200.",)
"""Accelerated types with an ARM processor. https://aws.amazon.com/ec2/instance-types/p6/"""


def _built(plan: Plan) -> BuildableImage | None:
    image = plan.built_image
    return default_image(image.folder) if image is not None else None


@rule("ray", "image", needs="repository")
def version_is_the_images(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """Head, workers and clients run the image's Ray; the operator and the checks go by `ray.version`."""
    built = _built(plan)
    if built is not None and plan.settings.ray.version != built.ray:
        yield error(
            "ray",
            "version",
            message=(
                f"{plan.settings.ray.version} is not the Ray of image set '{built.name}', {built.ray}; "
                f"set {built.ray}, or change image/versions.yaml and its requirements"
            ),
        )


@rule("ray", "image", "hyperpod", "instance_types", needs="repository")
def image_serves_the_nodes(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """An image is of one architecture, and its frameworks are of one kind of accelerator."""
    built = _built(plan)
    for path, group in _placed(plan):
        figures = plan.figures(group.type)
        if group.type.startswith(ARM_TYPES) and figures.architecture != "arm64":
            yield error(
                "instance_types",
                group.type,
                "architecture",
                message=f"'{figures.architecture}'; {group.type} has ARM processors: set arm64",
            )
            continue
        accelerator = figures.accelerator
        if built is None or (figures.architecture == built.architecture and accelerator in {"none", built.accelerator}):
            continue
        kind = figures.architecture if accelerator == "none" else f"{figures.architecture} with {accelerator}"
        yield error(
            *path,
            message=(
                f"no image set for {kind} ({group.type}); there is {built.architecture} with {built.accelerator} "
                f"('{built.name}'). Build an image yourself and name it in image.uri, or choose another type"
            ),
        )


def _placed(plan: Plan) -> Iterator[tuple[Path, InstanceGroup]]:
    ray = plan.settings.ray
    if head := find(plan, ray.head.instance_group):
        yield ("ray", "head", "instance_group"), head
    for index, _, group in workers(plan):
        yield ("ray", "workers", index, "instance_group"), group
