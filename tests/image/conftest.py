"""Fixtures of this folder."""

from __future__ import annotations

from tests.image.image_registry_helpers import registry  # noqa: F401 - fixtures
