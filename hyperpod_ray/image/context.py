"""The build context: exactly the files that the Dockerfile copies, so that nothing else changes the image's tag."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from hyperpod_ray.core.image_packages import distributions
from hyperpod_ray.core.image_sets import installer_files
from hyperpod_ray.core.names import LEFT_BY_TOOLS
from hyperpod_ray.core.project import PACKAGE
from hyperpod_ray.core.version import __version__
from hyperpod_ray.image.versions import ImageError, ImageSet

DOCKERFILE = "hyperpod_ray/image/Dockerfile"
SHARED = ("hyperpod_ray/image/requirements-build.txt", "hyperpod_ray/image/requirements-tiered.txt")
"""Requirements of every set."""
FABRIC = ("hyperpod_ray/image/efa/install.sh", "hyperpod_ray/image/efa/check_plugin.py")
"""What installs and checks the plugin by which NCCL uses EFA."""
WHEELS = "hyperpod_ray/image/wheels"
"""Wheels that travel with a build. The folder is there without them too: the Dockerfile mounts it."""
EMPTY = ".keep"
LIBRARY = "hyperpod_ray_training"
"""The training library, as a distribution of its own."""
OWN = "hyperpod_ray/image/requirements-own.txt"
"""Packages of the environment's own; the project's file has none."""


def stage(target: Path, *, chosen: ImageSet, own_lock: Path | None = None, wheels: Path | None = None) -> None:
    """Copy Dockerfile, the set's requirements and the library that travels in the image into an empty folder.

    Args:
        own_lock: The lock of the environment's own packages. Default: none.
        wheels: Folder of wheels. Default: none.
    """
    for name in (DOCKERFILE, f"hyperpod_ray/image/{chosen.requirements.name}", *SHARED, *FABRIC):
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PACKAGE.parent / name, copy)
    shutil.copyfile(own_lock or PACKAGE.parent / OWN, target / OWN)
    wheels_folder = target / WHEELS
    wheels_folder.mkdir()
    (wheels_folder / EMPTY).touch()
    for file in [*distributions(wheels), *_installer(wheels)] if wheels else []:
        # not a second copy of gigabytes, where the file system allows it
        try:
            os.link(file, wheels_folder / file.name)
        except OSError:
            shutil.copyfile(file, wheels_folder / file.name)
    ignore = shutil.ignore_patterns(*LEFT_BY_TOOLS)
    shutil.copytree(_library(), target / LIBRARY, ignore=ignore)
    # as in a source distribution; with the commit, each commit would be another image
    (target / LIBRARY / "PKG-INFO").write_text(
        f"Metadata-Version: 2.4\nName: {LIBRARY.replace('_', '-')}\nVersion: {__version__}\n", encoding="utf-8"
    )


def _installer(folder: Path) -> list[Path]:
    """The EFA installer, its signature and AWS's key, those of them that a folder has."""
    return [path for name in installer_files() if (path := folder / name).is_file()]


def _library() -> Path:
    """The folder of the training library as it is installed here: its wheel holds its own `pyproject.toml`."""
    spec = importlib.util.find_spec(LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ImageError(
            f"{LIBRARY} is not installed",
            expected="the training library, which the image installs",
            fix="pip install hyperpod-ray-training",
        )
    return Path(spec.submodule_search_locations[0])
