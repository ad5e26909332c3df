"""The form of the sandbox's own errors: what failed with its value, what was expected, the fix."""

from __future__ import annotations


class SandboxError(RuntimeError):
    """A failure that the user can act on: *what failed: value. Expected …. Fix: …*.

    Args:
        what: What failed, with the value; lower case, no final period.
        expected: What would have been right; continues the sentence "Expected …".
        fix: What to do, a command where there is one; no final period.
    """

    def __init__(self, failure: str, *, expected: str, fix: str) -> None:
        super().__init__(f"{failure}. Expected {expected}. Fix: {fix}")
        self.what, self.expected, self.fix = failure, expected, fix
