"""A full file system, or a full quota on it: what is full, and the command that makes room."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)


def causes(error: BaseException) -> Iterator[BaseException]:
    """What is inside a failed save or load: DCP's exception carries one cause for each rank that failed."""
    failures = getattr(error, "failures", None)
    for cause in failures.values() if failures else [error]:
        yield cause[0] if isinstance(cause, tuple) else cause


def is_full(error: BaseException | None) -> bool:
    """Whether nothing but room is missing: each rank that failed met a full disk or a full quota."""
    return error is not None and all(_full(cause) for cause in causes(error))


def _full(cause: BaseException) -> bool:
    return isinstance(cause, OSError) and cause.errno in FULL


def advice(error: BaseException, path: str) -> str:
    """What to do where an error says that a file system or a quota is full; empty for another error.

    Lustre has quotas of users, groups and projects, and names none of them in its error. Only root sets one.
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/lustre-quotas.html

    Args:
        error: What a write met.
        path: The run's folder.
    """
    numbers = {cause.errno for cause in causes(error) if isinstance(cause, OSError)}
    if not numbers.intersection(FULL):
        return ""
    room = f"delete runs that nobody needs (`du -sh {Path(path).parent}/*`)"
    if errno.EDQUOT not in numbers:
        return f"{room}, or make the file system larger"
    user, mount = os.geteuid(), mount_of(path)
    return f"{room}, or raise the quota of user {user} on {mount} as root (`lfs setquota -u {user} -B SIZE {mount}`)"


def mount_of(path: str) -> str:
    """Where the file system of a path is mounted."""
    place = Path(path).absolute()
    while not place.is_mount() and place != place.parent:
        place = place.parent
    return str(place)
