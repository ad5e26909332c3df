"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["ok", "warning", "failed", "unknown", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of the table. `unknown`: it could not be asked, and why."""

    check: str
    result: Result
    why: str = ""
    do: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A check's answer, before it has its name."""

    result: Result
    why: str = ""
    do: str = ""

    def named(self, check: str) -> Check:
        """As a line of the table."""
        return Check(check=check, result=self.result, why=self.why, do=self.do)


def ok(why: str = "") -> Outcome:
    """Fine."""
    return Outcome(result="ok", why=why)


def failed(why: str, do: str) -> Outcome:
    """Would fail later, and cost time or money."""
    return Outcome(result="failed", why=why, do=do)


def warning(why: str, do: str = "") -> Outcome:
    """May fail, or is not what one would expect."""
    return Outcome(result="warning", why=why, do=do)


def unknown(why: str, do: str = "") -> Outcome:
    """Could not be found out."""
    return Outcome(result="unknown", why=why, do=do)


def skipped(why: str) -> Outcome:
    """Does not apply."""
    return Outcome(result="skipped", why=why)
