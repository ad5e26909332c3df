"""What a journal's history keeps of a run, line by line and however it was written."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import history
from hyperpod_ray_training.history import Event, History, Tail

# ---- what a line may hold ----


@pytest.mark.parametrize(
    ("value", "number", "whole"),
    [
        (3, 3.0, 3), (3.0, 3.0, 3), (3.5, 3.5, None), (-1, -1.0, -1), (0, 0.0, 0), (True, None, None),
        ("3", None, None), (None, None, None), (math.nan, None, None), (math.inf, None, None),
        (10**400, None, None), ([], None, None),
    ],
)  # fmt: skip
def test_numbers(value: Any, number: float | None, whole: int | None) -> None:
    assert (history.number(value), history.whole(value)) == (number, whole)


@pytest.mark.parametrize(
    ("text", "content"),
    [('{"a": 1}', {"a": 1}), (b'{"a": 1}', {"a": 1}), ("", {}), (None, {}), ("[1]", {}), ("3", {}), ("{", {}),
     (b"\xff", {}), ("[" * 100_000, {})],
    ids=range(9),
)  # fmt: skip
def test_a_mapping_or_nothing(text: Any, content: dict[str, Any]) -> None:
    assert history.mapping(text) == content


def test_a_text_is_one_line_without_control_characters() -> None:
    """https://invisible-island.net/xterm/ctlseqs/ctlseqs.html: sequences begin with ESC or with C1 controls."""
    assert history.clean("a\x1b[31m b\r\n\tc\x9b2J\u202e") == "a [31m b c 2J"
    assert history.clean(None) == history.first_line(None) == history.first_line("") == ""
    assert history.clean("x" * 500) == "x" * 300
    assert history.clean("x" * 5, 3) == "xxx"
    assert history.clean(7) == "7"
    assert history.first_line("\n first \n second") == "first"


STEP = {"t": 1790000000.5, "kind": "step", "step": 3}


@pytest.mark.parametrize(
    ("changed", "event"),
    [
        ({}, Event(1790000000.5, "step", 3, {})),
        ({"loss": 0.25}, Event(1790000000.5, "step", 3, {"loss": 0.25})),
        ({"t": None}, None),
        ({"t": -1}, None),
        ({"t": 1e11}, None),
        ({"kind": "shutdown"}, None),
        ({"kind": 7}, None),
        ({"step": None}, None),
        ({"step": -1}, None),
        ({"step": 1.5}, None),
        ({"kind": "save", "step": None}, None),
        ({"kind": "restore", "step": None}, Event(1790000000.5, "restore", None, {})),
        ({"kind": "restore", "step": -1}, Event(1790000000.5, "restore", None, {})),
    ],
)
def test_a_line_is_an_event_or_none(changed: dict[str, Any], event: Event | None) -> None:
    text = json.dumps(STEP | changed)
    assert history.parse(text) == history.parse(text.encode() + b"\n") == event


def test_a_loss_comes_back_to_the_last_bit_and_a_driver_is_no_worker() -> None:
    loss = 0.1 + 0.2
    event = history.parse(json.dumps(STEP | {"loss": loss, "role": "driver"}))
    assert event is not None
    assert event.loss == loss
    assert not event.worker
    plain = history.parse(json.dumps(STEP | {"loss": "low"}))
    assert plain is not None and plain.worker and plain.loss is None
    assert list(history.steps([plain, event])) == [event]


# ---- a file that is being written ----


def test_a_line_counts_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(path)
    assert tail.read() == [] and tail.rest() == b"" and tail.step == 0
    path.write_bytes(b'{"t": 1, "kind": "step", "step": 1}\n{"t": 2, "kind"')
    assert [event.step for event in tail.read()] == [1]
    assert tail.rest() == b'{"t": 2, "kind"'
    with path.open("ab") as stream:
        stream.write(b': "save", "step": 1}\n')
    assert [event.kind for event in tail.read()] == ["save"]
    assert tail.read() == []
    assert tail.step == 1 and tail.last("restore") is None
    assert [event.kind for event in Tail(path, offset=path.read_bytes().index(b"\n") + 1).read()] == ["save"]


def test_of_a_line_without_measure_its_end_is_read_and_the_next_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    long = b"x" * (2 * history.MOST_LINE_BYTES + 5) + b"\n"
    path.write_bytes(long + b"next\n")
    tail = Tail(path)
    lines = list(tail.lines())
    assert [len(line) for line in lines] == [6, 5]
    assert lines[1] == b"next\n"
    assert tail.offset == len(long) + 5
    assert [len(line) for line in Tail(path).lines(most_bytes=10)] == [6], "nobody continues within a line"


def test_reading_stops_after_so_many_bytes_and_goes_on_there(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    tail = Tail(path)
    assert list(tail.lines(most_bytes=5)) == [b"one\n", b"two\n"]
    assert list(tail.lines(most_bytes=1)) == [b"three\n"]


def test_a_pipe_in_the_place_of_a_journal_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(OSError, match="not a regular file"):
        history.opened(tmp_path / "events.jsonl")
    assert Tail(tmp_path / "events.jsonl").read() == []
    (tmp_path / "folder").mkdir()
    assert Tail(tmp_path / "folder").rest() == b""


# ---- what it adds up to ----


def test_each_second_of_a_run_has_its_share() -> None:
    run = History()
    for event in (
        Event(0.0, "start", None, {"role": "driver"}),
        Event(4.0, "start"),
        *(Event(10.0 + second, "step", 1 + second, {"loss": 1.0}) for second in range(5)),
        Event(20.0, "lost", None, {"rank": 3, "node": "n"}),
        Event(21.0, "start", None, {"role": "driver"}),
        Event(24.0, "start"),
        Event(26.0, "restore", 3, {"path": "step-3"}),
        Event(27.0, "step", 4),
        Event(28.0, "step", 5),
        Event(29.0, "step", 6),
        Event(30.0, "done"),
    ):
        run.feed(Event(1790000000.0 + event.t, event.kind, event.step, event.values))
    settled = run.settled(now=1790000100.0)
    assert sum(settled.seconds.values()) == pytest.approx(30.0)
    # until a worker starts the job waits, and until its first step it recovers; steps 4 and 5 were done again
    assert settled.seconds["waiting"] == pytest.approx(4.0 + 3.0)
    assert settled.seconds["redone"] == pytest.approx(1.0)
    assert settled.seconds["recovering"] == pytest.approx(6.0 + 6.0 + 3.0), "between two drivers it is idle"
    assert settled.interrupted == 1 and list(settled.by_cause) == ["lost"]
    assert settled.over and not settled.broken
    assert History.kept(json.dumps(run.summary())).summary() == run.summary()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event(0, "lost", None, {"rank": 3, "node": "i-1", "message": "gone"}), "rank 3 on i-1 lost: gone"),
        (Event(0, "lost", None, {"rank": 0, "node": "local"}), "rank 0 lost"),
        (Event(0, "lost"), "a rank lost"),
        (Event(0, "fault", None, {"fault": "kill", "rank": 1}), "injected fault kill (rank 1)"),
        (Event(0, "fault"), "injected fault"),
        (Event(0, "drain", None, {"reason": "spot"}), "drain notice: spot"),
        (Event(0, "resize", None, {"world_before": 8, "world": 7}), "8 → 7 workers"),
        (Event(0, "resize"), "? → ? workers"),
        (Event(0, "error", None, {"rank": 2, "message": "nan"}), "rank 2: nan"),
        (Event(0, "error"), "an error without a message"),
        (Event(0, "evidence", None, {"rank": 2, "message": "Xid 79"}), "Xid 79"),
    ],
)
def test_a_sign_in_words(event: Event, words: str) -> None:
    assert history.words(event) == words


@pytest.mark.parametrize(
    ("signs", "cause"),
    [
        ([], ("unknown", "the run's events name no cause")),
        ([[0, "start", "again"]], ("start", "again")),
        ([[0, "start", "again"], [1, "error", "nan"]], ("error", "nan")),
        ([[0, "error", "nan"], [1, "fault", "kill"]], ("fault", "kill")),
        (
            [[0, "error", "Connection reset by peer"], [1, "error", "CUDA error"]],
            ("error", "CUDA error (the first of several)"),
        ),
        ([[0, "error", "gloo timed out"]], ("error", "gloo timed out")),
        ([[0, "lost", "rank 3 lost"], [1, "evidence", "Xid 79"]], ("lost", "rank 3 lost; Xid 79")),
    ],
)
def test_the_most_telling_sign_is_the_cause(signs: list[list[Any]], cause: tuple[str, str]) -> None:
    assert history.cause_of(signs) == cause


# ---- the curve of a run ----


def curve(values: list[float | None], *, edges: tuple[int, ...] = ()) -> history.History:
    told = history.History()
    for step, value in enumerate(values):
        told._point([step, float(step), value], edge=step in edges)
    return told


def test_a_curve_keeps_its_size_its_ends_and_what_stands_out() -> None:
    values: list[float | None] = [2.0] * 20_000
    values[7_777] = 90.0
    told = curve(values, edges=(5_000, 5_001))
    steps = [point[0] for point in told.curve]
    assert len(told.curve) <= history.POINTS
    assert len(told.curve) >= history.POINTS // 4, "and no more is thrown away than must be"
    assert steps == sorted(set(steps))
    gaps = [later - earlier for earlier, later in itertools.pairwise(steps)]
    assert max(gaps) <= 8 * len(values) / history.POINTS, "what is old is kept as densely as what is new"
    assert {0, 5_000, 5_001, 7_777} <= set(steps)
    assert [point[3] for point in told.curve if point[0] in {5_000, 5_001}] == [1, 1]


@pytest.mark.parametrize("number", [1, history.POINTS - 1])
def test_a_short_curve_has_every_step(number: int) -> None:
    assert [point[0] for point in curve([1.0] * number).curve] == list(range(number))


@pytest.mark.parametrize("number", [40, 67, 1000])
def test_the_curve_of_many_interruptions_is_short_in_a_report(number: int) -> None:
    edges = tuple(range(50, 50 * (number + 1), 50))
    told = curve([1.0] * (edges[-1] + 20), edges=edges)
    for _ in range(20):  # `shorten` goes on until it is short
        told._thin(120)
    assert len(told.curve) <= 120
    told.shorten()
    assert [point[3] for point in told.curve if point[0] in {edges[-2], edges[-1]}] == [1, 1]
