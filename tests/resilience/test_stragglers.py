from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training.spares.members import Member
from hyperpod_ray_training.spares.stragglers import BEATS, STEPS, TIMES, Stragglers
from tests.resilience.causes_helpers import WORLD, of_ranks
from tests.resilience.table_helpers import World


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
