from __future__ import annotations

import pytest

from hyperpod_ray_rules.faults import NAMES
from hyperpod_ray_sandbox.rehearsal.fault_names import require_known
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError


@pytest.mark.parametrize("names", [list(NAMES), list(NAMES)[:1], [next(iter(NAMES))] * 2])
def test_known_names_are_taken(names: list[str]) -> None:
    require_known(names)


@pytest.mark.parametrize(
    ("names", "said"), [([], "none"), (["x"], "x"), (["x", next(iter(NAMES)), "y"], "x, y"), ([""], "")]
)
def test_each_unknown_name_is_said_with_those_that_there_are(names: list[str], said: str) -> None:
    with pytest.raises(LocalError) as refused:
        require_known(names)
    text = str(refused.value)
    assert text.startswith(f"--faults: {said}".rstrip())
    assert all(name in text for name in NAMES)
