"""Data files of the project that people and merges change: read, or refused with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core import yaml_text
from hyperpod_ray.core.errors import ProjectError

RESOLVE = "keep one of the two sides, and remove the lines of <, = and >"
"""What to do about the conflict markers of a merge."""


class ProjectFileError(ProjectError):
    """A file of the project cannot be read as what it is."""


def read_mapping(path: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping; an empty file is an empty one.

    Raises:
        ProjectFileError: It is not UTF-8, has unresolved conflicts of a merge, is no YAML or no mapping.
    """
    name = path.name
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProjectFileError(
            f"{name}: byte {error.start + 1} is not UTF-8", expected="a text file in UTF-8", fix=_restore(name)
        ) from error
    except OSError as error:
        raise ProjectFileError(
            f"{name}: cannot be read: {error.strerror}", expected="a file of the project", fix=_restore(name)
        ) from error
    try:
        data = yaml_text.load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        marker = conflict(text)
        mark = getattr(error, "problem_mark", None)
        line = marker or (mark.line + 1 if mark is not None else 1)
        raise ProjectFileError(
            f"{name}:{line}: "
            + ("conflict markers of a merge" if marker else f"not YAML: {getattr(error, 'problem', None) or error}"),
            expected="one of the two versions" if marker else "YAML",
            fix=RESOLVE if marker else _restore(name),
        ) from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ProjectFileError(f"{name}: it is no mapping", expected="keys with values", fix=_restore(name))
    return data


def conflict(text: str) -> int:
    """The first line of an unresolved conflict; 0 where there is none."""
    lines = text.splitlines()
    return next((number for number, line in enumerate(lines, start=1) if line.startswith(("<<<<<<< ", ">>>>>>> "))), 0)


def _restore(name: str) -> str:
    return f"correct {name}, or take it back: git checkout HEAD -- {name}"
