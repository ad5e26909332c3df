from __future__ import annotations

import pytest

from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.observe.node_rows import FOLDED, folded, tone_of
from tests.ops.scale_helpers import RACK, thousand


@pytest.mark.parametrize(
    ("status", "kubernetes", "health", "tone"),
    [
        ("Running", "Ready", "Schedulable", "good"),
        ("Running", "Ready", "", "good"),
        ("Running", "Ready", "UnschedulablePendingReboot", "busy"),
        ("Running", "Ready, cordoned", "Schedulable", "busy"),
        ("Running", "not joined", "", "busy"),
        ("Running", "NotReady", "Schedulable", "bad"),
        ("Running", "unreachable", "Schedulable", "bad"),
        ("Running", "?", "", "none"),
        ("Failure", "Ready", "Schedulable", "bad"),
        ("gone", "Ready", "Schedulable", "bad"),
        ("Pending", "not joined", "", "busy"),
        ("DeepHealthCheckInProgress", "Ready", "", "busy"),
    ],
)
def test_the_tone_of_a_node(status: str, kubernetes: str, health: str, tone: str) -> None:
    from hyperpod_ray.ops.observe.node_rows import Row

    row = Row(id="i-1", group="g", type="t", status=status, kubernetes=kubernetes, health=health, fault="",
              launched=None, replacements=0, pods=())  # fmt: skip
    assert tone_of(row) == tone


BAD_RACK = 3


IN_TROUBLE = frozenset({*range(BAD_RACK * RACK, (BAD_RACK + 1) * RACK), 500, 700})


BAD = thousand(bad=IN_TROUBLE)


def test_few_nodes_are_listed_each() -> None:
    rows = orchestrators.named("eks").rows(BAD)
    assert folded(rows[:FOLDED]) == rows[:FOLDED]
    lines = folded(rows)
    assert sum(int(line.id.split()[0]) if " nodes" in line.id else 1 for line in lines) == len(rows)
