from __future__ import annotations

import pytest

from hyperpod_ray.ops.observe.hostlist import expanded
from tests.ops.ops_slurm_helpers import judged


@pytest.mark.parametrize(("text", "names"), judged("hostnames.json").items())
def test_hosts_are_those_that_slurm_prints(text: str, names: list[str]) -> None:
    assert list(expanded(text)) == names


@pytest.mark.parametrize("text", ["", "(null)", "n/a", "None assigned"])
def test_no_host_is_none(text: str) -> None:
    assert expanded(text) == ()
