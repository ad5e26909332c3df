"""Fixtures of this folder."""

from __future__ import annotations

from tests.service_rules.answers_helpers import enumerations  # noqa: F401 - fixtures
