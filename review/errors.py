"""Errors that end a review: one message, exit code 2."""

from __future__ import annotations


class ReviewError(Exception):
    """The review cannot be made; the message says why and what to do."""
