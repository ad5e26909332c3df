"""Looks again and again in a thread of its own; browsers get the last answer at once, however long a look takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from hyperpod_ray.ops.errors import OpsError, explain
from hyperpod_ray.ops.output import now

T = TypeVar("T")
IDLE_SECONDS = 120.0
"""No browser asked for so long: nothing is looked at until one does."""


@dataclass(frozen=True, kw_only=True)
class Latest(Generic[T]):
    """The newest answer there is, and what became of the looks since."""

    value: T | None = None
    at: datetime | None = None
    """When the look that gave the value ended."""
    asking_since: datetime | None = None
    """A look is under way since then."""
    failure: OpsError | None = None
    """Why the newest look gave nothing; None where it did."""
    failed_since: datetime | None = None
    """When the first look of those that failed since the value did."""


class Watch(Generic[T]):
    """Looks every so many seconds while somebody asks. A context manager.

    Args:
        look: One look. What it raises is kept beside the last value, and the next look follows all the same.
        every: Seconds between the end of one look and the beginning of the next.
        environment: For messages.
        idle: Looks pause when nobody asked for so many seconds.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        look: Callable[[], T],
        *,
        every: float,
        environment: str,
        idle: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._every, self._environment, self._idle = look, every, environment, idle
        self._clock = clock
        self._latest: Latest[T] = Latest()
        self._changed = threading.Condition()
        self._asked = self._clock()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch[T]:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def busy(self) -> bool:
        """Whether a look is under way."""
        return self._latest.asking_since is not None

    @property
    def failure(self) -> OpsError | None:
        """Why the newest look gave nothing; None where it did, and before the first. Does not keep the looks coming."""
        return self._latest.failure

    def latest(self) -> Latest[T]:
        """The newest answer; asking keeps the looks coming."""
        with self._changed:
            waited = self._forgotten()
            self._asked = self._clock()
            if waited:
                self._changed.notify_all()
            return self._latest

    def wait(self, *, seconds: float) -> Latest[T]:
        """The newest answer once there is any, or a failure."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._latest.value is not None or self._latest.failure is not None, timeout=seconds
            )
            return self._latest

    def _run(self) -> None:
        while self._begun():
            try:
                value = self._look()
            except Exception as error:
                self._failed(error)
            else:
                self._set(value=value, at=now(), asking_since=None, failure=None, failed_since=None)
            with self._changed:
                self._changed.wait_for(lambda: self._ended, timeout=self._every)
                self._changed.wait_for(lambda: self._ended or not self._forgotten())

    def _begun(self) -> bool:
        """Begin a look, unless this has ended; both in one, so that `busy` is true of every look that began."""
        with self._changed:
            if not self._ended:
                self._latest = replace(self._latest, asking_since=now())
            return not self._ended

    def _forgotten(self) -> bool:
        return self._clock() - self._asked > self._idle

    def _failed(self, error: Exception) -> None:
        failure = explain(error, environment=self._environment) or OpsError(
            f"internal error: {type(error).__name__}: {error}",
            expected="no failure of this kind",
            fix=f"hyperpod-ray status {self._environment}",
        )
        self._set(asking_since=None, failure=failure, failed_since=self._latest.failed_since or now())

    def _set(self, **values: object) -> None:
        with self._changed:
            self._latest = replace(self._latest, **values)  # type: ignore[arg-type]
            self._changed.notify_all()
