"""Stragglers of a run without a coordinator: shares that the ranks exchange, and the line that names the slow one."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, job_environment

from hyperpod_ray_training.spares.stragglers import BEATS, OTHERS_WAIT, STEPS, TIMES
from hyperpod_ray_training.waits import Waits

WAITING: dict[str, Any] = {"place": "collective", "at": "train.py:9 in loop"}
AT_WORK: dict[str, Any] = {"place": "moves", "at": "train.py:7 in loop"}


class Ranks:
    """Ranks that ask and answer as `hyperpod_ray_training.ranks` does: the largest of each value."""

    def __init__(self, shares: dict[int, float], *, steps: int = STEPS) -> None:
        self.shares, self.steps, self.step = shares, steps, 0
        self.waits = [Waits(rank, len(shares)) for rank in shares]

    def exchange(self) -> set[Any]:
        """A question of every rank; what each makes of the answer."""
        questions = [waits.question() for waits in self.waits]
        assert len({len(question) for question in questions}) == 1, "one collective, of one size"
        answer = [max(values) for values in zip(*questions, strict=True)]
        return {waits.answer(answer, self.step) for waits in self.waits}

    def window(self, *, beats: int = BEATS) -> set[Any]:
        """Half a minute."""
        self.step += self.steps
        for beat in range(beats):
            for rank, waits in enumerate(self.waits):
                waits.beat(WAITING if beat < self.shares[rank] * beats else AT_WORK)
        assert self.exchange() == {""}, "whether all have enough beats"
        return self.exchange()


def test_all_ranks_name_the_slow_one_once_and_say_when_it_is_over() -> None:
    ranks = Ranks({0: 0.6, 1: 0.02, 2: 0.7, 3: 0.54})
    said = [ranks.window() for _ in range(5)]
    (told,) = said[TIMES - 1]
    assert told == (1, pytest.approx(0.02), pytest.approx(0.6))
    assert [window for number, window in enumerate(said) if number != TIMES - 1] == [{""}] * 4
    assert ranks.waits[1].line == AT_WORK["at"], "where it stood while the others waited"
    ranks.shares[1] = 0.5
    assert [ranks.window() for _ in range(3)] == [{"over"}, {""}, {""}]


@pytest.mark.parametrize(
    ("shares", "steps"),
    [
        ({0: 0.02, 1: 0.01, 2: 0.03}, STEPS),
        ({0: 0.5, 1: 0.5, 2: 0.5}, STEPS),
        ({0: 0.2, 1: 0.7, 2: 0.7}, STEPS),
        ({0: 0.0, 1: OTHERS_WAIT - 0.05, 2: OTHERS_WAIT - 0.05}, STEPS),
        ({0: 0.0, 1: 0.9, 2: 0.9}, STEPS - 1),
    ],
    ids=["nobody waits", "all wait alike", "a little slower", "they wait little", "the run stands"],
)
def test_what_names_nobody(shares: dict[int, float], steps: int) -> None:
    ranks = Ranks(shares, steps=steps)
    assert [ranks.window() for _ in range(4)] == [{""}] * 4


def test_too_few_beats_of_one_rank_hold_the_exchange_back() -> None:
    ranks = Ranks({0: 0.9, 1: 0.0})
    for _ in range(BEATS):
        ranks.waits[0].beat(WAITING)
    for _ in range(BEATS - 1):
        ranks.waits[1].beat(AT_WORK)
    assert [ranks.exchange() for _ in range(3)] == [{""}] * 3
    assert len(ranks.waits[0].question()) == 1
    ranks.waits[1].beat(AT_WORK)
    ranks.exchange()
    assert len(ranks.waits[0].question()) == 2 + 2


def test_what_one_rank_announces_says_nothing_of_its_pace() -> None:
    ranks = Ranks({0: 0.9, 1: 0.0})
    for _ in range(4):
        with ranks.waits[1].busy(alone=True):
            pass
        assert ranks.window() == {""}
    *_, (told,) = [ranks.window() for _ in range(TIMES)]
    assert told == (1, 0.0, pytest.approx(0.9)), "it was held back by the announcement alone"


def test_a_rank_alone_asks_nothing_and_starts_nothing() -> None:
    waits = Waits(0, 1)
    waits.begin(0)
    assert (waits.question(), waits.answer([], 3), waits._thread) == ([], "", None)


def test_time_of_a_save_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperpod_ray_training.waits.BEAT_S", 0.001)
    waits = Waits(0, 2)
    waits.begin(0)
    with waits.busy():
        time.sleep(0.05)
        counted = waits.beats
        time.sleep(0.1)
        assert waits.beats <= counted + 1
    while waits.beats <= counted + 1:
        time.sleep(0.01)
    waits.end()
    assert waits._thread is not None
    waits._thread.join(10)
    assert not waits._thread.is_alive()


def test_real_ranks_without_a_coordinator_name_the_slow_one(tmp_path: Path, launcher: subprocess.Popen[str]) -> None:
    """Two ranks of a run as under torchrun, the second slow; the journal has its rank, node and line."""
    request = {
        "script": str(ROOT / "tests" / "resilience" / "slow_rank.py"), "arguments": [str(tmp_path), "run"], "ranks": 2,
        "environment": job_environment(GLOO_SOCKET_IFNAME="lo"), "output": str(tmp_path / "said"),
    }  # fmt: skip
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    launcher.stdin.write(json.dumps(request) + "\n")
    launcher.stdin.flush()
    codes = json.loads(launcher.stdout.readline())
    assert codes == [0, 0], "".join(path.read_text() for path in tmp_path.glob("said.?"))[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    slow = [line for line in lines if line["kind"] == "slow"]
    assert [line.get("rank") for line in slow] == [1], slow
    assert slow[0]["node"] == "local"
    assert "it was at slow_rank.py:" in slow[0]["message"]
