"""The form of an error message: what failed with its value, what was expected, the fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


def in_three_parts(what: str, *, expected: str, fix: str) -> str:
    """A message in the project's form, without the parts that are empty; see `ProjectError`."""
    return ". ".join((what, *([f"Expected {expected}"] * bool(expected)), *([f"Fix: {fix}"] * bool(fix))))


@dataclass(frozen=True)
class Message:
    """A message that keeps its parts, for documents that show each as a field; see `ProjectError`."""

    what: str
    expected: str
    fix: str

    def __str__(self) -> str:
        return in_three_parts(self.what, expected=self.expected, fix=self.fix)


class ProjectError(Exception):
    """A failure that the user can act on: *what failed: value. Expected …. Fix: …*.

    Args:
        what: What failed, with the value; lower case, no final period.
        expected: What would have been right; continues the sentence "Expected …".
        fix: What to do, a command where there is one; no final period.
    """

    def __init__(self, what: str, *, expected: str, fix: str) -> None:
        super().__init__(in_three_parts(what, expected=expected, fix=fix))
        self.what, self.expected, self.fix = what, expected, fix

    @classmethod
    def together(cls, messages: Iterable[str]) -> Self:
        """Several messages, each in the form already, one a line."""
        return cls("\n".join(messages), expected="", fix="")
