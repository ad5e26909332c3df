"""The two ways a job ends on purpose: bad input (exit code 2), and a fault that no retry can repair (exit code 1)."""

from __future__ import annotations

MARK = "[unrecoverable] "


def in_three_parts(failure: str, *, expected: str, fix: str) -> str:
    """*What failed: value. Expected …. Fix: …*: the form of every message; an empty part is omitted."""
    return ". ".join((failure, *([f"Expected {expected}"] * bool(expected)), *([f"Fix: {fix}"] * bool(fix))))


class InputError(ValueError):
    """An argument, a setting or a path is wrong and nothing was started; the command exits with code 2.

    Args:
        what: What is wrong, with the value; lower case, no final period.
        expected: What would be right. Default: `what` is a message with all its parts, as after a way through pickle.
        fix: What to do.
    """

    def __init__(self, what: str, *, expected: str = "", fix: str = "") -> None:
        super().__init__(in_three_parts(what, expected=expected, fix=fix))


class Unrecoverable(RuntimeError):
    """Retrying cannot help and continuing could overwrite something: the run stops in spite of `max_failures=-1`.

    Raised for: checkpoints exist but none is usable, checkpoints cannot be written any more, the same error at the same
    step again and again.
    """

    def __init__(self, what: str, *, expected: str = "", fix: str = "") -> None:
        # the mark survives Ray's wrapping of the message in other exceptions, from worker to controller to driver
        text = in_three_parts(what, expected=expected, fix=fix)
        super().__init__(text if text.startswith(MARK) else MARK + text)
