"""YAML text from outside, read in bounded depth."""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_LEVELS = 200
"""Collections inside each other. libyaml's composer calls itself for each and ends the process at some 20,000."""
_BEGINS = re.compile(r"^[ \t?:-]*", re.MULTILINE)


def load(text: str) -> Any:
    """What a YAML text holds, by a safe loader.

    Raises:
        YAMLError: It is no YAML, or is nested too deep.
        ValueError: A value is not of the type that it looks like, such as a date of month 13.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if _levels_at_most(text) > MOST_LEVELS:
        _measure(text, loader)
    return yaml.load(text, Loader=loader)  # noqa: S506  # safe loaders, both


def _levels_at_most(text: str) -> int:
    """An upper bound: a bracket opens a level, and a block begins further right than the one around it."""
    brackets = text.count("[") + text.count("{")
    # a list may stand in the column of the mapping that holds it
    return brackets + 2 * max((len(match[0]) for match in _BEGINS.finditer(text)), default=0)


def _measure(text: str, loader: Any) -> None:
    levels = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
            if levels > MOST_LEVELS:
                mark: Any = event.start_mark
                raise yaml.MarkedYAMLError(problem=f"nested more than {MOST_LEVELS} levels deep", problem_mark=mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
