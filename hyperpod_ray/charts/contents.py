"""What the packaged charts hold, as data: `charts.contents.yaml` beside `charts.lock.yaml`.

The charts themselves are not under version control. Which images they bring to nodes, and which values they know, must
be known without them: for the nodes' permissions, for mirrors, and for checks of an environment file. So the command
that fetches a chart also renders it with Helm and records both, with the digest of the archive they come from.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.charts import archive, executable, store
from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.charts.lock import Lock, LockedChart, write_atomically
from hyperpod_ray.core.images import ChartImage, contents_file
from hyperpod_ray.core.project_files import read_mapping
from hyperpod_ray.core.service_limits import platform

HEADER = (
    "# What the locked charts hold: images, with the values that change them, and every key of their values.\n"
    "# Written by `hyperpod-ray charts fetch` from the archives of {lock}; do not edit.\n"
)
REGION = "global.region"
"""The value by which AWS's charts choose a registry."""
_PROBE = "probe.invalid/probe"
_PROBE_TAG = "probe-tag"
_VALUE = re.compile(r"\.Values((?:\.[A-Za-z0-9_-]+)+)")
_SOURCE = re.compile(r"^# Source: [^/\n]+/(?:charts/([^/\n]+)/)?", re.M)
_IMAGE = re.compile(r"(^|\.)([a-z]*image|image\.repository)$", re.I)
_TAG = re.compile(r"(^|\.)(image\.tag|[a-z]*imagetag)$", re.I)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What one packaged chart holds."""

    sha256: str | None
    """Of the archive; None for a chart that is a folder of the project."""
    images: tuple[ChartImage, ...]
    values: tuple[str, ...]
    """Paths of the values that the chart, its sub-charts or their templates know."""

    def as_data(self) -> dict[str, Any]:
        """For the file."""
        images = [image.as_data() for image in self.images]
        return {"sha256": self.sha256, "images": images, "values": list(self.values)}


def examine(locked: LockedChart) -> Contents:
    """Render a fetched chart and read its values. ChartError where it was not fetched, or where there is no Helm."""
    path = store.locate(locked)
    tree = archive.below(archive.read(path.read_bytes(), name=path.name), locked.chart, name=path.name)
    about, values = _yaml(tree, "Chart.yaml"), _yaml(tree, "values.yaml")
    keys = sorted(set(_keys(tree)))
    conditions = {
        str(dependency["name"]): str(dependency.get("condition") or "")
        for dependency in about.get("dependencies") or []
    }
    everything = _nested({condition: True for condition in conditions.values() if condition})
    images = _images(locked=locked, path=path, everything=everything, conditions=conditions, keys=keys, values=values)
    sha256 = None if locked.source.folder else store.digest(path.read_bytes())
    return Contents(sha256=sha256, images=tuple(images), values=tuple(keys))


def record(lock: Lock) -> list[str]:
    """Bring the contents file of a lock up to date; keys of the charts that were examined.

    A chart whose recorded digest is its archive's is not examined again.
    """
    recorded = _read(lock)
    contents: dict[str, Any] = {}
    examined: list[str] = []
    for key, locked in lock.charts.items():
        if not fits(locked, recorded.get(key)):
            recorded[key] = examine(locked).as_data()
            examined.append(key)
        contents[key] = recorded[key]
    if examined or set(contents) != set(_read(lock)):
        text = HEADER.format(lock=lock.path.name) + yaml.safe_dump(contents, sort_keys=False, width=120)
        write_atomically(contents_file(lock.path), text.encode())
    return examined


def fits(locked: LockedChart, recorded: Any) -> bool:
    """Whether a recorded entry describes the archive that the lock names. A folder's is examined each time."""
    return bool(recorded) and locked.sha256 is not None and recorded.get("sha256") == locked.sha256


def verify(lock: Lock) -> None:
    """ChartError for the first chart whose recorded contents are not what its archive holds.

    Where there is no Helm to run, the digests alone are compared.
    """
    recorded = _read(lock)
    rendered = executable.helm() is not None
    for key, locked in lock.charts.items():
        same = recorded.get(key) == examine(locked).as_data() if rendered else fits(locked, recorded.get(key))
        if not same:
            file = contents_file(lock.path)
            raise ChartError(
                f"{file}: {key}: stale",
                expected=f"what {locked.file_name} contains",
                fix="run `hyperpod-ray charts fetch` and commit the file",
            )


def unknown_values(values: Mapping[str, Any], value_paths: Sequence[str]) -> list[str]:
    """Paths of `values` that a chart does not know. What is below a known path (a map of labels, a list) is its own."""
    paths = set(value_paths)
    above = {path.rpartition(".")[0] for path in paths}

    def walk(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
        for key, value in node.items():
            path = f"{prefix}{key}"
            if path in paths:
                continue
            if isinstance(value, Mapping) and any(
                candidate == path or candidate.startswith(f"{path}.") for candidate in above
            ):
                yield from walk(value, f"{path}.")
            else:
                yield path

    return list(walk(values, ""))


def _read(lock: Lock) -> dict[str, Any]:
    path = contents_file(lock.path)
    return read_mapping(path) if path.is_file() else {}


def _keys(tree: Mapping[str, bytes], prefix: str = "") -> Iterator[str]:
    """Keys of the values file, of every sub-chart's below its name, of templates, and the dependencies' conditions."""
    dependencies = _yaml(tree, "Chart.yaml").get("dependencies") or []
    subs = {path.split("/")[1] for path in tree if re.fullmatch(r"charts/[^/]+/Chart\.yaml", path)}
    read = {"global", *(str(dependency["name"]) for dependency in dependencies), *subs}
    has_templates = any(path.startswith("templates/") for path in tree)
    defaults = _yaml(tree, "values.yaml")
    for key in _leaves(defaults, prefix) if defaults else ():
        # a chart without templates reads nothing itself: what it says of a sub-chart that is not there has no effect
        if has_templates or key[len(prefix) :].partition(".")[0] in read:
            yield key
    for dependency in dependencies:
        if dependency.get("condition"):
            yield prefix + str(dependency["condition"])
    for path, data in tree.items():
        if path.startswith("templates/"):
            yield from (prefix + match.lstrip(".") for match in _VALUE.findall(data.decode(errors="replace")))
    for sub in sorted(subs):
        inner = {
            path[len(f"charts/{sub}/") :]: data for path, data in tree.items() if path.startswith(f"charts/{sub}/")
        }
        name = str(_yaml(inner, "Chart.yaml").get("name"))
        for key in _keys(inner, f"{prefix}{name}."):
            # `global` is one for all
            yield key.removeprefix(f"{prefix}{name}.") if key.startswith(f"{prefix}{name}.global.") else key


def _leaves(node: Any, prefix: str) -> Iterator[str]:
    if not isinstance(node, dict) or not node:
        yield prefix.rstrip(".")
        return
    for key, value in node.items():
        yield from _leaves(value, f"{prefix}{key}.")


def _yaml(tree: Mapping[str, bytes], path: str) -> dict[str, Any]:
    document = yaml.safe_load(tree[path]) if path in tree else None
    return document if isinstance(document, dict) else {}


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        node = nested
        *above, leaf = path.split(".")
        for step in above:
            node = node.setdefault(step, {})
        node[leaf] = value
    return nested


def _images(
    *,
    locked: LockedChart,
    path: Path,
    everything: Mapping[str, Any],
    conditions: Mapping[str, str],
    keys: Sequence[str],
    values: Mapping[str, Any],
) -> Iterator[ChartImage]:
    """Every (component, image) that the chart renders with all its sub-charts on."""

    def render(**overrides: Any) -> dict[tuple[str, int], str]:
        return _rendered(locked, path, _merged(everything, _nested(overrides)))

    regions = platform().regions
    base = render(**{REGION: "us-west-2"})
    varies = render(**{REGION: "us-east-1"}) != base
    by_region = {region: render(**{REGION: region}) for region in regions} if varies else {}
    levers: dict[tuple[str, int], dict[str, str]] = {position: {} for position in base}
    for key in keys:
        for pattern, probe in ((_IMAGE, _PROBE), (_TAG, _PROBE_TAG)):
            if not pattern.search(key) or isinstance(_at(values, key), dict):
                continue
            for position, image in render(**{REGION: "us-west-2", key: probe}).items():
                if image == probe:
                    levers[position]["image"] = key
                elif image.startswith(f"{probe}:"):
                    levers[position]["repository"] = key
                elif image.endswith(f":{probe}"):
                    levers[position]["tag"] = key
    yielded = set()
    for position, image in base.items():
        component = position[0]
        regional = {region: images[position] for region, images in by_region.items()}
        chart_image = ChartImage(
            component=component,
            condition=conditions.get(component, ""),
            image="" if len(set(regional.values())) > 1 else image,
            images=regional if len(set(regional.values())) > 1 else {},
            levers=levers[position],
        )
        if (component, image) not in yielded:
            yielded.add((component, image))
            yield chart_image


def _rendered(locked: LockedChart, path: Path, values: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """(sub-chart or "", position in it) to the image there."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values)), encoding="utf-8")
        text = executable.render(path, release=locked.key, namespace="default", values=file)
    images: dict[tuple[str, int], str] = {}
    for document in re.split(r"^---$", text, flags=re.M):
        source = _SOURCE.search(document)
        if source is None:
            continue
        component = source.group(1) or ""
        for image in images_of(yaml.safe_load(document)):
            images[component, sum(position[0] == component for position in images)] = image
    return images


def images_of(node: Any) -> Iterator[str]:
    """Images of every container below a Kubernetes object, whatever its kind."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"containers", "initContainers"} and isinstance(value, list):
                yield from (str(child["image"]) for child in value if isinstance(child, dict) and child.get("image"))
            yield from images_of(value)
    elif isinstance(node, list):
        for child in node:
            yield from images_of(child)


def _merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in overlay.items():
        current = merged.get(key)
        merged[key] = _merged(current, value) if isinstance(current, Mapping) and isinstance(value, Mapping) else value
    return merged


def _at(values: Mapping[str, Any], path: str) -> Any:
    node: Any = values
    for step in path.split("."):
        node = node.get(step) if isinstance(node, Mapping) else None
    return node
