"""Changed values in the words of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def moved(old: Mapping[str, Any], new: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """`name old → new` of each name whose value differs; `none` for a value that is not there."""
    return [
        f"{name} {_word(old.get(name))} → {_word(new.get(name))}" for name in names if old.get(name) != new.get(name)
    ]


def _word(value: Any) -> str:
    return "none" if value is None else str(value)
