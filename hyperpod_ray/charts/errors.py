"""Errors of this package: one message for the user. Commands print it and exit with 2."""

from __future__ import annotations

from hyperpod_ray.core.errors import ProjectError


class ChartError(ProjectError):
    """A chart or its lock cannot be used; the message says which, why and what to run."""


class ChartMissingError(ChartError):
    """A locked chart has not been fetched yet."""
