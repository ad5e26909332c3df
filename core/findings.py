"""What a cross-check says: the path of the setting it is about, a message, and whether it stops a deployment."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from core.plan import Plan
from core.yaml_source import Path


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing wrong (or doubtful) with settings that are each valid alone."""

    path: Path
    message: str
    severity: Literal["error", "warning"]


Check = Callable[[Plan], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A check with the top-level sections it reads: it runs when those are valid, whatever the others are."""

    check: Check
    reads: frozenset[str]


RULES: list[Rule] = []


def rule(*reads: str) -> Callable[[Check], Check]:
    """Register a check. `reads` names the top-level sections it looks at."""

    def register(check: Check) -> Check:
        RULES.append(Rule(check=check, reads=frozenset(reads)))
        return check

    return register


def error(*path: str | int, message: str) -> Finding:
    """A finding that stops a deployment."""
    return Finding(path=path, message=message, severity="error")


def warning(*path: str | int, message: str) -> Finding:
    """A finding that the user should know of."""
    return Finding(path=path, message=message, severity="warning")


def suggestion(word: str, allowed: Iterable[str]) -> str:
    """`; did you mean 'x'?` when something allowed is close to `word`, else nothing."""
    options = list(allowed)
    folded = {option.casefold(): option for option in options}
    close = difflib.get_close_matches(word.casefold()[:80], list(folded), n=1, cutoff=0.6)
    return f"; did you mean '{folded[close[0]]}'?" if close else ""
