"""Which `Resumable` of this process is open: a loop that uses none in a `with` block still leaves it properly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Leavable(Protocol):
    """What a loop leaves at its end."""

    def leave(self, *, failed: bool) -> None:
        """The loop has ended."""

    def told(self, metrics: Mapping[str, Any]) -> None:
        """Metrics that the loop reports to Ray."""


LIVE: list[Leavable] = []


def leave_all(*, failed: bool) -> None:
    """The loop of this process has ended: leave what it left open, the last made first."""
    while LIVE:
        LIVE.pop().leave(failed=failed)


def closing(loop: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """The user's loop, that leaves its `Resumable` when it returns or raises."""

    @functools.wraps(loop)
    def run(config: dict[str, Any]) -> Any:
        LIVE.clear()
        try:
            result = loop(config)
        except BaseException:
            leave_all(failed=True)
            raise
        leave_all(failed=False)
        return result

    return run
