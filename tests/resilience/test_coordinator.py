from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_training import Run
from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.spares import coordinator as coordinators
from hyperpod_ray_training.spares import pulse
from hyperpod_ray_training.spares.coordinator import Coordinator
from hyperpod_ray_training.spares.members import Limits


def test_what_the_ranks_answer_is_one_line_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperpod_ray_training.spares.coordinator.RECORD_S", 0.05)
    facts: Any = type("Run", (), {"name": "a", "folder": lambda self: RunFolder(str(tmp_path))})()

    async def hang() -> None:
        coordinator = Coordinator(run=facts, active=2, spares=0, limits=Limits(), token="t")
        for rank in range(3):
            newest = {"0 default_pg": [5 - (rank == 1), "all_reduce"]}
            assert coordinator._hear("m", {"type": "recorded", "rank": rank, "newest": newest}) == []
        await asyncio.sleep(0.3)

    asyncio.run(hang())
    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert event["kind"] == "evidence" and event["message"].startswith("2 of 3 ranks have begun all_reduce 5")
    assert event["path"].endswith("/flight")


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
