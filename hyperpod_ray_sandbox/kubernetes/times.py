"""Time as Kubernetes writes it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
