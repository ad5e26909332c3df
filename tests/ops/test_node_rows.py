from __future__ import annotations

from dataclasses import replace

import pytest

from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.observe.node_rows import FOLDED, NAMED, Row, folded, ready, replacements, row_of, tone_of
from hyperpod_ray.ops.observe.snapshot import Node
from tests.ops.scale_helpers import RACK, thousand
from tests.ops.snapshots import ONE, THREE, TWO, ago, event, healthy, instance, node


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


GONE, ALSO_GONE, OF_HEAD = instance(90), instance(91), instance(92, "head")
OLD, NEWER, NEWEST = (replace(of, launched=ago(at)) for of, at in ((ONE, 300), (TWO, 60), (THREE, 30)))
GROUP = replace(healthy(), instances=(OLD, NEWER, NEWEST))
REPLACED: dict[str, tuple[tuple[object, ...], list[str]]] = {
    "nobody": ((), []),
    "the newest took the place of one that is gone": ((event(40, GONE), event(90, GONE)), [NEWEST.id]),
    "two for two": ((event(40, GONE), event(70, ALSO_GONE)), [NEWER.id, NEWEST.id]),
    "a group that shrank: nobody came after": ((event(20, GONE),), []),
    "the next one, not the newest": ((event(70, GONE),), [NEWER.id]),
    "an event of a node that is there": ((event(40, NEWER), event(50, group="workers"), event(60)), []),
    "one of another group": ((event(40, OF_HEAD),), []),
}


@pytest.mark.parametrize("case", REPLACED)
def test_which_nodes_took_the_place_of_others(case: str) -> None:
    events, ids = REPLACED[case]
    snapshot = replace(GROUP, events=events)  # type: ignore[arg-type]
    assert replacements(snapshot) == dict.fromkeys(ids, 1)
    unknown = replace(snapshot, instances=tuple(replace(of, launched=None) for of in GROUP.instances))
    assert replacements(unknown) == {}


CONDITIONS = {
    "Ready": Node(name="n", ready=True),
    "NotReady": Node(name="n", ready=False),
    "Ready, cordoned": Node(name="n", ready=True, cordoned=True),
    "NotReady, cordoned": Node(name="n", ready=False, cordoned=True),
    "unreachable": Node(name="n", ready=False, unreachable=True, cordoned=True),
}


@pytest.mark.parametrize("words", CONDITIONS)
def test_a_nodes_condition_in_words(words: str) -> None:
    assert ready(CONDITIONS[words]) == words


def test_a_row_joins_what_hyperpod_and_kubernetes_say() -> None:
    faulty = replace(ONE, status="Failure", message="Xid 79")
    of = node(ONE, fault="Xid 74", network=("nn-1", "nn-2"))
    row = row_of(healthy(), faulty, of, 2, without="not joined")
    assert row == Row(
        id=ONE.id, group="workers", type="ml.g5.8xlarge", status="Failure", kubernetes="Ready", health="Schedulable",
        fault="Xid 74", launched=ONE.launched, replacements=2, pods=("w1",), network=("nn-1", "nn-2"),
    )  # fmt: skip
    assert row_of(healthy(), faulty, node(ONE), 0).fault == "Xid 79", "where Kubernetes names none"
    bare = row_of(healthy(), faulty, None, 0, without="not joined")
    assert (bare.kubernetes, bare.health, bare.pods, bare.network) == ("not joined", "", (), ())
    assert row_of(healthy(), replace(faulty, status="Running"), None, 0).fault == "", "what it was is over"


def test_what_each_service_says_of_a_node() -> None:
    row = row_of(healthy(), ONE, node(ONE), 0)
    assert row.states == ("Running", "Ready", "Schedulable")
    assert replace(row, kubernetes="", health="", slurm="DOWN*").states == ("Running", "DOWN*", "down")


def test_equal_nodes_are_one_line_with_the_oldest_age() -> None:
    well = [row_of(healthy(), instance(number, launched=ago(number)), node(instance(number)), 1)
            for number in range(100, 170)]  # fmt: skip
    bad = [replace(row, id=f"bad-{row.id}", status="Failure", replacements=0) for row in well[: NAMED + 3]]
    alone = replace(well[0], id="alone", group="head")
    lines = folded([*well, *bad, alone])
    assert [line.id for line in lines] == ["70 nodes", *(row.id for row in bad[:NAMED]), "3 more nodes", "alone"]
    assert (lines[0].launched, lines[0].replacements, lines[0].name) == (ago(169), 70, "")
    one_more = folded([*well, *bad[: NAMED + 1]])
    assert [line.id for line in one_more[1:]] == [row.id for row in bad[: NAMED + 1]]
    jobs = folded([replace(row, jobs=("7", row.id)) for row in well])
    assert jobs[0].jobs == ("7", *(row.id for row in well))
