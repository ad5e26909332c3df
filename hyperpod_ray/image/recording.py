"""What `hyperpod-ray image pin` records: digests of the base image and of copies, and the EFA installer's sha256.

The product's own checkout records the base and the installer in `versions.yaml`; a user's project records them in its
`images.lock.yaml`, beside the copies.
"""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray.core import project as projects
from hyperpod_ray.image import copies as locked_copies
from hyperpod_ray.image import installer as efa
from hyperpod_ray.image.registry import digest
from hyperpod_ray.image.versions import ImageSet, record_digest, record_installer


def base(chosen: ImageSet, *, project: Path | None, mirror: str | None, update: bool) -> list[str]:
    """Ask for the base image's digest, and record or confirm it.

    Args:
        chosen: The image set.
        project: The project's folder.
        mirror: Registry to ask instead of the image's own.
        update: Whether the new digest of a tag that was moved is taken.

    Returns:
        One line that says what was recorded.

    Raises:
        ImageError: No answer, or another digest than the recorded one.
    """
    resolved = digest(chosen.base, chosen.tag, mirror=mirror)
    name = f"{chosen.base}:{chosen.tag}"
    if projects.ships(project):
        result = record_digest(chosen, resolved, update=update)
    else:
        result = locked_copies.record_base(name, resolved, project=project, update=update)
    return [f"{name}@{resolved}: {result}"]


def installer(chosen: ImageSet, *, project: Path | None, file: Path | None, update: bool) -> list[str]:
    """Take the sha256 of AWS's EFA installer, and record or confirm it.

    Args:
        chosen: The image set, whose `efa_version` names the installer.
        project: The project's folder.
        file: A downloaded installer. Default: AWS's site.
        update: Whether another sha256 of the same version is taken.

    Returns:
        One line that says what was recorded.

    Raises:
        ImageError: No answer, another file, or another sha256 than the recorded one.
    """
    sha256 = efa.sha256_of(chosen.efa_version, file=file)
    name = f"aws-efa-installer-{chosen.efa_version}.tar.gz"
    if projects.ships(project):
        result = record_installer(chosen, sha256, update=update)
    else:
        result = locked_copies.record_base(name, sha256, project=project, update=update)
    return [f"{name} {sha256}: {result}"]


def copies(*, project: Path | None, mirror: str | None, update: bool) -> list[str]:
    """Ask for the digests of the images that a mirror copies, and record or confirm them.

    Args:
        project: The project's folder.
        mirror: Registry to ask instead of the images' own.
        update: Whether the new digest of a tag that was moved is taken.

    Returns:
        A line for each image.

    Raises:
        ImageError: No answer, or another digest than the recorded one.
    """
    return locked_copies.pin(locked_copies.asked(mirror), update=update, project=project)
