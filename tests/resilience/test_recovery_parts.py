"""What each part of a recovery does with what comes late, twice, or from another generation; no run, no process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from test_memory import make, snapshot_of, train
from test_table import World

from hyperpod_ray_training import Resumable, Run, checkpoint, flight
from hyperpod_ray_training.spares import coordinator as coordinators
from hyperpod_ray_training.spares import loop as loops
from hyperpod_ray_training.spares import pulse
from hyperpod_ray_training.spares.groups import GenerationOverError
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


@pytest.fixture
def coordinator(tmp_path: Any) -> coordinators.Coordinator:
    run = Run(storage=str(tmp_path), name="r")
    made = coordinators.Coordinator(run=run, active=2, spares=0, limits=Limits(), token="t")
    made.table.note = lambda kind, **fields: notes.append((kind, fields))
    notes.clear()
    return made


notes: list[tuple[str, dict[str, Any]]] = []


async def says_hello(address: tuple[str, int], uid: str, *, role: str = "hello") -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection(*address)
    challenge = json.loads(await reader.readline())["challenge"]
    hello = {"type": role, "uid": uid, "order": 0, "node": "n", "port": 1, "pid": 1}
    hello["proof"] = pulse.proof("t", challenge=challenge, role=role, uid=uid)
    writer.write((json.dumps(hello) + "\n").encode())
    if role == "hello":
        await reader.readline()  # a welcome
    return writer


async def connections(count: int) -> None:
    """Until the coordinator serves so many."""
    while len([task for task in asyncio.all_tasks() if "_serve" in repr(task)]) != count:
        await asyncio.sleep(0.01)


def test_the_end_of_an_old_connection_is_not_the_end_of_who_came_back(coordinator: coordinators.Coordinator) -> None:
    async def play() -> None:
        address = await coordinator.listen("127.0.0.1", nodes=False)
        old = await says_hello(address, "a")
        new = await says_hello(address, "a")
        old.close()
        await old.wait_closed()
        await connections(1)
        assert "a" in coordinator.table.members
        new.close()
        while "a" in coordinator.table.members:
            await asyncio.sleep(0.01)
        coordinator.close()

    asyncio.run(asyncio.wait_for(play(), 120))
    assert [fields["message"] for kind, fields in notes if kind == "lost"] == ["connection closed"]


def test_the_end_of_an_old_pulse_is_not_the_end_of_the_new_one(coordinator: coordinators.Coordinator) -> None:
    """The new one obeys a fence where Python's lock is taken."""

    async def play() -> None:
        address = await coordinator.listen("127.0.0.1", nodes=False)
        old = await says_hello(address, "a", role="pulse")
        while "a" not in coordinator.pulses:
            await asyncio.sleep(0.01)
        first = coordinator.pulses["a"]
        new = await says_hello(address, "a", role="pulse")
        while coordinator.pulses["a"] is first:
            await asyncio.sleep(0.01)
        second = coordinator.pulses["a"]
        old.close()
        await connections(1)
        assert coordinator.pulses == {"a": second}
        new.close()
        await connections(0)
        assert coordinator.pulses == {}
        coordinator.close()

    asyncio.run(asyncio.wait_for(play(), 120))


def test_a_worker_that_hangs_says_what_it_had_begun_before_its_pulse_ends_it(
    coordinator: coordinators.Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def line(name: str) -> Any:
        return SimpleNamespace(write=lambda text: sent.append(f"{name}: {json.loads(text)['type']}"))

    async def play() -> None:
        coordinator.writers, coordinator.pulses = {"a": line("a")}, {"a": line("beside a"), "b": line("beside b")}
        fence = {"type": "fence"}
        coordinator._send([("a", {"type": "record", "gen": 0}), ("a", fence), ("b", fence)])
        assert sent == ["a: record", "a: fence", "beside b: fence"]
        while len(sent) < 4:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(coordinators, "RECORD_S", 0.02)
    asyncio.run(asyncio.wait_for(play(), 120))
    assert sent[3] == "beside a: fence"


def test_the_coordinator_hears_each_word(
    coordinator: coordinators.Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, asked = coordinator.table, []
    for name in ("cold", "has_imported", "imported", "warmed", "broke", "is_ready", "handed_over", "done", "lost"):
        monkeypatch.setattr(table, name, lambda *given, name=name, **fields: asked.append((name, given[-1], fields)))
    words: list[dict[str, Any]] = [
        {"type": "cold"}, {"type": "modules", "modules": ["a.b"]}, {"type": "imported", "rss_mb": 5, "more": 1},
        {"type": "warm"}, {"type": "broke", "gen": 3}, {"type": "ready", "gen": 4}, {"type": "handed over", "gen": 5},
        {"type": "done"}, {"type": "broken", "message": "hardware error"}, {"type": "unknown"}, {},
    ]  # fmt: skip
    for word in words:
        coordinator._hear("a", word)
    assert asked == [
        ("cold", "a", {}), ("has_imported", ["a.b"], {}), ("imported", "a", {"rss_mb": 5}), ("warmed", "a", {}),
        ("broke", 3, {}), ("is_ready", 4, {}), ("handed_over", 5, {}), ("done", "a", {}),
        ("lost", "hardware error", {}),
    ]  # fmt: skip


# ---- the worker ----


def survivor(monkeypatch: pytest.MonkeyPatch, *, newest_gen: int, loop: Any = None) -> Any:
    """A worker whose groups open at once, and what it says."""
    monkeypatch.setattr(loops, "Stance", lambda: SimpleNamespace(look=dict))
    monkeypatch.setattr(flight, "keep", lambda *_, **__: {})
    one = loops.Survivor.__new__(loops.Survivor)
    one.said, one.trained, one.left = [], [], 0  # type: ignore[attr-defined]
    one.member = SimpleNamespace(  # type: ignore[assignment]
        newest_gen=newest_gen, now=SimpleNamespace(), move_asked=True,
        send=lambda kind, **fields: one.said.append((kind, fields)),  # type: ignore[attr-defined]
    )  # fmt: skip

    def let_go() -> None:
        one.left += 1  # type: ignore[attr-defined]

    one.groups = SimpleNamespace(open=lambda **_: None, let_go=let_go)  # type: ignore[assignment]
    one.store, one.config, one.folder, one.loop = Store(), {}, None, loop
    return one


ASSIGN = {"type": "assign", "gen": 3, "rank": 0, "nodes": "a*1", "host": "h", "port": 1}


@pytest.mark.parametrize(("newest", "obeys"), [(2, True), (3, True), (4, False)])
def test_an_assignment_of_a_generation_that_has_ended_is_not_obeyed(
    newest: int, obeys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = survivor(monkeypatch, newest_gen=newest)
    one._train = one.trained.append
    one._obey(dict(ASSIGN))
    assert bool(one.trained) == obeys


OWN, LOST_PEER = ValueError("nothing of the network"), RuntimeError("[gloo] Connection closed by peer")


@pytest.mark.parametrize(
    ("error", "ended", "raises", "says"),
    [
        (OWN, True, False, []),  # a closed socket can look like anything; the generation is over anyway
        (OWN, False, True, []),
        (LOST_PEER, False, False, ["broke"]),
        (LOST_PEER, True, False, []),
        (GenerationOverError(), True, False, []),
        (loops.HandOverError(), False, False, ["handed over"]),
        (None, False, False, ["done"]),
    ],
)
def test_what_a_worker_does_with_what_ends_its_loop(
    error: BaseException | None, ended: bool, raises: bool, says: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def loop(_: dict[str, Any]) -> str:
        one.member.newest_gen = 4 if ended else 3
        if error is not None:
            raise error
        return "result"

    one = survivor(monkeypatch, newest_gen=3, loop=loop)
    monkeypatch.setattr(loops, "shown", Nothing)
    monkeypatch.setattr(loops, "is_network", lambda raised: raised is LOST_PEER)  # this file is the user's
    if raises:
        with pytest.raises(ValueError, match="nothing of the network"):
            one._train(dict(ASSIGN))
    else:
        assert bool(one._train(dict(ASSIGN))) == (error is None)
    assert ([kind for kind, _ in one.said], one.member.now.rank, loops.current()) == (says, None, None)
    assert one.left
    assert one.member.move_asked is False


@pytest.mark.parametrize("said", ["in words", "by the way"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_lost_peer_is_known_also_behind_another_error(said: str, lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch raises one error of another, with `from` or while it handles the first."""
    monkeypatch.setattr(loops, "of_user", lambda _: False)
    first, second = (LOST_PEER if lost else OWN), RuntimeError("the step has failed")
    second.__cause__, second.__context__ = (first, None) if said == "in words" else (None, first)
    assert loops.is_network(second) == lost


class Nothing:
    def __init__(self, **_: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


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
    answers: Any = [([(0, 5)], [], saved[0]), ([], [], saved[1])]
    monkeypatch.setattr(memory, "_answers", lambda: answers)
    monkeypatch.setattr("hyperpod_ray_training.spares.memory.newest_whole", lambda *_, **__: (5, [Source(0)]))
    assert memory.restore() == step
    assert store.saved_step == max(saved)


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
        (11, False, ["stepped"]),
        (10, True, ["stepped", "settle", "take", "send", "settle"]),
        (11, True, ["stepped", "settle", "take", "send", "settle"]),  # a hand-over holds the very last step
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
    Memory(snapshot=snapshot, neighbour=neighbour, every=5).finished(step, settle=settle)
    assert done == does


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
