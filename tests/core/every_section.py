"""Files with every section, and every file that differs from one of them in a single place."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core.loader import FOLDER

VARIANTS = Path(__file__).parents[1] / "stacks" / "variants"
HUNG_JOBS = {
    "action": "cancel",
    "rules": [{"name": "progress", "enabled": True, "log_pattern": "step", "timeout_minutes": 30, "stop_pattern": "x"}],
}


def bases() -> dict[str, dict[str, Any]]:
    """Good files that have every section between them, by name."""
    files = {file.stem: file for folder in (FOLDER, FOLDER / "examples", VARIANTS) for file in folder.glob("*.yaml")}
    written = {name: yaml.safe_load(file.read_text(encoding="utf-8")) for name, file in files.items()}
    observed = copy.deepcopy(written["prod"])
    observed["observability"] = {"gpus_idle_minutes": 30, "no_step_minutes": 45}
    observed["ray"]["hung_job_detection"] = HUNG_JOBS
    observed["ray"]["secrets"] = ["hugging-face"]
    return written | {"prod-observed": observed}


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of every value, sections and lists included."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in children:
        yield from leaves(inner, (*path, key))


REGIONS = ("us-west-3", "eu-west-4", "us-iso-east-1", "us-isob-east-1", "cn-north-1", "us-gov-west-1", "me-central-1")
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**9, 0.5, "", "x", "no-such-name", "ml.p9.48xlarge", "ml.g5.8xlarge", "ml.trn1.32xlarge"),
    *("arn:aws:iam::1:role/x", [], {}, ["x"], [0], {"x": 1}, "\x1b[2Jx"),
)


def changed(base: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """The file with another value at a path."""
    data = copy.deepcopy(base)
    here: Any = data
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = copy.deepcopy(value)
    return data


def without(base: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    """The file without what is at a path."""
    data = copy.deepcopy(base)
    here: Any = data
    for part in path[:-1]:
        here = here[part]
    del here[path[-1]]
    return data


def twice(base: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any] | None:
    """The file with an entry of a list twice; None where the path is of no list's entry."""
    if not isinstance(path[-1], int):
        return None
    data = copy.deepcopy(base)
    here: Any = data
    for part in path[:-1]:
        here = here[part]
    here.append(copy.deepcopy(here[path[-1]]))
    return data


def variations(base: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each file that differs in one place, with what differs."""
    for path in leaves(base):
        where = "/".join(map(str, path))
        here: Any = base
        for part in path:
            here = here[part]
        yield f"{where} removed", without(base, path)
        if (doubled := twice(base, path)) is not None:
            yield f"{where} twice", doubled
        odd = [*ODD, f"{here}x"] if isinstance(here, str) else [*ODD, here * 1000] if isinstance(here, int) else ODD
        for value in (*odd, *(REGIONS if path == ("region",) else ())):
            if value != here or type(value) is not type(here):
                yield f"{where} = {value!r}", changed(base, path, value)
