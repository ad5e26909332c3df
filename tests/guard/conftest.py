"""Fixtures of this folder."""

from __future__ import annotations

from tests.guard.watching_helpers import world  # noqa: F401 - fixtures
