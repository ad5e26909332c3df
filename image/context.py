"""The build context: exactly the files that the Dockerfile copies, so that nothing else changes the image's tag."""

from __future__ import annotations

import shutil
from pathlib import Path

from image.versions import FILE, ImageSet

PROJECT = FILE.parents[1]
DOCKERFILE = "image/Dockerfile"


def stage(target: Path, *, chosen: ImageSet) -> None:
    """Copy Dockerfile, the set's requirements and the library that travels in the image into an empty folder."""
    for file in (PROJECT / DOCKERFILE, chosen.requirements, PROJECT / "jobs" / "__init__.py"):
        copy = target / file.relative_to(PROJECT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    library = Path("jobs") / "resilience"
    shutil.copytree(PROJECT / library, target / library, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
