"""One local Ray cluster at a time: the documented commands name none, and each cluster is a dozen processes."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(__file__).resolve().parents[2] / ".cache" / "ray.lock"


@contextlib.contextmanager
def ray_turn() -> Iterator[None]:
    """Wait until no other test of this checkout runs a local Ray cluster."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
