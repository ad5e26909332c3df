"""Digests of the images that a mirror copies: `images.lock.yaml`, which this writes and `core.needs` reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from hyperpod_ray.core.images import Reference, chart_images
from hyperpod_ray.core.names import CHARTS
from hyperpod_ray.core.needs import IMAGE_LOCK
from hyperpod_ray.core.project_files import read_mapping
from hyperpod_ray.core.today import today
from hyperpod_ray.image.registry import digest
from hyperpod_ray.image.versions import ImageError

LOCK = "charts.lock.yaml"
HEADER = (
    "# Digests of the images that a mirror copies (`registries.mirror`), by the name and tag of the locked charts.\n"
    "# `make pin` asks the registries and records them: commit this file then. Without a digest the Mirror stack is\n"
    "# refused, not guessed.\n"
)
Ask = Callable[[Reference], str]


def upstream() -> list[Reference]:
    """Images of the locked charts that are in no Amazon ECR registry and can be replaced by a copy, by name and tag."""
    found = {
        str(reference): reference
        for chart in CHARTS
        for image in chart_images(LOCK, chart)
        if image.levers and (reference := Reference.parse(image.image or next(iter(image.images.values())))).ecr is None
    }
    return [found[name] for name in sorted(found)]


def asked(mirror: str | None) -> Ask:
    """The registry's own answer, or that of another registry which is asked for all of them."""
    return lambda reference: digest(reference.name, reference.tag, mirror=mirror)


def pin(ask: Ask, *, update: bool = False, file: Path = IMAGE_LOCK) -> list[str]:
    """Record every image's digest, or confirm the recorded one; one line for each.

    Nothing is written where a registry does not answer, or where a tag was moved and `update` is not set.

    Raises:
        ImageError: No answer, or another digest than the recorded one.
    """
    whole = read_mapping(file) if file.is_file() else {}
    there = whole.get("images") or {}
    made: dict[str, str] = {}
    lines = []
    for reference in upstream():
        name, found = str(reference), ask(reference)
        recorded = there.get(name)
        if recorded and recorded != found and not update:
            raise ImageError(
                f"{name} now has digest {found}: the tag was moved; copies still use the recorded one",
                expected=f"{recorded}, as in {file.name}",
                fix="to use the new one: hyperpod-ray image pin-copies --update",
            )
        made[name] = found
        lines.append(f"{name}@{found}: {'unchanged' if recorded == found else f'recorded in {file.name}; commit it'}")
    fresh = file.with_suffix(".new")
    # all of them were asked today
    content = {"about": [{**item, "as_of": today()} for item in whole.get("about") or []], "images": made}
    fresh.write_text(HEADER + yaml.safe_dump(content, width=200, sort_keys=False), encoding="utf-8")
    fresh.replace(file)
    return lines
