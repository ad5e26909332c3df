"""The one error that the user sees from `local ray` and `local rehearse`."""

from __future__ import annotations

from typing import Self

from hyperpod_ray.core.errors import ProjectError


class LocalError(ProjectError):
    """A failure of a rehearsal or of its Ray cluster.

    Args:
        what: What failed, with the value; lower case, no final period.
        expected: What would have been right; continues the sentence "Expected …".
        fix: What to do, a command where there is one.
        code: The process's exit code; 2 for bad input (the default), 1 for something that failed while running.
    """

    def __init__(self, failure: str, *, expected: str, fix: str, code: int = 2) -> None:
        super().__init__(failure, expected=expected, fix=fix)
        self.code = code

    @classmethod
    def passed_on(cls, message: str, *, code: int) -> Self:
        """The message of another process, which has its parts."""
        error = cls.together([message])
        error.code = code
        return error
