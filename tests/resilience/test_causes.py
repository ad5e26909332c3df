"""Causes, not states: which rank the others wait for, which has not begun what they wait in, and who failed first."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import flight
from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.history import Event, History, cause_of, words
from hyperpod_ray_training.spares.coordinator import Coordinator
from hyperpod_ray_training.spares.members import Limits, Member
from hyperpod_ray_training.spares.stragglers import BEATS, STEPS, TIMES, Stragglers
from tests.resilience import waiting_ranks
from tests.resilience.test_table import World

ROOT = Path(__file__).resolve().parents[2]
WORLD = 3


def of_ranks(scenario: str, folder: Path) -> list[dict[str, Any]]:
    """What real ranks of gloo answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, str(Path(waiting_ranks.__file__)), scenario]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([*command, str(rank), str(WORLD), port, str(folder)], stdout=subprocess.PIPE, env=environment)
        for rank in range(WORLD)
    ]
    answers = [rank.communicate(timeout=600)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * WORLD
    return [json.loads(answer) for answer in answers]


# --- the flight recorder ----------------------------------------------------------------------------------------------


def test_real_ranks_show_who_left_a_collective_out(tmp_path: Path) -> None:
    folder = tmp_path / "fsx" / "runs" / "first"
    folder.mkdir(parents=True)
    answers = of_ranks("out-of-step", folder)
    said = flight.differs({rank: answer["newest"] for rank, answer in enumerate(answers)})
    assert said == "2 of 3 ranks have begun all_reduce 5 of group 0 default_pg, not rank 2 (last all_reduce 3)"
    command = [sys.executable, "-m", "hyperpod_ray_training.flight", f"{tmp_path}/fsx/runs/first/flight"]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout == f"{said}\n"
    kept = json.loads((folder / flight.FOLDER / "gen-3-rank-1.json").read_text())
    assert [entry["number"] for entry in kept["groups"]["0 default_pg"]] == [1, 2, 3, 4, 5]


def test_older_files_and_those_of_another_attempt_do_not_count(tmp_path: Path) -> None:
    folder = tmp_path / flight.FOLDER
    folder.mkdir()

    def put(name: str, number: int, *, age: float) -> None:
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"newest": {"a": [number, "all_reduce"]}}))
        os.utime(path, (1e9 - age, 1e9 - age))

    put("gen-1-rank-0", 9, age=50)
    put("gen-2-rank-7", 1, age=86_400)
    put("gen-2-rank-0", 5, age=0)
    put("gen-2-rank-1", 4, age=1)
    (folder / "gen-2-rank-2.json").write_text('{"newe')
    os.utime(folder / "gen-2-rank-2.json", (1e9, 1e9))
    assert flight.read(folder) == {0: {"a": [5, "all_reduce"]}, 1: {"a": [4, "all_reduce"]}}
    flight._prune(folder, "gen-3")
    assert {path.name.partition("-rank")[0] for path in folder.iterdir()} == {"gen-1", "gen-2"}
    flight._prune(folder, "gen-4")
    put("gen-4-rank-0", 1, age=-5)
    put("gen-5-rank-0", 1, age=-6)
    flight._prune(folder, "gen-6")
    assert {path.name.partition("-rank")[0] for path in folder.iterdir()} == {"gen-4", "gen-5"}


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ({}, ""), ({0: {"a": [4, "all_reduce"]}}, ""),
        ({0: {"a": [4, "all_reduce"]}, 1: {"a": [4, "all_reduce"]}}, ""),
        ({0: {"a": [4, "all_reduce"]}, 1: {"a": [4, "broadcast"]}},
         "ranks are in different collectives, number 4 of group a: all_reduce: rank 0; broadcast: rank 1"),
        ({0: {"a": [4, "all_reduce"], "b": [7, "send"]}, 1: {"b": [6, "send"]}},
         "1 of 2 ranks have begun send 7 of group b, not rank 1 (last send 6)"),
        ({rank: {"a": [5 - (rank > 0), "all_gather"]} for rank in range(1000)},
         "1 of 1000 ranks have begun all_gather 5 of group a, not " +
         ", ".join(f"rank {rank} (last all_gather 4)" for rank in range(1, 9)) + " and 991 more"),
    ],
)  # fmt: skip
def test_what_ranks_have_begun_in_words(ranks: dict[int, Any], said: str) -> None:
    assert flight.differs(ranks) == said


def test_a_folder_without_records_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert flight.main([str(tmp_path)]) == 3
    assert "Expected *-rank-N.json" in capsys.readouterr().err
    assert flight.main([]) == 2


def test_what_the_user_has_set_stays() -> None:
    for own in ({flight.SIZE_VARIABLE: "7"}, {flight.OLD_VARIABLE: "9"}):
        environ = dict(own)
        flight.record(environ)
        assert environ == own
    fresh: dict[str, str] = {}
    flight.record(fresh)
    assert fresh == {flight.SIZE_VARIABLE: "2000"}


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


# --- stragglers -------------------------------------------------------------------------------------------------------


def member(rank: int) -> Member:
    return Member(uid=f"m{rank}", order=rank, node=f"10.0.0.{rank}", port=1, pid=1, beat=0.0)


class Ranks:
    """Ranks that beat; each waits a share of its time."""

    def __init__(self, waits: dict[int, float], *, steps_a_beat: float = 0.5) -> None:
        self.holders = [(rank, member(rank)) for rank in waits]
        self.waits, self.every, self.beats = waits, steps_a_beat, 0
        self.stragglers = Stragglers()

    def window(self) -> list[dict[str, Any]]:
        said = []
        for beat in range(BEATS):
            self.beats += 1
            for rank, holder in self.holders:
                holder.step = int(self.beats * self.every)
                waits = beat < self.waits[rank] * BEATS
                holder.place, holder.at = ("collective" if waits else "moves"), f"train.py:{rank}"
                self.stragglers.beat(holder)
            if (told := self.stragglers.judge(self.holders)) is not None:
                said.append(told)
        return said


def test_a_slow_rank_is_named_once_with_its_node_and_what_shows_it() -> None:
    ranks = Ranks({0: 0.6, 1: 0.02, 2: 0.7, 3: 0.55})
    said = [ranks.window() for _ in range(5)]
    assert [len(window) for window in said] == [0, 1, 0, 0, 0], "in the second window, and never again"
    (told,) = said[TIMES - 1]
    assert (told["rank"], told["node"], told["waits"], told["others_wait"]) == (1, "10.0.0.1", 0.02, 0.6)
    assert told["message"] == (
        "rank 1 on 10.0.0.1 holds the others up: they wait 60% of their time, and it waits 2% of its own; it was at "
        "train.py:1"
    )
    ranks.waits[1] = 0.5
    assert [len(ranks.window()) for _ in range(3)] == [1, 0, 0], "and once when it stands out no more"
    ranks.waits[3] = 0.0
    assert [window[0]["rank"] for window in (ranks.window() for _ in range(4)) if window] == [3]


@pytest.mark.parametrize(
    "waits",
    [{0: 0.02, 1: 0.01, 2: 0.03}, {0: 0.5, 1: 0.5, 2: 0.5}, {0: 0.05, 1: 0.05, 2: 0.9, 3: 0.9},
     {0: 0.2, 1: 0.7, 2: 0.7}, {0: 0.0}, {0: 0.05, 1: 0.2, 2: 0.2}],
    ids=["nobody waits", "all wait alike", "two are slow", "a little slower", "one rank", "they wait little"],
)  # fmt: skip
def test_what_names_nobody(waits: dict[int, float]) -> None:
    ranks = Ranks(waits)
    assert [ranks.window() for _ in range(4)] == [[]] * 4


def test_a_run_that_stands_or_saves_has_no_straggler() -> None:
    standing = Ranks({0: 0.9, 1: 0.0, 2: 0.9}, steps_a_beat=(STEPS - 1) / BEATS)
    assert [standing.window() for _ in range(4)] == [[]] * 4
    saving = Ranks({0: 0.9, 1: 0.0, 2: 0.9})
    saving.holders[1][1].busy = True
    assert [saving.window() for _ in range(4)] == [[]] * 4


def test_the_table_notes_a_straggler() -> None:
    world = World(active=3, spares=0)
    assert world.table.running
    for beat in range(BEATS * (TIMES + 1)):
        world.t += 0.2
        for rank, uid in world.table.ranks.items():
            place = {"place": "moves" if rank == 2 else "collective", "still": 0.0, "seq": beat}
            world.table.beat(world.t, uid, step=beat // 4, busy=False, saving=False, at="train.py:9", **place)
        world.table.tick(world.t)
    (told,) = [fields for kind, fields in world.notes if kind == "slow"]
    assert (told["rank"], told["node"]) == (2, "node-2")


@pytest.mark.slow
def test_real_ranks_show_which_of_them_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats of real ranks, as `Stance` sees them; on GPUs a rank that waits spins, and this was not tried there."""
    answers = of_ranks("slow", tmp_path)
    counts = [len(answer["beats"]) for answer in answers]
    monkeypatch.setattr("hyperpod_ray_training.spares.stragglers.BEATS", min(counts) // 5)
    stragglers, holders = Stragglers(), [(rank, member(rank)) for rank in range(WORLD)]
    said = []
    for beat in sorted((beat for answer in answers for beat in answer["beats"]), key=lambda beat: beat["t"]):
        holder = holders[beat["rank"]][1]
        holder.step, holder.place, holder.at = beat["step"], beat["place"], beat["at"]
        stragglers.beat(holder)
        if (told := stragglers.judge(holders)) is not None:
            said.append(told)
    # on a busy machine the ranks have unequal numbers of beats: each counts at its own moment
    assert {told["rank"] for told in said if "rank" in told} == {1}, (said, counts)
    assert "waiting_ranks.py" in said[0]["message"]


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
