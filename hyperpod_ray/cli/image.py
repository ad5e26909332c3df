"""`hyperpod-ray image`: the parameter set of the container image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperpod_ray.cli.options import Env, any_target, command, current, folder, group, project_folder
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, ERROR, OK, OpsError

app = group(
    "Show and pin the container image; lock packages of your own.",
    examples=["image pin", "image lock research"],
)
SetName = Annotated[
    str | None,
    typer.Argument(metavar="[SET]", help="Parameter set in hyperpod_ray/image/versions.yaml. Default: its `default`."),
]


@command(app, "build-args", examples=["image build-args", "image build-args cu130"])
def build_args(set_name: SetName = None) -> int:
    """Print the Docker build arguments of a parameter set. Exit code 2 while its digest is unknown.

    To build manually: docker build -f hyperpod_ray/image/Dockerfile $(hyperpod-ray image build-args) .
    """
    from hyperpod_ray.image.versions import ImageError, choose

    try:
        arguments = choose(set_name).build_args()
    except ImageError as error:
        raise OpsError.of(error, code=BAD_USE) from error
    for name, value in arguments.items():
        output.write_line(f"--build-arg {name}={value}")
    return OK


@command(app, examples=["image pin", "image pin cu130 --update"])
def pin(
    set_name: SetName = None,
    update: Annotated[bool, typer.Option("--update", help="Accept a new digest where the tag has moved.")] = False,
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask this registry instead of the base's own.")
    ] = None,
) -> int:
    """Record the digest of the base image. Writes images.lock.yaml of the project, or confirms the recorded digest.

    In the product's own checkout it writes hyperpod_ray/image/versions.yaml.
    """
    from hyperpod_ray.core import project
    from hyperpod_ray.image.copies import record_base
    from hyperpod_ray.image.registry import digest
    from hyperpod_ray.image.versions import ImageError, choose, record_digest

    try:
        top = project.root(current.folder or project.environments())
        chosen = choose(set_name, project=top)
    except ImageError as error:
        raise OpsError.of(error, code=BAD_USE) from error
    try:
        resolved = digest(chosen.base, chosen.tag, mirror=mirror)
        if project.ships(top):
            result = record_digest(chosen, resolved, update=update)
        else:
            result = record_base(f"{chosen.base}:{chosen.tag}", resolved, project=top, update=update)
    except ImageError as error:
        raise OpsError.of(error, code=ERROR) from error
    output.write_line(f"{chosen.base}:{chosen.tag}@{resolved}: {result}")
    return OK


@command(app, "pin-efa", examples=["image pin-efa", "image pin-efa --file wheels/aws-efa-installer-1.50.0.tar.gz"])
def pin_efa(
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Installer that you downloaded. Default: AWS's site.")
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Accept another sha256 of the same version.")] = False,
) -> int:
    """Record the sha256 of AWS's EFA installer.

    Writes images.lock.yaml of the project; in the product's own checkout, hyperpod_ray/image/versions.yaml. Builds
    verify the installer's signature, too.
    """
    from hyperpod_ray.core import project
    from hyperpod_ray.image import installer
    from hyperpod_ray.image.copies import record_base
    from hyperpod_ray.image.versions import ImageError, choose, record_installer

    try:
        top = project.root(current.folder or project.environments())
        chosen = choose(project=top)
        sha256 = installer.sha256_of(chosen.efa_version, file=file)
        if project.ships(top):
            result = record_installer(chosen, sha256, update=update)
        else:
            name = f"aws-efa-installer-{chosen.efa_version}.tar.gz"
            result = record_base(name, sha256, project=top, update=update)
    except ImageError as error:
        raise OpsError.of(error, code=ERROR) from error
    output.write_line(f"aws-efa-installer-{chosen.efa_version}.tar.gz {sha256}: {result}")
    return OK


@command(app, examples=["image lock research"])
def lock(env: Env) -> int:
    """Lock the environment's own packages, with hashes.

    They are those of `image.requirements`. Exit code 2 on a conflict.
    """
    from hyperpod_ray.core.image_packages import entries
    from hyperpod_ray.image import own
    from hyperpod_ray.image.versions import ImageError, choose

    chosen = any_target(env)
    settings = chosen.plan.built_image
    if settings is None or settings.requirements is None:
        raise OpsError(
            f"'{env}' names no packages of its own",
            expected="image.requirements, a requirements file",
            fix="set it in the environment's file",
            code=BAD_USE,
        )
    top = project_folder()
    file = top / settings.requirements
    if not file.is_file():
        raise OpsError(f"{file} is not there", expected="the file of image.requirements", fix="create it", code=BAD_USE)
    try:
        wheels = top / settings.wheels if settings.wheels else None
        written = own.lock(file, chosen=choose(settings.set), wheels=wheels, no_index=settings.no_index)
    except ImageError as error:
        raise OpsError.of(error, code=BAD_USE) from error
    count = len(entries(written.read_text(encoding="utf-8")))
    output.write_line(f"wrote {written}: {count} packages that the image set does not have; commit it")
    return OK


@command(app, "pin-copies", examples=["image pin-copies", "image pin-copies --update"])
def pin_copies(
    update: Annotated[bool, typer.Option("--update", help="Accept a new digest where a tag has moved.")] = False,
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask this registry instead of the images' own.")
    ] = None,
) -> int:
    """Record the digests of the images that a mirror copies. Writes images.lock.yaml, or confirms what it has."""
    from hyperpod_ray.image import copies
    from hyperpod_ray.image.versions import ImageError

    try:
        lines = copies.pin(copies.asked(mirror), update=update, project=project_folder())
    except ImageError as error:
        raise OpsError.of(error, code=ERROR) from error
    for line in lines:
        output.write_line(line)
    for page in _pages():
        output.write_line(f"wrote {page}")
    return OK


def _pages() -> list[Path]:
    """The kept pages of what environments need name the copies' tags: bring them up to date."""
    from hyperpod_ray import core
    from hyperpod_ray.core import needs_page

    written = []
    try:
        files = folder()
    except OpsError:
        return []
    for name in core.environment_names(folder=files):
        plan = core.load_any(name, folder=files).plan
        file, text = needs_page.file_of(plan), needs_page.page(plan)
        if file.exists() and file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            written.append(file)
    return written
