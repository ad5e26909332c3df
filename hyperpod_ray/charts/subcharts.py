"""Sub-charts inside a chart's files: by name, one each.

Helm loads `charts/NAME/` and `charts/NAME-VERSION.tgz` alike. Where a chart carries one name twice, each rendering uses
one of the two at random: the same values then give different objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import yaml

from hyperpod_ray.charts import archive
from hyperpod_ray.charts.errors import ChartError

ARCHIVES = (".tgz", ".tar.gz")


def where_each_is(tree: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Name in `Chart.yaml` of every sub-chart, and the folders and archives below `charts/` that hold it."""
    by_name: dict[str, list[str]] = {}
    for folder, about in _each(tree):
        by_name.setdefault(str(about.get("name")), []).append(folder)
    return by_name


def remove(tree: Mapping[str, bytes], name: str, *, where: str) -> archive.Tree:
    """The chart without a sub-chart: no files of it, no dependency on it. ChartError where nothing is called so."""
    about = _about(tree["Chart.yaml"], where)
    dependencies = [dependency for dependency in about.get("dependencies") or [] if dependency.get("name") != name]
    places = where_each_is(tree).get(name, [])
    if not places and len(dependencies) == len(about.get("dependencies") or []):
        available = ", ".join(
            sorted({*where_each_is(tree), *(str(dependency.get("name")) for dependency in dependencies)})
        )
        raise ChartError(
            f"{where}.without: no sub-chart {name!r}",
            expected=f"one of {available or 'none'}",
            fix="correct `without` in the lock",
        )
    kept = {path: data for path, data in tree.items() if not _below(path, places)}
    kept["Chart.yaml"] = yaml.safe_dump({**about, "dependencies": dependencies}, sort_keys=False).encode()
    return kept


def without_archive(tree: Mapping[str, bytes], name: str) -> archive.Tree:
    """The chart without the copies of a sub-chart that it carries itself: the locked one takes their place."""
    places = where_each_is(tree).get(name, [])
    return {path: data for path, data in tree.items() if not _below(path, places)}


def without_shadowed_archives(tree: Mapping[str, bytes]) -> archive.Tree:
    """The chart without the archives of sub-charts that are there as a folder too.

    A folder is what a maintainer edits; an archive of the same name is what `helm dependency build` once left behind.
    """
    kept = dict(tree)
    for places in where_each_is(tree).values():
        folders = [folder for folder in places if not folder.endswith(ARCHIVES)]
        for folder in places:
            if len(folders) == 1 and folder.endswith(ARCHIVES):
                del kept[folder]
    return kept


def refuse_duplicates(tree: Mapping[str, bytes], *, where: str) -> None:
    """ChartError where a sub-chart's name is there more than once."""
    for name, places in where_each_is(tree).items():
        if len(places) > 1:
            raise ChartError(
                f"{where}: sub-chart {name!r} occurs {len(places)} times ({', '.join(sorted(places))})",
                expected="one: Helm would use any of them",
                fix="lock a version of the chart that carries it once",
            )


def _each(tree: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, data in tree.items():
        parts = PurePosixPath(path).parts
        if len(parts) == 3 and parts[0] == "charts" and parts[2] == "Chart.yaml":
            yield "/".join(parts[:2]), _about(data, path)
        elif len(parts) == 2 and parts[0] == "charts" and path.endswith(ARCHIVES):
            inner = archive.read(data, name=path)
            top = min(inner, key=lambda name: (len(PurePosixPath(name).parts), name))
            folder = PurePosixPath(top).parts[0]
            yield path, _about(inner.get(f"{folder}/Chart.yaml", b""), path)


def _about(data: bytes, where: str) -> dict[str, Any]:
    try:
        about = yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise ChartError(
            f"{where}: Chart.yaml is not YAML: {' '.join(str(error).split())}",
            expected="a chart",
            fix="correct the source in the lock",
        ) from error
    if not isinstance(about, dict):
        raise ChartError(f"{where}: no usable Chart.yaml", expected="a chart", fix="correct the source in the lock")
    return about


def _below(path: str, places: list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in places)
