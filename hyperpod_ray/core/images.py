"""References of container images, and what the locked Helm charts bring: the record beside a chart lock."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperpod_ray.core import project as places
from hyperpod_ray.core.project_files import ProjectFileError, read_mapping

_ECR = re.compile(r"^(\d{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?)$")


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A container image by registry, repository, tag and digest."""

    registry: str
    """Host, with a port where it has one; `docker.io` where the reference names none."""
    repository: str
    tag: str = ""
    digest: str = ""
    """`sha256:…`, or empty."""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read `HOST/REPOSITORY:TAG@DIGEST`, each part but the repository optional, as container runtimes do.

        https://github.com/distribution/reference/blob/main/normalize.go
        """
        name, _, digest = text.partition("@")
        prefix, slash, rest = name.partition("/")
        host, path = (
            (prefix, rest) if slash and ("." in prefix or ":" in prefix or prefix == "localhost") else ("", name)
        )
        path, _, tag = path.partition(":")
        if not host:
            host, path = "docker.io", path if "/" in path else f"library/{path}"
        return cls(registry=host, repository=path, tag=tag, digest=digest)

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def ecr(self) -> tuple[str, str] | None:
        """Account and region of a private Amazon ECR registry; None for any other registry."""
        match = _ECR.match(self.registry)
        return (match.group(1), match.group(2)) if match else None

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True, kw_only=True)
class ChartImage:
    """One image of a packaged chart."""

    component: str
    """The sub-chart it comes from; empty: the chart itself."""
    condition: str
    """Path of the value that switches the sub-chart on; empty: always."""
    image: str = ""
    """The image, where it is one for all regions."""
    images: Mapping[str, str] = field(default_factory=dict)
    """Otherwise the image by region."""
    levers: Mapping[str, str] = field(default_factory=dict)
    """Paths of the values that change it: `repository` and `tag`, or `image` for both; empty: it cannot be changed."""

    def at(self, region: str) -> Reference | None:
        """The image that the chart names by itself in a region; None in a region that it does not know."""
        name = self.image or self.images.get(region)
        return Reference.parse(name) if name else None

    def as_data(self) -> dict[str, Any]:
        """For the file."""
        source = {"image": self.image} if self.image else {"images": dict(self.images)}
        return {"component": self.component, "condition": self.condition, **source, "levers": dict(self.levers)}


def archives(lock: Path, folder: str, *, project: Path | None = None) -> Path:
    """Where the packaged charts of a lock file are: in its `folder`, beside it.

    Those of a lock file that the product ships are in the cache of the user's project. In the product's own checkout
    they are in the checkout.

    Args:
        lock: The lock file.
        folder: Its `folder`.
        project: The user's project. Default: that of the current folder.
    """
    owner = places.owner(lock)
    if owner is None:
        return lock.parent / folder
    if places.ships(project or places.root()):
        return (places.PACKAGE.parent if owner == places.PACKAGE else lock.parent) / folder
    return places.cache("charts", project=project) / owner.name / folder


def contents_file(lock: Path) -> Path:
    """The record that belongs to a lock file: `charts.lock.yaml` has `charts.contents.yaml`."""
    return lock.with_name(lock.name.removesuffix(".lock.yaml").removesuffix(".yaml") + ".contents.yaml")


def read_lock(path: Path) -> dict[str, Any]:
    """The content of a lock file, or of the record beside one; empty where there is none.

    Raises:
        ProjectFileError: it cannot be read, such as after a merge that left conflict markers in it.
    """
    try:
        state = path.stat()
    except OSError:
        return {}
    return _parsed(path, state.st_mtime_ns, state.st_size)


@functools.cache
def _parsed(path: Path, _changed_ns: int, _size: int) -> dict[str, Any]:
    return read_mapping(path)


def chart_images(lock_file: str, chart: str, *, project: Path | None = None) -> tuple[ChartImage, ...]:
    """Images of a locked chart, by the record beside its lock; none where there is no record."""
    record = contents_file(places.file(project, lock_file))
    try:
        chart_record = read_lock(record).get(chart) or {}
        return tuple(ChartImage(**image) for image in chart_record.get("images", []))
    except (TypeError, AttributeError) as error:
        raise ProjectFileError(
            f"{record.name}: {chart}: {error}", expected="what `charts fetch` writes", fix="hyperpod-ray charts fetch"
        ) from error


def chart_values(lock_file: str, chart: str, *, project: Path | None = None) -> tuple[str, ...]:
    """Paths of the values that a locked chart knows, likewise."""
    chart_record = read_lock(contents_file(places.file(project, lock_file))).get(chart) or {}
    return tuple(chart_record.get("values", []))
