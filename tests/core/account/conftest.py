"""Fixtures of this folder."""

from __future__ import annotations

import pytest

from hyperpod_ray.core.today import VARIABLE
from tests.core.account.sabotage import DAY


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    """The day that the accounts were recorded for: support of EKS versions ends on others."""
    monkeypatch.setenv(VARIABLE, DAY)
