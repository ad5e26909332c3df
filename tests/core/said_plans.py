"""What follows from each environment file: `plans.txt`, for a person to read. `make records` writes it.

Every property of a plan, every answer that it has for each of its groups, and what `core` tells of it by a function:
names, images, calls, destinations. `dev` and `slurm` stand whole, other files with what differs.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pydantic

from hyperpod_ray.core import (
    metric_alerts,
    needs,
    needs_page,
    outbound,
    plan_names,
    regions,
    requests,
    team_access,
    team_files,
)
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.loader import environment_names, load_any
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_plan import SlurmPlan
from tests.support import records

FILE = Path(__file__).with_name("plans.txt")
ENVIRONMENTS = records.PROJECT / "environments"
FOLDERS = (
    ENVIRONMENTS,
    ENVIRONMENTS / "examples",
    records.PROJECT / "tests" / "stacks" / "variants",
    records.PROJECT / "tests" / "stacks" / "strangers",
)
BASES = {"eks": "dev", "slurm": "slurm"}
MODULES = (metric_alerts, needs, needs_page, outbound, plan_names, regions, requests, team_access, team_files)
KINDS = {"Plan": Plan, "SlurmPlan": SlurmPlan, "CommonPlan": CommonPlan}


@functools.cache
def plans() -> dict[str, CommonPlan]:
    """Every file, those first that others start from."""
    listed = {
        name: load_any(name, folder=folder).plan for folder in FOLDERS for name in environment_names(folder=folder)
    }
    return dict(sorted(listed.items(), key=lambda item: item[0] not in BASES.values()))


def properties(plan: CommonPlan) -> dict[str, str]:
    """All that follows from a file, property by property."""
    return {
        path: text.replace(str(records.PROJECT), "<project>")
        for name, value in _answers(plan)
        for path, text in records.flat(_plain(value), name)
    }


def _answers(plan: CommonPlan) -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers(type(plan)):
        if name.startswith("_"):
            continue
        if isinstance(member, property | functools.cached_property):
            yield name, getattr(plan, name)
        elif inspect.isfunction(member):
            for each, argument in _arguments(plan, member):
                yield f"{name} of {each}", getattr(plan, name)(argument)
    for module in MODULES:
        for name, function in inspect.getmembers(module, callable):
            if getattr(function, "__module__", "") == module.__name__ and _is_of(plan, function):
                label = f"{module.__name__.rpartition('.')[2]}.{name}"
                if "team" not in inspect.signature(function).parameters:
                    yield label, _whole(function(plan))
                    continue
                for team in getattr(plan.settings, "teams", ()):
                    yield f"{label} of {team.name}", _whole(function(plan, team))


def _whole(value: Any) -> Any:
    """An answer as it is compared: each item, and how often a page has each of its lines."""
    if isinstance(value, str) and "\n" in value:
        return Counter(value.splitlines())
    return list(value) if inspect.isgenerator(value) else value


def _arguments(plan: CommonPlan, function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """What a method of one argument is asked about: each group, each group of workers, each zone."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    match names:
        case ["group"]:
            yield from ((group.name, group) for group in plan.groups)
        case ["worker"]:
            yield from ((worker.name, worker) for worker in getattr(plan.settings, "ray").workers)  # noqa: B009
        case ["zone"]:
            yield from ((zone, zone) for zone in plan.node_zones)


def _is_of(plan: CommonPlan, function: Any) -> bool:
    """Whether a function takes such a plan and nothing else, or a team of it."""
    if isinstance(function, type) or function.__name__.startswith("_") or function is team_access.as_team:
        return False  # a plan of its own, with the same settings
    parameters = list(inspect.signature(function).parameters.values())
    kind = KINDS.get(str(parameters[0].annotation)) if parameters and parameters[0].name == "plan" else None
    names = [parameter.name for parameter in parameters]
    return names in (["plan"], ["plan", "team"]) and kind is not None and isinstance(plan, kind)


def _plain(value: Any) -> Any:  # noqa: PLR0911 (one line for each sort of value)
    """As JSON has it."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Set):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def base_of(name: str) -> str:
    """The file that another one's record starts from; the empty text where it is whole."""
    base = BASES[plans()[name].settings.orchestrator]
    return "" if base == name else base


def today(name: str) -> dict[str, str]:
    """What a file's record holds."""
    own = properties(plans()[name])
    if not (base := base_of(name)):
        return own
    usual = _base(base)
    gone = dict.fromkeys(usual.keys() - own.keys(), "nothing")
    return {path: text for path, text in own.items() if usual.get(path) != text} | gone


@functools.cache
def _base(name: str) -> dict[str, str]:
    return properties(plans()[name])


@functools.cache
def recorded() -> records.Record:
    """What the file holds."""
    return records.read(FILE.read_text(encoding="utf-8"))


def write() -> int:
    """Write the file."""
    text = records.written({name: today(name) for name in plans()}, title="What follows from each environment file.")
    FILE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(text.splitlines())} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())
