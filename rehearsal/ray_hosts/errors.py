"""The one error that the user sees from `local ray` and `local rehearse`."""

from __future__ import annotations


class LocalError(Exception):
    """A message for the user: what is wrong, what was got, what would help. Lower case, no final period.

    Args:
        message: one line.
        code: the process's exit code; 2 for bad input (the default), 1 for something that failed while running.
    """

    def __init__(self, message: str, *, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
