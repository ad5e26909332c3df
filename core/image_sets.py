"""Which images this project can build: the sets of `image/versions.yaml`, by architecture and accelerator."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[1]
FOLDER = "image"
"""The project's own image folder; any other is built as it is, and nothing is known about its content."""


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


@functools.cache
def default_image(folder: str) -> BuildableImage | None:
    """The image that a deploy builds from a folder; None for a folder other than the project's own."""
    if folder != FOLDER:
        return None
    data: dict[str, Any] = yaml.safe_load((PROJECT / folder / "versions.yaml").read_text(encoding="utf-8"))
    chosen = data["sets"][data["default"]]
    return BuildableImage(
        name=data["default"],
        ray=str(data["ray"]),
        base=f"{chosen['base']}:{chosen['tag']}",
        digest=chosen["digest"],
        architecture=chosen["architecture"],
        accelerator=chosen["accelerator"],
    )
