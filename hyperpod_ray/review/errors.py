"""Errors that end a review: one message, exit code 2."""

from __future__ import annotations

from hyperpod_ray.core.errors import ProjectError


class ReviewError(ProjectError):
    """The review fails; the message says why and what to do."""
