"""`hyperpod-ray image`: the parameter set of the container image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hyperpod_ray.cli.options import Env, any_target, command, current, group, project_folder
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, ERROR, OK, OpsError

app = group(
    "Show and pin the container image; lock packages of your own.",
    examples=["image pin", "image lock research"],
)


def register(root: typer.Typer) -> None:
    """Add the group to the root."""
    root.add_typer(app, name="image")


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
        chosen = choose(set_name)
        chosen.require_complete()
    except ImageError as error:
        raise OpsError.of(error, code=BAD_USE) from error
    for name, value in chosen.build_args().items():
        output.write_line(f"--build-arg {name}={value}")
    return OK


PARTS = ("base", "installer", "copies")
"""What `image pin` records: the base image, AWS's EFA installer, and the images that a mirror copies."""


@command(
    app,
    examples=[
        "image pin",
        "image pin cu130 --update",
        "image pin --only copies --update",
        "image pin --only installer --installer wheels/aws-efa-installer-1.50.0.tar.gz",
    ],
)
def pin(
    set_name: SetName = None,
    only: Annotated[
        Literal["base", "installer", "copies"] | None,
        typer.Option("--only", help="Record this part only."),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Accept another digest of the same tag or version.")] = False,
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask this registry instead of the images' own.")
    ] = None,
    installer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="EFA installer that you downloaded. Default: AWS's site.")
    ] = None,
) -> int:
    """Record the digests of images and installer.

    They are the base image's, the EFA installer's, and those of the images that a mirror copies.

    Confirms those that are recorded. Writes images.lock.yaml of the project; in the product's own checkout,
    hyperpod_ray/image/versions.yaml and the package's lock. Builds verify the installer's
    signature, too.
    """
    from hyperpod_ray.core import project
    from hyperpod_ray.image import recording
    from hyperpod_ray.image.versions import ImageError, choose

    try:
        top = project.root(current.folder or project.environments())
        chosen = choose(set_name, project=top)
    except ImageError as error:
        raise OpsError.of(error, code=BAD_USE) from error
    record = {
        "base": lambda: recording.base(chosen, project=top, mirror=mirror, update=update),
        "installer": lambda: recording.installer(chosen, project=top, file=installer, update=update),
        "copies": lambda: recording.copies(project=top, mirror=mirror, update=update),
    }
    problems = []
    for part in [only] if only else PARTS:
        try:
            for line in record[part]():
                output.write_line(line)
        except ImageError as error:  # one part's source may be out of reach; the others are recorded all the same
            problems.append(error)
    if problems:
        raise OpsError.of(problems[0] if len(problems) == 1 else ImageError.together(map(str, problems)), code=ERROR)
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
