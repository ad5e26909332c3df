"""The two ways a job ends on purpose: bad input (exit code 2), and a fault that no retry can repair (exit code 1)."""

from __future__ import annotations

MARK = "[unrecoverable] "


class InputError(ValueError):
    """An argument, a setting or a path is wrong and nothing was started; the command exits with code 2."""


class Unrecoverable(RuntimeError):
    """Retrying cannot help and continuing could overwrite something: the run stops in spite of `max_failures=-1`.

    Raised for: checkpoints exist but none is usable, checkpoints cannot be written any more, the same error at the same
    step again and again.
    """

    def __init__(self, text: str) -> None:
        # the mark survives Ray's wrapping of the message in other exceptions, from worker to controller to driver
        super().__init__(text if text.startswith(MARK) else MARK + text)
