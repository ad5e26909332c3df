from __future__ import annotations

import pytest

from hyperpod_ray.core import orchestrators as registry
from hyperpod_ray.ops import orchestrators


@pytest.mark.parametrize("name", sorted(registry.ORCHESTRATORS))
def test_each_orchestrator_has_what_the_interface_says(name: str) -> None:
    shipped = orchestrators.named(name)
    assert all(callable(getattr(shipped, part)) for part in ("target", "operations", "rows", "table", "work"))
