"""Where the platform data of this project comes from, as of which day, and when to look again.

A data file begins with `about:`, a list with one entry for each set of facts in it. A file of dated entries (`read` and
`source` in each, such as prices) needs none: the oldest entry counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hyperpod_ray.core import project
from hyperpod_ray.core.errors import ProjectError

FILES = (
    "hyperpod_ray_rules/data/platform_versions.yaml",
    "hyperpod_ray_rules/data/instance_types.yaml",
    "hyperpod_ray_rules/data/eks_images.yaml",
    "hyperpod_ray/core/catalogue/instance_type_regions.yaml",
    "hyperpod_ray/core/catalogue/needs.yaml",
    "hyperpod_ray/core/catalogue/quotas.yaml",
    "hyperpod_ray/locks/charts.lock.yaml",
    "hyperpod_ray/locks/images.lock.yaml",
    "hyperpod_ray/image/versions.yaml",
    "hyperpod_ray/planner/data/failures.yaml",
    "hyperpod_ray/planner/data/gpus.yaml",
    "hyperpod_ray/planner/data/memory.yaml",
    "hyperpod_ray/planner/data/models.yaml",
    "hyperpod_ray/planner/data/storage.yaml",
    "hyperpod_ray/planner/data/published.yaml",
    "hyperpod_ray/planner/data/speed.yaml",
    "hyperpod_ray/planner/data/times.yaml",
    "hyperpod_ray/pricing/ec2_by_region.yaml",
    "hyperpod_ray/pricing/prices_usd.yaml",
    "hyperpod_ray/review/durations.yaml",
    "hyperpod_ray/review/facts.yaml",
    "hyperpod_ray/review/severity.yaml",
)
"""Data files, relative to the folder of the packages."""
PRICES = "hyperpod_ray/pricing/prices_usd.yaml"
PRICES_STALE_AFTER_DAYS = 90
State = Literal["current", "stale", "behind", "expired"]


class ProvenanceError(ProjectError):
    """A data file does not say where it comes from."""


class About(BaseModel):
    """One entry of `about:`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str = Field(min_length=3)
    """The facts, in a few words."""
    as_of: date
    """The day on which they were compared with the source."""
    source: str = Field(min_length=3)
    """Where they come from: a page, an API model, a repository at a commit."""
    stale_after_days: int = Field(gt=0)
    """Age from which they are to be compared again."""
    until: date | None = None
    """A day from which they are known to be wrong, whatever their age."""
    newer: str = ""
    """What is known to be newer, with its day and source, and is not taken yet."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One set of facts, judged on a day."""

    what: str
    file: str
    as_of: date
    age_days: int
    """From `as_of` to the day."""
    stale_on: date
    """The first day on which the set is stale by age, or wrong."""
    state: State
    """`current`; `stale`: too old; `expired`: past `until`; `behind`: something newer is known."""
    source: str
    note: str
    """What is newer, or why the set expired."""


def data_sets(day: date) -> list[DataSet]:
    """All sets of facts, in the order of the files. A file that this installation lacks has none.

    Raises:
        ProvenanceError: a file has no `about`, or a flawed one.
    """
    return [
        _judged(name, about, day)
        for name in FILES
        if (path := project.shipped(name)).is_file()
        for about in about_of(path, name)
    ]


def about_of(path: Path, name: str) -> list[About]:
    """The entries of one file.

    Raises:
        ProvenanceError: there is none, or one is flawed.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is built in, for a fast start
    data = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506  (safe loaders, both)
    if name == PRICES:
        return [_prices(section, entries) for section in data if (entries := list(_entries(data[section])))]
    try:
        notes = [About.model_validate(note) for note in data.get("about") or []]
    except ValidationError as bad:
        detail = bad.errors()[0]
        raise ProvenanceError(
            f"{name}: about.{'.'.join(map(str, detail['loc']))}: {detail['msg']}",
            expected="what, as_of, source and stale_after_days",
            fix="correct the file",
        ) from bad
    if not notes:
        raise ProvenanceError(
            f"{name}: no about", expected="what, as_of, source and stale_after_days", fix="add the section"
        )
    return notes


def _entries(node: Any) -> Iterator[dict[str, Any]]:
    """Entries with a day of their own, at any depth."""
    if isinstance(node, dict):
        if isinstance(node.get("as_of"), date):
            yield node
        else:
            for value in node.values():
                yield from _entries(value)


def _prices(section: str, entries: list[dict[str, Any]]) -> About:
    return About(
        what=f"prices: {section} (the oldest of {len(entries)})",
        as_of=min(price["as_of"] for price in entries),
        source="each entry's own; update with `hyperpod-ray cost ENV --update`",
        stale_after_days=PRICES_STALE_AFTER_DAYS,
    )


def _judged(file: str, about: About, day: date) -> DataSet:
    by_age = about.as_of + timedelta(days=about.stale_after_days)
    stale_on = min(by_age, about.until or by_age)
    state: State = "current"
    if about.newer:
        state = "behind"
    if day >= by_age:
        state = "stale"
    if about.until and day >= about.until:
        state = "expired"
    return DataSet(
        what=about.what, file=file, as_of=about.as_of, age_days=(day - about.as_of).days, stale_on=stale_on,
        state=state, source=about.source, note=f"newer: {about.newer}" if about.newer else "",
    )  # fmt: skip
