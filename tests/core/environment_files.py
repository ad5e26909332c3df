"""A small good environment, and files that differ from it in one point."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core.loader import FOLDER, EnvironmentFile, EnvironmentFileError, Problem, parse
from hyperpod_ray.core.plan import Plan

DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
GOOD: dict[str, Any] = {
    "account": "123456789012",
    "region": "us-west-2",
    "network": {"availability_zone_ids": ["usw2-az1", "usw2-az2"]},
    "hyperpod": {
        "cluster_name": "test",
        "instance_groups": [
            {"name": "head", "type": "ml.m5.2xlarge", "count": 2, "threads_per_core": 2},
            {"name": "workers", "type": "ml.p5.48xlarge", "count": 4},
        ],
    },
    "storage": {"mode": "static"},
    "ray": {
        "head": {"instance_group": "head"},
        "workers": [{"name": "gpu", "instance_group": "workers", "replicas": 4}],
    },
}
"""Two CPU nodes for the head, four P5 for the workers; no warning."""

SLURM: dict[str, Any] = yaml.safe_load((FOLDER / "examples" / "slurm.yaml").read_text(encoding="utf-8"))
"""The shipped environment whose orchestrator is Slurm: controller, login nodes, four P5; no warning."""

GONE = object()
"""As a value in `changed`: remove the key."""


@dataclass(frozen=True)
class Case:
    """A rule with a file that trips it, and the nearest one that does not."""

    rule: str
    trips: dict[str, Any]
    path: str
    says: str
    passes: dict[str, Any] = field(default_factory=dict)
    severity: str = "error"
    """All of the rule's own findings for `trips` are at `path`; `passes` is the nearest file that it accepts."""
    beside: tuple[str, ...] = ()
    """Paths of what other rules rightly say about `trips`, too."""


def changed(edits: dict[str, Any], *, of: dict[str, Any] = GOOD) -> dict[str, Any]:
    """A good file with the values at the dotted paths replaced; numbers are list indexes (one past the end appends)."""
    data = copy.deepcopy(of)
    for path, value in edits.items():
        here: Any = data
        *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
        for part in way:
            here = here[part] if isinstance(part, int) else here.setdefault(part, {})
        if value is GONE:
            del here[last]
        elif isinstance(here, list) and last == len(here):
            here.append(copy.deepcopy(value))
        else:
            here[last] = copy.deepcopy(value)
    return data


def text_of(edits: dict[str, Any]) -> str:
    """The changed environment as YAML."""
    return str(yaml.dump(changed(edits), Dumper=DUMPER, sort_keys=False))


def judged(text: str) -> tuple[EnvironmentFile | None, list[Problem]]:
    """The loaded file, None when it is bad, and all problems: errors and warnings in the order of their lines."""
    try:
        found = parse(text, name="test", path=Path("environments/test.yaml"))
    except EnvironmentFileError as error:
        return None, sorted([*error.problems, *error.warnings], key=lambda problem: problem.line)
    return found, found.warnings


def problems(edits: dict[str, Any]) -> list[Problem]:
    """All problems of the changed environment."""
    return judged(text_of(edits))[1]


def plan(edits: dict[str, Any] | None = None) -> Plan:
    """The plan of a changed environment, which must be good."""
    found, said = judged(text_of(edits or {}))
    assert found is not None, [str(problem) for problem in said]
    return found.plan
