from __future__ import annotations

from dataclasses import replace

import pytest

from hyperpod_ray.ops.observe.snapshot import (
    Slurm,
    SlurmNode,
)
from hyperpod_ray.ops.verdict import durations, judge
from tests.ops.ops_slurm_helpers import seen


@pytest.mark.parametrize(
    ("reason", "usual"), [("Action:Replace", durations.REPLACEMENT), ("Action:Reboot", durations.REBOOT)]
)
def test_a_repair_says_how_long_it_takes(reason: str, usual: object) -> None:
    found = judge(replace(seen("idle"), slurm=Slurm(nodes=(SlurmNode(name="n1", state="fail", reason=reason),))))
    assert str(usual) in found.findings[0].what
