"""Changed values in the words of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def moved(before: Mapping[str, Any], after: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """`name old → new` of each name whose value differs; `none` for a value that is not there."""
    return [
        f"{name} {_word(before.get(name))} → {_word(after.get(name))}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


def number(count: int, word: str) -> str:
    """`1 resource`, `2 resources`."""
    return f"{count} {word}{'' if count == 1 else 's'}"
