"""Digests of the images that a mirror copies: `images.lock.yaml`, which this writes and `core.needs` reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core import project as places
from hyperpod_ray.core.images import Reference, chart_images, read_lock
from hyperpod_ray.core.names import CHARTS
from hyperpod_ray.core.needs import IMAGE_LOCK
from hyperpod_ray.core.today import today
from hyperpod_ray.image.registry import digest
from hyperpod_ray.image.versions import ImageError

LOCK = "charts.lock.yaml"
HEADER = (
    "# Digests of the images that a mirror copies (`registries.mirror`), by the name and tag of the locked charts.\n"
    "# `hyperpod-ray image pin` asks the registries and records them: commit this file then. Without a digest\n"
    "# the Mirror stack is refused, not guessed.\n"
)
Ask = Callable[[Reference], str]


def upstream(project: Path | None = None) -> list[Reference]:
    """Images of the locked charts that are in no Amazon ECR registry and can be replaced by a copy, by name and tag."""
    references = {
        str(reference): reference
        for chart in CHARTS
        for image in chart_images(LOCK, chart, project=project)
        if image.levers and (reference := Reference.parse(image.image or next(iter(image.images.values())))).ecr is None
    }
    return [references[name] for name in sorted(references)]


def asked(mirror: str | None) -> Ask:
    """The registry's own answer, or that of another registry which is asked for all of them."""
    return lambda reference: digest(reference.name, reference.tag, mirror=mirror)


def record_base(name: str, digest: str, *, project: Path | None, update: bool = False) -> str:
    """Record the digest of an image's base in the lock of a user's project; what was done, in words.

    Args:
        name: The base with its tag.
        digest: What the registry says.
        project: The user's project.
        update: Whether a moved tag's new digest is taken.

    Raises:
        ImageError: Another digest is recorded.
    """
    file = places.to_write(project, IMAGE_LOCK)
    content = read_lock(places.file(project, IMAGE_LOCK))
    images = dict(content.get("images") or {})
    recorded = images.get(name)
    if recorded == digest:
        return f"still what {file.name} says"
    if recorded and not update:
        raise ImageError(
            f"{name} now has digest {digest}: the tag was moved; builds still use the recorded one",
            expected=f"{recorded}, as in {file.name}",
            fix="to use the new one: hyperpod-ray image pin --update",
        )
    _write(file, {**content, "images": {**images, name: digest}})
    return f"recorded in {file.name}; commit it"


def _write(file: Path, content: dict[str, Any]) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(HEADER + yaml.safe_dump(content, width=200, sort_keys=False), encoding="utf-8")
    fresh.replace(file)


def pin(ask: Ask, *, update: bool = False, file: Path | None = None, project: Path | None = None) -> list[str]:
    """Record every image's digest, or confirm the recorded one; one line for each.

    Nothing is written where a registry does not answer, or where a tag was moved and `update` is not set.

    Args:
        ask: Asks a registry for the digest of an image.
        update: Whether a moved tag's new digest is taken.
        file: File to write. Default: the project's own; in the product's checkout, the package's.
        project: The user's project.

    Raises:
        ImageError: No answer, or another digest than the recorded one.
    """
    before = file or places.file(project, IMAGE_LOCK)
    file = file or places.to_write(project, IMAGE_LOCK)
    content = read_lock(before)
    digests = content.get("images") or {}
    # what `image pin` recorded is not a chart's image, and stays
    pinned: dict[str, str] = {} if places.ships(project) or project is None else {**digests}
    lines = []
    for reference in upstream(project):
        name, resolved = str(reference), ask(reference)
        recorded = digests.get(name)
        if recorded and recorded != resolved and not update:
            raise ImageError(
                f"{name} now has digest {resolved}: the tag was moved; copies still use the recorded one",
                expected=f"{recorded}, as in {file.name}",
                fix="to use the new one: hyperpod-ray image pin --only copies --update",
            )
        pinned[name] = resolved
        lines.append(
            f"{name}@{resolved}: {'unchanged' if recorded == resolved else f'recorded in {file.name}; commit it'}"
        )
    # all of them were asked today
    _write(file, {"about": [{**about, "as_of": today()} for about in content.get("about") or []], "images": pinned})
    return lines
