"""Reads `environments/NAME.yaml` into an `Environment`, or says everything that is wrong with it, with line numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml
from pydantic import ValidationError

from environments.model import Environment

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong (or doubtful) in an environment file."""

    path: str
    """Where in the settings, for example `hyperpod.instance_groups[0].type`."""
    message: str
    """What is wrong, the value got, what is allowed and the likely fix."""
    file: str = ""
    line: int = 0
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.path}: {self.message}"


class EnvironmentFileError(Exception):
    """The file cannot be used; `problems` holds all of it. Commands print it and exit with code 2."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


@dataclass(frozen=True, kw_only=True)
class EnvironmentFile:
    """A file that was read and found good."""

    name: str
    path: Path
    settings: Environment
    warnings: list[Problem] = field(default_factory=list)


def names(*, folder: Path = FOLDER) -> list[str]:
    """Names of the environments in `folder`, sorted (files that are data of this package left out)."""
    return sorted(p.stem for p in folder.glob("*.yaml") if re.match(r"^[a-z][a-z0-9-]*$", p.stem))


def load(name: str, *, folder: Path = FOLDER) -> EnvironmentFile:
    """Read the environment called `name`."""
    path = folder / f"{name}.yaml"
    try:
        settings = Environment.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise EnvironmentFileError([Problem(path=str(e["loc"]), message=e["msg"], file=str(path)) for e in error.errors()]) from error
    return EnvironmentFile(name=name, path=path, settings=settings)
