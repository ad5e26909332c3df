"""The day by which data is judged: today in UTC, or the one that `HYPERPOD_RAY_DATE` names."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime

from hyperpod_ray.core.errors import ProjectError


class DayError(ProjectError, ValueError):
    """The variable holds no day."""


VARIABLE = "HYPERPOD_RAY_DATE"
"""Environment variable with a day (`2027-01-31`), to see what checks say on that day."""


def today() -> date:
    """The day.

    Raises:
        DayError: the variable holds no day.
    """
    override = os.environ.get(VARIABLE)
    if not override:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(override)
    except ValueError as bad:
        raise DayError(
            f"{VARIABLE}: {override!r}", expected="a day such as 2027-01-31", fix="correct or unset the variable"
        ) from bad


def now() -> datetime:
    """The time in UTC; on a day that the variable names, its beginning."""
    if os.environ.get(VARIABLE):
        return datetime.combine(today(), datetime.min.time(), tzinfo=UTC)
    return datetime.now(UTC)
