"""Which images this product can build: the sets of `image/versions.yaml`, by architecture and accelerator."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray.core.project import PACKAGE
from hyperpod_ray.core.project_files import ProjectFileError, read_mapping

FOLDER = "image"
"""What `image.folder` says for the product's own image; any other folder is built as it is."""
SETS = PACKAGE / "image"
"""Folder of the Dockerfile, the sets, and their locks."""


@dataclass(frozen=True, kw_only=True)
class BuildableImage:
    """What the default set of an image folder gives."""

    name: str
    """Name of the set."""
    ray: str
    """Version of Ray in it."""
    architecture: str
    """`x86_64` or `arm64`."""
    base: str
    """Image that it is built from, by tag."""
    digest: str
    """Digest of the base; empty: nobody recorded it yet, and no image is built."""
    accelerator: str
    """`nvidia` or `neuron`. CPU nodes run every image of their architecture."""


def fields_of(sets: dict[str, Any], name: str) -> dict[str, Any]:
    """What a set is made of: its own entry, on top of the one that it extends."""
    fields = dict(sets[name])
    return {**sets[fields.pop("extends")], **fields} if "extends" in fields else fields


@functools.cache
def _data() -> dict[str, Any]:
    file = SETS / "versions.yaml"
    data = read_mapping(file)
    sets = data.get("sets")
    if not isinstance(sets, dict) or data.get("default") not in sets or not all(map(_is_set, sets.values())):
        raise ProjectFileError(
            f"{file.name}: its sets cannot be read",
            expected="ray, default and sets, each a mapping",
            fix=f"git checkout HEAD -- {file}",
        )
    return data


def _is_set(value: Any) -> bool:
    return isinstance(value, dict)


def set_names() -> list[str]:
    """Names of the sets, the default first."""
    return sorted(_data()["sets"], key=lambda name: (name != _data()["default"], name))


def requirements_of(name: str) -> Path:
    """The lock of a set."""
    return SETS / f"requirements-{name}.txt"


def shared_requirements() -> list[Path]:
    """The locks that every image of the project has besides its set's."""
    return [SETS / f"requirements-{name}.txt" for name in ("build", "tiered")]


@functools.cache
def default_image(folder: str, name: str | None = None) -> BuildableImage | None:
    """The image that a deploy builds from a folder; None for a folder other than the project's own, or an unknown set.

    Args:
        folder: The folder of the environment's `image`.
        name: Its set. Default: the default set.
    """
    data = _data()
    name = name or str(data["default"])
    if folder != FOLDER or name not in data["sets"]:
        return None
    chosen = fields_of(data["sets"], name)
    return BuildableImage(
        name=name,
        ray=str(data["ray"]),
        base=f"{chosen['base']}:{chosen['tag']}",
        digest=chosen["digest"],
        architecture=chosen["architecture"],
        accelerator=chosen["accelerator"],
    )


def missing_installer(folder: str) -> str:
    """The EFA installer that a folder's image needs and whose sha256 nobody recorded yet; empty: none is missing."""
    return installer_files()[0] if folder == FOLDER and not _data()["efa"]["sha256"] else ""


def installer_files() -> tuple[str, str, str]:
    """Names of the EFA installer, its signature, and the key that signed it, as AWS's site has them."""
    archive = f"aws-efa-installer-{_data()['efa']['version']}.tar.gz"
    return archive, f"{archive}.sig", "aws-efa-installer.key"
