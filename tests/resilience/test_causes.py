"""Causes, not states: which rank the others wait for, which has not begun what they wait in, and who failed first."""

from __future__ import annotations

from hyperpod_ray_training.history import Event, History, cause_of, words
from tests.resilience.table_helpers import World

# --- the flight recorder ----------------------------------------------------------------------------------------------


def test_a_hang_asks_every_rank_before_anybody_is_fenced() -> None:
    world = World(active=3, spares=0, floor_s=5.0, hang_s=1.0)
    holders = dict(world.table.ranks)
    assert world.table.running
    before = len(world.sent)
    for _ in range(200):
        world.t += 0.1
        for rank, uid in holders.items():
            place = {"place": "lock" if rank == 2 else "collective", "still": world.t, "seq": 3 + (rank != 2)}
            if uid in world.table.members:
                world.take(world.table.beat(world.t, uid, step=3, busy=False, saving=False, at="train.py:1", **place))
        world.take(world.table.tick(world.t))
        if not world.table.running:
            break
    types = [(uid, message["type"]) for uid, message in world.sent[before:]]
    fenced = types.index((holders[2], "fence"))
    assert {(uid, "record") for uid in holders.values()} <= set(types[:fenced])


# --- stragglers -------------------------------------------------------------------------------------------------------


# --- who was first ----------------------------------------------------------------------------------------------------


def test_a_rank_with_an_error_of_its_own_goes_before_its_echoes() -> None:
    """One rank of a thousand has an error; all others report a broken connection, in the order of their ranks."""
    history = History()
    history.feed(Event(1_790_000_000.0, "step", 1, {"loss": 1.0}))
    for rank in range(1000):
        message = (
            "RuntimeError: CUDA error: device-side assert" if rank == 700 else "DistBackendError: NCCL: peer closed"
        )
        history.feed(Event(1_790_000_001.0, "error", None, {"rank": rank, "message": message}))
    kind, cause = cause_of(history.signs)
    assert (kind, cause) == ("error", "rank 700: RuntimeError: CUDA error: device-side assert (the first of several)")
    assert history.broken and len(history.signs) == 10


def test_notices_do_not_hide_a_loss() -> None:
    history = History()
    history.feed(Event(1_790_000_000.0, "step", 1, {"loss": 1.0}))
    for number in range(30):
        history.feed(Event(1_790_000_001.0 + number, "drain", None, {"node": f"n{number}"}))
    history.feed(Event(1_790_000_032.0, "lost", None, {"rank": 3, "node": "b", "message": "connection closed"}))
    assert history.broken and cause_of(history.signs) == ("lost", "rank 3 on b lost: connection closed")


def test_evidence_stands_beside_the_cause() -> None:
    lost = Event(1.0, "lost", None, {"rank": 3, "node": "b", "message": "hangs for 60.0 s"})
    evidence = Event(2.0, "evidence", None, {"message": "2 of 3 ranks have begun all_reduce 5"})
    signs = [[event.t, event.kind, words(event)] for event in (lost, evidence)]
    assert cause_of(signs) == ("lost", "rank 3 on b lost: hangs for 60.0 s; 2 of 3 ranks have begun all_reduce 5")
    assert cause_of(signs[1:])[0] == "unknown"
