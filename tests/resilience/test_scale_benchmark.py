"""The figures by number of ranks come from the product's own coordinator, groups and copies."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import ROOT

pytestmark = pytest.mark.slow


def part(name: str, ranks: int) -> dict[str, float]:
    command = [sys.executable, "benchmarks/scale.py", "--part", name, str(ranks)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def test_a_coordinator_hears_its_ranks_and_replaces_a_lost_one() -> None:
    figures = part("coordinator", 8)
    assert figures["beats_per_s"] > 0
    assert figures["recovery_s"] > 0


def test_a_lazy_group_has_fewer_sockets_than_a_full_mesh() -> None:
    lazy, full = part("groups", 48), part("full mesh", 48)
    assert lazy["sockets_per_rank"] < full["sockets_per_rank"] / 2
    assert full["sockets_per_rank"] >= 47
