"""Rules about what the image must serve: Ray's version, and the processors and accelerators of the pods' nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hyperpod_ray.core import image_packages, image_sets, project
from hyperpod_ray.core.checks.lookup import GROUPS, find, workers
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding, error, meant, rule, warning
from hyperpod_ray.core.image_sets import BuildableImage, default_image
from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.model import BuiltImage, NodeGroup
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.service_limits import partition_of
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.core.yaml_source import Path

DOCKERFILE = "Dockerfile"
ARM_TYPES = ("ml.p6e-gb200.",)
"""Accelerated types with an ARM processor. https://aws.amazon.com/ec2/instance-types/p6/"""


def _built(plan: CommonPlan) -> BuildableImage | None:
    image = plan.built_image
    return default_image(image.folder, image.set) if image is not None else None


@rule("ray", "image", needs="repository")
def version_is_the_images(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """Head, workers and clients run the image's Ray; the operator and the checks go by `ray.version`."""
    built = _built(plan)
    if built is not None and plan.settings.ray.version != built.ray:
        yield error(
            "ray",
            "version",
            what=f"{plan.settings.ray.version} is not the Ray of image set '{built.name}'",
            expected=f"{built.ray}",
            fix=f"set {built.ray}, or change hyperpod_ray/image/versions.yaml and its requirements",
        )


@rule("ray", "image", "hyperpod", "instance_types", needs="repository")
def image_serves_the_nodes(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """An image is of one architecture, and its frameworks are of one kind of accelerator."""
    yield from _serves(plan, _placed(plan))


@rule("image", "hyperpod", "instance_types", needs="repository", orchestrator="slurm")
def image_serves_nodes_of_compute(plan: SlurmPlan, _repository: Repository) -> Iterator[Finding]:
    """Jobs of every compute group run in the built image, by Enroot and Pyxis."""
    compute = [(index, group) for index, group in enumerate(plan.groups) if group.slurm.role == "compute"]
    yield from _serves(plan, [((*GROUPS, index, "type"), group) for index, group in compute if plan.known(group.type)])


@rule("hyperpod", "instance_types", orchestrator="slurm")
def jobs_train_on_what_is_there(plan: SlurmPlan) -> Iterator[Finding]:
    """The training library and `jobs/slurm` run on NVIDIA GPUs and on CPUs: on Trainium they would train on the CPU."""
    for index, group in enumerate(plan.groups):
        if group.slurm.role != "compute" or not plan.known(group.type):
            continue
        if plan.type_spec(group.type).accelerator == "neuron":
            yield warning(
                *GROUPS,
                index,
                "type",
                what=f"{group.type} has Neuron devices, and neither jobs/slurm nor the training library uses them",
                expected="jobs of your own for Neuron, or a type with NVIDIA GPUs",
                fix="choose another type, or submit jobs of your own",
            )


def _serves(plan: CommonPlan, placed: Iterable[tuple[Path, NodeGroup]]) -> Iterator[Finding]:
    """Whether the built image runs on the types of groups, each with the setting that puts work there."""
    built = _built(plan)
    for path, group in placed:
        spec = plan.type_spec(group.type)
        if group.type.startswith(ARM_TYPES) and spec.architecture != "arm64":
            yield error(
                "instance_types",
                group.type,
                "architecture",
                what=f"'{spec.architecture}', and {group.type} has ARM processors",
                expected="arm64",
                fix="set architecture: arm64",
            )
            continue
        accelerator = spec.accelerator
        if built is None or (spec.architecture == built.architecture and accelerator in {"none", built.accelerator}):
            continue
        hardware = spec.architecture if accelerator == "none" else f"{spec.architecture} with {accelerator}"
        yield error(
            *path,
            what=f"no image set for {hardware} ({group.type})",
            expected=f"{built.architecture} with {built.accelerator}, as image set '{built.name}'",
            fix="build an image yourself and name it in image.uri, or choose another type",
        )


@rule("image", needs="repository")
def folder_exists(plan: CommonPlan, repository: Repository) -> Iterator[Finding]:
    """The folder that CodeBuild builds is there, with its Dockerfile."""
    image = plan.built_image
    if image is None or repository.root is None or not image.folder.strip() or ".." in image.folder.split("/"):
        return
    if image.folder == image_sets.FOLDER:
        return
    folder = project.file(repository.root, image.folder)
    if project.not_installed(image.folder) and not folder.exists():
        return
    if not folder.is_dir():
        yield error(
            "image",
            "folder",
            what=f"'{image.folder[:80]}' is no folder of the project",
            expected=f"a folder with a {DOCKERFILE}",
            fix="set image.folder: image",
        )
    elif not (folder / DOCKERFILE).is_file():
        yield error(
            "image",
            "folder",
            what=f"'{image.folder[:80]}' has no {DOCKERFILE}",
            expected=f"a {DOCKERFILE} in it",
            fix="add it, or set image.folder: image",
        )


@rule("image", needs="repository")
def set_is_known(plan: CommonPlan, _repository: Repository) -> Iterator[Finding]:
    """A set is one of `image/versions.yaml`; only the product's own image has sets and takes further packages."""
    image = plan.built_image
    if image is None:
        return
    for name in ("set", "requirements", "index", "wheels", "no_index", "base"):
        if getattr(image, name) and image.folder != image_sets.FOLDER:
            yield error(
                "image",
                name,
                what=f"{_shown(image, name)}, and the image is built from '{image.folder[:80]}'",
                expected=f"folder '{image_sets.FOLDER}', whose Dockerfile takes it",
                fix=f"remove image.{name}, and do the same in your own Dockerfile",
            )
    if image.set is not None and image.set not in (available := image_sets.set_names()):
        yield error(
            "image",
            "set",
            what=f"'{image.set}' is no set of hyperpod_ray/image/versions.yaml",
            expected=f"one of {', '.join(available)}",
            fix=meant(image.set, available) or "correct the name",
        )


@rule("image", needs="repository")
def own_packages_are_locked(plan: CommonPlan, repository: Repository) -> Iterator[Finding]:
    """Own packages come with hashes, and none replaces a version of the image set: torch and CUDA belong together."""
    image, built = plan.built_image, _built(plan)
    if image is None or image.requirements is None or built is None or repository.root is None:
        return
    path, file = ("image", "requirements"), repository.root / image.requirements
    command = f"hyperpod-ray image lock {plan.name}"
    if ".." in image.requirements.split("/") or image.requirements.startswith("/") or not file.is_file():
        yield error(
            *path,
            what=f"'{image.requirements}' is no file of the project",
            expected="a requirements file inside it",
            fix="correct the path; it is relative to the project",
        )
        return
    lock = image_packages.lock_of(file)
    if not lock.is_file():
        yield error(*path, what=f"{image.requirements} has no lock", expected=f"{lock.name} beside it", fix=command)
        return
    text = lock.read_text(encoding="utf-8")
    set_lock = image_sets.requirements_of(built.name).read_text(encoding="utf-8")
    if not text.startswith(image_packages.stamp(file.read_text(encoding="utf-8"), set_lock) + "\n"):
        yield error(
            *path,
            what=f"{lock.name} is not the lock of {image.requirements} for image set '{built.name}'",
            expected="a lock that is newer than both",
            fix=command,
        )
        return
    for line in image_packages.unsafe(text)[:5]:
        yield error(
            *path,
            what=f"{lock.name}: '{line[:60]}'",
            expected="NAME==VERSION with its hashes",
            fix=command,
        )
    set_pins = image_packages.pins(set_lock)
    for name, version in image_packages.pins(text).items():
        if set_pins.get(name, version) != version:
            yield error(
                *path,
                what=f"{lock.name}: {name} {version}, and image set '{built.name}' has {set_pins[name]}",
                expected="the version of the set",
                fix=command,
            )


@rule("image", "ray", "region", needs="repository")
def registries_are_of_the_partition(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """An Amazon ECR registry of another partition takes no credentials of this one.

    https://docs.aws.amazon.com/general/latest/gr/ecr.html
    """
    gcs, region = plan.settings.ray.gcs_fault_tolerance, plan.settings.region
    named: list[tuple[Path, str | None]] = [(("image", "uri"), plan.existing_image)]
    named.append((("ray", "gcs_fault_tolerance", "redis_image"), gcs.redis_image if gcs else None))
    for path, uri in named:
        ecr = Reference.parse(uri).ecr if uri else None
        if uri is None or ecr is None:
            continue
        china = uri.partition("/")[0].endswith(".cn")
        if partition_of(ecr[1]) != partition_of(region) or china != (partition_of(ecr[1]) == "aws-cn"):
            yield error(
                *path,
                what=f"'{uri.partition('/')[0]}' is no registry of {partition_of(region)}",
                expected=f"a registry of partition {partition_of(region)}",
                fix=f"copy the image to Amazon ECR in {region}, and name the copy",
            )


def _placed(plan: Plan) -> Iterator[tuple[Path, NodeGroup]]:
    ray = plan.settings.ray
    if head := find(plan, ray.head.instance_group):
        yield ("ray", "head", "instance_group"), head
    for index, _, group in workers(plan):
        yield ("ray", "workers", index, "instance_group"), group


def _shown(image: BuiltImage, name: str) -> str:
    value = getattr(image, name)
    return str(value) if isinstance(value, str) else f"image.{name} is set"
