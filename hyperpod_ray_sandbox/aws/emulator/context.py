"""What every service of the extension shares: MiniStack's hooks, the pace of time, faults, and small helpers."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.faults import Faults
from hyperpod_ray_sandbox.aws.emulator.hooks import Hooks


@dataclass
class Context:
    """Handed to every service; `seconds_per_state` is how long anything stays in a transitional state."""

    hooks: Hooks
    faults: Faults
    seconds_per_state: float = 1.0
    kubernetes_endpoint: str = ""
    kubernetes_ca: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)
    tickers: list[Callable[[float], None]] = field(default_factory=list)
    _held_at: float | None = None

    def now(self) -> float:
        """Return the time state machines go by: the real one, unless time is stopped."""
        return time.time() if self._held_at is None else self._held_at

    def hold(self, held: bool) -> None:
        """Stop time, so that a test can look at a state that passes; or let it continue."""
        self._held_at = time.time() if held else None

    def later(self, states: float = 1.0) -> float:
        """Return the time at which something that starts now and takes that many states is over."""
        return self.now() + states * self.seconds_per_state

    def start_clock(self) -> None:
        """Advance every service's state machines in the background, for as long as the process lives."""

        def run() -> None:
            while True:
                time.sleep(min(0.2, max(0.02, self.seconds_per_state / 5)))
                with self.lock:
                    now = self.now()
                    for tick in self.tickers:
                        tick(now)

        threading.Thread(target=run, name="clock", daemon=True).start()

    def wait(self, until: Callable[[], bool], subject: str, *, seconds: float = 900.0) -> None:
        """Block a worker thread until the condition holds; `TimeoutError` that says what did not come."""
        deadline = time.time() + seconds
        while time.time() < deadline:
            with self.lock:
                if until():
                    return
            time.sleep(min(0.2, max(0.02, self.seconds_per_state / 5)))
        raise TimeoutError(f"{subject} did not stabilize within {seconds:.0f} s")


def hex_id(prefix: str, digits: int = 17) -> str:
    """Return an id in the form AWS gives: `i-0123456789abcdef0`."""
    return prefix + secrets.token_hex(digits)[:digits]


def word(length: int) -> str:
    """Return a random lower-case id of letters and digits."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(length))


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Return tags in the form most services answer."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tag_map(tags: Any) -> dict[str, str]:
    """Return the tags of a request as a mapping."""
    return {str(t["Key"]): str(t.get("Value", "")) for t in tags or []}
