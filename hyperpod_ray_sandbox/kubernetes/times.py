"""Time as Kubernetes writes it."""

from __future__ import annotations

import re
from datetime import UTC, datetime


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


def is_time(text: str) -> bool:
    """Whether a text is a moment of RFC 3339."""
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", text))
    except ValueError:
        return False
    return True


def is_micro_time(text: str) -> bool:
    """Whether a text is a moment with six digits of its second."""
    return bool(_MICRO.fullmatch(text)) and is_time(text)
