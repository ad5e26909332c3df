"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["ok", "warning", "failed", "unknown", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of the table, in the parts of a `ProjectError`. `unknown`: it could not be asked."""

    check: str
    result: Result
    what: str = ""
    expected: str = ""
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A check's answer, before it has its name."""

    result: Result
    what: str = ""
    expected: str = ""
    fix: str = ""

    def named(self, check: str) -> Check:
        """As a line of the table."""
        return Check(check=check, result=self.result, what=self.what, expected=self.expected, fix=self.fix)


def ok(what: str = "") -> Outcome:
    """Fine."""
    return Outcome(result="ok", what=what)


def failed(what: str, *, expected: str, fix: str) -> Outcome:
    """Would fail later, and cost time or money."""
    return Outcome(result="failed", what=what, expected=expected, fix=fix)


def warning(what: str, *, expected: str, fix: str) -> Outcome:
    """May fail, or is not what one would expect."""
    return Outcome(result="warning", what=what, expected=expected, fix=fix)


def skipped(what: str) -> Outcome:
    """Does not apply."""
    return Outcome(result="skipped", what=what)
