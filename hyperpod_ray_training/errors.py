"""The two ways a job ends on purpose: bad input (exit code 2), and a fault that no retry can repair (exit code 1)."""

from __future__ import annotations

import dis
import os
import re
from pathlib import Path
from types import CodeType

from hyperpod_ray_training.sources import of_package, of_python

MARK = "[unrecoverable] "
_LIBRARY = str(Path(__file__).parent) + os.sep


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


def of_user(error: BaseException) -> bool:
    """Whether the user's own code has raised an error, by a statement or a call outside of torch and Ray.

    Whatever its text quotes: a message may name a network or a GPU.
    False where nobody can know: an error that has not been raised here, and one out of C, such as CUDA's.
    """
    if str(error).startswith("Caught ") and " in DataLoader worker process" in str(error):
        return True  # torch raises it again here: the dataset is the user's
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code, traceback.tb_lasti))
        traceback = traceback.tb_next
    if not frames:
        return False
    code, offset = frames[-1]
    if not of_python(code.co_filename):
        return not _of_ranks(code.co_filename) and _raises(code, offset)
    outside = [caller.co_filename for caller, _ in frames if not of_python(caller.co_filename)]
    return bool(outside) and not _of_ranks(outside[-1])


def of_user_by(traceback: str) -> bool:
    """The same of an error whose traceback has come as text, from another process."""
    frames = re.findall(r'File "([^"]+)", line \d+, in [^\n]*\n\s+([^\n]*)', traceback)
    return bool(frames) and frames[-1][1].startswith("raise ") and not _of_ranks(frames[-1][0])


def _of_ranks(file: str) -> bool:
    """Whether code raises what other ranks, a device or a node do: torch, Ray and this library."""
    return _LIBRARY in file or of_package(file, "torch", "ray")


def _raises(code: CodeType, offset: int) -> bool:
    return any(step.offset == offset and step.opname == "RAISE_VARARGS" for step in dis.get_instructions(code))
