"""What each part of a recovery does with what comes late, twice, or from another generation; no run, no process."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from memory_helpers import make, snapshot_of, train
from table_helpers import World

from hyperpod_ray_training import Resumable, Run, checkpoint, restoring
from hyperpod_ray_training.spares.members import Limits, Member
from hyperpod_ray_training.spares.memory import Memory
from hyperpod_ray_training.spares.neighbour import Neighbour, Source
from hyperpod_ray_training.spares.progress import Progress
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.state import TrainingState

# ---- the table ----


def test_who_takes_over_from_one_that_did_not_let_go_has_as_long_itself() -> None:
    world = World(spares=2, ready_s=3.0)
    world.run(2)
    world.obedient = False
    stuck = world.holder(0)
    world.kill(world.holder(1))
    world.take(world.table.is_ready(world.t, world.holder(1), 1))
    world.run(3.2)
    assert stuck not in world.alive
    newcomer = world.holder(0)
    world.run(2)  # it imports what the loop needs
    assert world.holder(0) == newcomer
    world.take(world.table.is_ready(world.t, newcomer, world.table.gen))
    assert world.table.running
    assert world.kinds().count("lost") == 2


def test_a_hand_over_that_is_heard_while_a_generation_forms_changes_nothing() -> None:
    world = World(spares=1, barren=3)
    world.run(2)
    world.take(world.table.drain(world.t, frozenset({"node-1"})))
    world.obedient = False
    world.kill(world.holder(0))
    table, ranks = world.table, dict(world.table.ranks)
    table.barren = 2
    world.take(table.handed_over(world.t, world.holder(1), table.gen))
    assert (table.barren, table.ranks, table.running) == (2, ranks, False)


def test_after_a_restart_from_the_checkpoint_barren_generations_are_counted_anew() -> None:
    world = World(spares=20, barren=3)
    for _ in range(3):
        world.kill(world.holder(1))
    assert world.kinds().count("fallback") == 1
    world.alive.clear()
    for order in range(4):
        world.join(order, node=f"node-{order}")
    world.run(0.1)
    for uid in list(world.alive):
        world.take(world.table.warmed(world.t, uid))
    world.run(6, stuck=("nobody",))
    assert world.table.running
    world.kill(world.holder(1))
    assert (world.kinds().count("fallback"), world.table.running) == (1, True)


def test_a_standby_stands_in_the_order_of_whom_it_follows() -> None:
    """Ray's order decides who goes first, and the next standby takes over the same place."""
    world = World(spares=0)
    world.run(2)
    for pid in (98, 99):
        uid = world.join(9, node="node-1", standby=True, pid=pid)
        world.take(world.table.imported(world.t, uid))
        world.kill(world.holder(1))
        assert world.holder(1) == uid
        assert world.table.members[uid].order == 1
    assert [message["order"] for _, message in world.sent if message["type"] == "adopt"] == [1, 1]


def test_steps_that_are_done_again_after_a_return_to_an_old_checkpoint_count() -> None:
    world = World(spares=20, barren=3)
    world.run(8)
    for state in world.alive.values():
        state["step"] = 0
    for _ in range(5):
        world.kill(world.holder(1))
        for state in world.alive.values():
            state["step"] = 0
        world.run(2)
    assert "fallback" not in world.kinds()


@pytest.mark.parametrize(("begun", "stands"), [(0, False), (5, True)])
def test_ranks_that_have_begun_no_collective_do_not_stand_together(begun: int, stands: bool) -> None:
    """They open their groups, or load."""
    waiting: dict[str, Any] = {"place": "collective", "still": 999.0, "seq": begun, "beat": 0.0}
    ranks = [Member(uid=str(rank), order=rank, node="n", port=1, pid=rank, **waiting) for rank in range(2)]
    progress = Progress(total=2 * begun, since=0.0)
    assert bool(progress.together(999.0, ranks, Limits())) == stands


# ---- the coordinator ----


# ---- the worker ----


# ---- the state ----


@pytest.mark.parametrize(("saved", "step"), [((7, -1), None), ((-1, 7), None), ((5, -1), 5), ((-1, -1), 5)])
def test_a_copy_that_is_older_than_what_any_rank_has_saved_is_not_taken(
    saved: tuple[int, int], step: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = make(0)
    train(parts, range(5))
    store, snapshot = Store(), snapshot_of(*parts)
    store.put(0, 5, snapshot.take(5, store))
    neighbour = Neighbour(store=store, group=None, nodes=["a"], rank=0)
    memory = Memory(snapshot=snapshot, neighbour=neighbour, every=1)
    answers: Any = [([(0, 5)], [], saved[0], 1), ([], [], saved[1], 7)]
    monkeypatch.setattr(memory, "_answers", lambda: answers)
    monkeypatch.setattr("hyperpod_ray_training.spares.memory.newest_whole", lambda *_, **__: (5, [Source(0)]))
    assert memory.restore() == step
    assert store.saved_step == max(saved)
    assert memory.interval == 7, "a newcomer does not know how seldom copies came, and a survivor does"


def test_a_step_of_which_some_rank_has_no_copy_does_not_push_out_the_one_before() -> None:
    parts = make(0)
    store, snapshot = Store(), snapshot_of(*parts)
    neighbour = Neighbour(store=store, group=None, nodes=["a"], rank=0)
    for step in (1, 2):
        train(parts, range(step - 1, step))
        buffer = snapshot.take(step, store)
        store.put(0, step, buffer)
        neighbour.send(step, buffer)
        if step == 2:
            assert neighbour._under_way is not None
            neighbour._under_way.vote[1] = 1  # another rank says so
        neighbour.settle()
    assert store.inventory() == [(0, 1)]
    assert torch.is_tensor(store.held[0, 1])


@pytest.mark.parametrize(
    ("step", "settle", "does"),
    [
        (10, False, ["stepped", "settle", "take", "send"]),
        (9, False, ["stepped"]),
        (10, True, ["stepped", "settle", "take", "send", "settle"]),
        (9, True, ["stepped", "settle", "take", "send", "settle"]),  # a hand-over holds the very last step
    ],
)
def test_when_a_copy_is_taken(step: int, settle: bool, does: list[str]) -> None:
    done: list[str] = []
    neighbour: Any = SimpleNamespace(
        stretch=1, rank=0, store=Store(), stepped=lambda: done.append("stepped"),
        settle=lambda: done.append("settle"), send=lambda *_, **__: done.append("send"),
    )  # fmt: skip

    def take(*_: Any) -> torch.Tensor:
        done.append("take")
        return torch.zeros(64, dtype=torch.uint8)

    snapshot: Any = SimpleNamespace(take=take, pending=None)
    memory = Memory(snapshot=snapshot, neighbour=neighbour, every=5)
    memory.finished(6)  # the first one of a generation that began at step 5
    done.clear()
    memory.finished(step, settle=settle)
    assert done == does


def test_copies_are_as_far_apart_as_agreed_though_the_pace_changes() -> None:
    """Multiples of 26, 20, 25 and 26 would be at 26, 40, 50 and 52."""
    paces = iter([26, 20, 25, 26, 90])
    copied: list[int] = []
    neighbour: Any = SimpleNamespace(
        stretch=1, rank=0, store=Store(), stepped=lambda: None, send=lambda step, *_, **__: copied.append(step)
    )

    def settle() -> None:
        neighbour.stretch = next(paces)

    neighbour.settle = settle
    snapshot: Any = SimpleNamespace(take=lambda *_: torch.zeros(64, dtype=torch.uint8), pending=None)
    memory = Memory(snapshot=snapshot, neighbour=neighbour, every=1)
    for step in range(1, 120):
        memory.finished(step)
    assert copied == [1, 27, 47, 72, 98]


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_broken_gpu_was_copying_is_no_copy(fails: bool) -> None:
    def finish() -> None:
        if fails:
            raise RuntimeError("CUDA error: unspecified launch failure")

    parts, store = make(0), Store()
    snapshot = snapshot_of(*parts)
    neighbour = Neighbour(store=store, group=None, nodes=["a"], rank=0)
    pending: Any = SimpleNamespace(finish=finish, stall_s=0.0)
    buffer = snapshot.take(1, store)
    store.put(0, 1, buffer)
    neighbour.send(1, buffer, pending=pending)
    neighbour.salvage()
    assert store.inventory() == ([] if fails else [(0, 1)])


def test_what_is_saved_is_told_to_the_copies(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is older than the newest checkpoint is not taken, so the store has to know of that."""
    monkeypatch.setattr("hyperpod_ray_training.resumable.report_alone", lambda *_: None)
    member = SimpleNamespace(now=SimpleNamespace(), move_asked=False, busy=contextlib.nullcontext)
    store, told = Store(), []

    def loop(config: dict[str, Any]) -> None:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training = Resumable(config["run"], model=model, optimizer=optimizer, recomputed=["told", "member", "store"])
        training.generation = SimpleNamespace(member=member, store=store, number=0)  # type: ignore[assignment]
        for step in training.steps(6):
            told.append((store.saved_step, step))
            training.finished(step, loss=0.0)

    run = Run(storage=str(tmp_path), name="r", save_every_steps=2, async_save=False)
    run.fit(loop, workers=0)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    assert told == [(-1, 0), (-1, 1), (-1, 2), (2, 3), (2, 4), (4, 5)]


@pytest.mark.parametrize(
    ("before", "world", "exact", "batch"), [(4, 2, 0, 12), (2, 4, 0, 3), (3, 2, 0, 9), (4, 2, 7, 6)]
)
def test_at_another_number_of_ranks_the_place_is_what_all_have_done(
    before: int, world: int, exact: int, batch: int
) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = TrainingState(model=model, optimizer=optimizer, extra={}, per_rank={}, rank=0, world=world)
    state.fill_own({"epoch": 1, "part": 0, "batch": 6, "exact": exact, "world": before}, None)
    assert (state.position.epoch, state.position.batch) == (1, batch)


@pytest.mark.parametrize("odd", [0, 1, 2])
@pytest.mark.parametrize("value", [5, None])
def test_whichever_rank_differs_its_tensors_are_saved_for_each(
    odd: int, value: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers: list[dict[str, Any]] = [{"model.w": 1, "model.b": 2, "optimizer.m": 3} for _ in range(3)]
    peers[odd] = {**peers[odd], "model.b": value}
    if value is None:
        del peers[odd]["model.b"]

    def gather(answers: list[Any], mine: Any, group: Any) -> None:
        answers[:] = peers if isinstance(mine, dict) else [odd == rank for rank in range(3)]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    ranks: Any = SimpleNamespace(world=3, patient=None)
    assert checkpoint.apart(peers[0], ranks) == {"model.b"}


@pytest.mark.parametrize(("own", "begins"), [(["step-3"], "own"), ([], "other")])
def test_a_run_starts_from_another_only_before_it_has_a_checkpoint(
    own: list[str], begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = {"own": own, "other": ["step-9"]}
    monkeypatch.setattr(restoring, "RunFolder", str)
    monkeypatch.setattr(restoring.Restorer, "_candidates", lambda _, folder: checkpoints[folder])
    monkeypatch.setattr(restoring.Restorer, "_first_usable", lambda _, folder, candidates, started: folder)
    restorer: Any = restoring.Restorer.__new__(restoring.Restorer)
    restorer.run, restorer.folder = SimpleNamespace(start_from="other"), "own"
    restorer.ranks = SimpleNamespace(rank=1)
    assert restorer.restore() == begins
