"""What is read of a run's own files: steps, interruptions, rates; whatever is in them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from hyperpod_ray.ops.in_ray.history import History
from hyperpod_ray.ops.journal.record import Record, Step, read
from hyperpod_ray.ops.journal.run import run_of
from tests.support.pages import NOW, journal


def line(t: float, kind: str, **fields: Any) -> str:
    return json.dumps({"t": t, "kind": kind, **fields})


def steps(first: int, last: int, *, t: float, every: float = 1.0) -> list[str]:
    return [
        line(t + index * every, "step", step=step, loss=1 / step) for index, step in enumerate(range(first, last + 1))
    ]


def test_a_run_that_lost_a_rank_has_one_interruption() -> None:
    lost = line(110.5, "lost", rank=3, node="10.0.0.9", message="connection closed")
    restored = line(113, "restore", step=8, path="memory")
    found = read("a", "", [*steps(1, 11, t=100), lost, restored, *steps(9, 20, t=115)])
    (interruption,) = found.interruptions
    assert (interruption.stopped_t, interruption.resumed_t, interruption.seconds) == (110, 115, 5)
    assert (interruption.stopped_step, interruption.resumed_step, interruption.again, interruption.source) == (
        11,
        8,
        3,
        "memory",
    )
    assert interruption.cause == "rank 3 on 10.0.0.9 lost: connection closed"
    assert found.step == 20


def test_an_interruption_without_a_restore_or_a_cause_is_one_all_the_same() -> None:
    found = read("a", "", [*steps(1, 10, t=0), *steps(6, 12, t=60)])
    (interruption,) = found.interruptions
    assert (interruption.again, interruption.source, interruption.cause) == (5, "", "the run's events name no cause")


def test_a_run_that_has_not_come_back_is_interrupted_until_now() -> None:
    found = read("a", '{"state": "recovering"}', [*steps(1, 10, t=0), line(10, "error", message="RayActorError: gone")])
    (interruption,) = found.interruptions
    assert (
        interruption.resumed_t is None and interruption.seconds is None and interruption.cause == "RayActorError: gone"
    )


def test_a_run_that_is_done_waits_for_nothing() -> None:
    ended = [*steps(1, 10, t=0), line(10, "error", message="late"), line(11, "done", step=10)]
    found = read("a", "", ended)
    assert found.interruptions == () and found.ended and found.state == "done"
    assert found.ends(now=100) is None


def test_a_first_restore_is_no_interruption() -> None:
    found = read("a", "", [line(0, "restore", step=40, path="/fsx/a"), *steps(41, 45, t=5)])
    assert found.interruptions == ()


def test_the_most_telling_sign_names_the_cause() -> None:
    signs = [
        line(10.1, "error", message="RayActorError"),
        line(10.2, "drain", node="abc"),
        line(10.3, "fault", fault="die", rank=1),
    ]
    found = read("a", "", [*steps(1, 10, t=1), *signs, line(12, "restore", step=10, path="/x"), *steps(11, 12, t=15)])
    assert found.interruptions[0].cause == "injected fault die (rank 1)"


def test_rates_leave_interruptions_out() -> None:
    found = read(
        "a", "", [*steps(1, 11, t=0, every=2), line(21, "restore", step=11, path="x"), *steps(12, 21, t=200, every=2)]
    )
    assert found.recent_rate == pytest.approx(0.5)
    assert found.usual_rate == pytest.approx(0.5)


def test_goodput_counts_pauses_repeated_steps_and_stalls() -> None:
    save = line(5.5, "save", step=5, stall_s=1.0)
    found = read("a", "", [*steps(1, 11, t=0), save, *steps(7, 21, t=20)])
    # 0 … 34: 10 s without a step, 4 s for steps 8 … 11 done again, 1 s for the save; step 7 came with the pause
    assert found.goodput == pytest.approx(1 - 15 / 34, abs=1e-4)


def test_the_end_at_the_present_rate() -> None:
    progress = json.dumps({"state": "running", "last_step": 20, "total_steps": 100})
    assert read("a", progress, steps(1, 20, t=0)).ends(now=1000) == pytest.approx(1080)


def test_a_run_without_a_total_has_no_end() -> None:
    """`epochs` over a loader without a length: how many steps it takes, nobody knows."""
    record = read("a", json.dumps({"state": "running", "last_step": 20}), steps(1, 20, t=0))
    assert (record.step, record.total_steps, record.ends(now=1000)) == (20, None, None)


def test_a_loss_that_is_no_number_is_a_finding() -> None:
    nan = '{"t": 3, "kind": "step", "step": 3, "loss": NaN}'
    found = read("a", "", [*steps(1, 2, t=1), nan, *steps(4, 5, t=4)])
    assert found.not_finite == 3
    assert all(step.value is None or math.isfinite(step.value) for step in found.steps)
    assert len(found.steps) == 5


def test_another_metric_where_there_is_no_loss() -> None:
    found = read(
        "a", "", [line(1, "step", step=1, world=2, accuracy=0.5), line(2, "step", step=2, world=2, accuracy=0.6)]
    )
    assert found.metric == "accuracy" and found.value == 0.6


@pytest.mark.parametrize(
    "broken",
    [
        "", "{", "[]", "null", "7", '"x"', '{"t": "yesterday", "kind": "step", "step": 1}', '{"t": 1, "kind": 3}',
        '{"t": 1, "kind": "step", "step": "one"}', '{"t": 1, "kind": "step"}',
        '{"t": 1e999, "kind": "step", "step": 1}',
        '{"t": true, "kind": "step", "step": 1}', '{"t": 1, "kind": "save", "step": null}', '{"kind": "step"}', "\x00",
    ],
)  # fmt: skip
def test_a_line_of_another_shape_counts_as_none(broken: str) -> None:
    found = read("a", broken, [*steps(1, 5, t=0), broken])
    assert [step.step for step in found.steps] == [1, 2, 3, 4, 5]
    assert found.interruptions == () and found.saves == ()


def test_progress_of_another_shape_is_no_progress() -> None:
    found = read("a", '{"metrics": [], "last_step": "x", "last_step_t": {}, "total_steps": NaN, "world_size": 1.5}')
    assert (found.step, found.value, found.step_t, found.total_steps, found.world) == (None, None, None, None, None)


def test_progress_is_newer_than_events() -> None:
    progress, lines = journal()
    found = read("llama", progress, lines)
    assert (found.step, found.total_steps, found.world, found.checkpoint_step) == (900, 5000, 32, 900)
    assert found.step_t == pytest.approx(NOW.timestamp(), abs=1)
    assert [interruption.again for interruption in found.interruptions] == [5, 45]
    assert [interruption.seconds for interruption in found.interruptions] == pytest.approx([45, 260])


def test_a_run_of_a_snapshot_has_the_same_record() -> None:
    progress, lines = journal()
    history = History()
    for text in lines:
        history.add(text.encode())
    run = run_of(json.loads(progress), History.kept(json.dumps(history.summary())), name="x", at=NOW)
    assert run.record == read("llama", progress, lines, now=NOW.timestamp())


TOLD: dict[str, tuple[dict[str, Any], str, Any]] = {
    "the step": ({"last_step": 30}, "step", 30),
    "no step, as it says": ({"last_step": None}, "step", None),
    "the newest step": ({}, "step", 20),
    "its time": ({"last_step_t": 50.5}, "step_t", 50.5),
    "the newest step's time": ({}, "step_t", 20.0),
    "the checkpoint": ({"last_checkpoint_step": 12}, "checkpoint_step", 12),
    "no checkpoint, as it says": ({"last_checkpoint_step": None}, "checkpoint_step", None),
    "the newest checkpoint": ({}, "checkpoint_step", 15),
    "the checkpoint's time": ({"last_checkpoint_t": 12.25}, "checkpoint_t", 12.25),
    "the newest checkpoint's time": ({}, "checkpoint_t", 15.5),
    "the checkpoint's folder": ({"last_checkpoint_path": "/fsx/a/step-1"}, "checkpoint_path", "/fsx/a/step-1"),
    "no folder": ({}, "checkpoint_path", ""),
    "the value": ({"metrics": {"loss": 0.25, "other": 9}}, "value", 0.25),
    "no value, as it says": ({"metrics": {}}, "value", None),
    "the newest value": ({}, "value", 0.05),
    "the lowest value": ({"metrics": {"loss": 9}}, "lowest", 0.05),
    "ranks": ({"world_size": 8}, "world", 8),
    "ranks of the journal": ({}, "world", 4),
    "all steps": ({"total_steps": 100}, "total_steps", 100),
    "no end": ({}, "total_steps", None),
    "the pace": ({"step_s": 3.5}, "step_seconds", 3.5),
    "the pace of the journal": ({}, "step_seconds", 1.0),
    "the second longest pause": ({"pauses_s": [90, 8, 7]}, "pause_seconds", 8.0),
    "one pause is no habit": ({"pauses_s": [90]}, "pause_seconds", None),
    "the error's first line": ({"last_error": "CUDA error\nat line 3"}, "error", "CUDA error"),
    "no error": ({}, "error", ""),
    "its own name": ({"name": "llama"}, "name", "llama"),
    "its folder's name": ({}, "name", "a"),
    "the state": ({"state": "saving"}, "state", "saving"),
    "no state": ({}, "state", ""),
    "all saves": ({}, "saved", 2),
    "faults: an error and a lost rank": ({}, "faults", 2),
    "restores": ({}, "recoveries", 1),
    "its first line": ({}, "begin", 0.0),
}
"""What `progress.json` says, the figure of the record, and its value; of the rest, the journal says it."""


@pytest.mark.parametrize("case", TOLD)
def test_progress_says_it_and_where_it_does_not_the_journal_does(case: str) -> None:
    progress, figure, value = TOLD[case]
    lines = [
        line(0, "start", world=4), *steps(1, 10, t=1), line(10.2, "error", message="x"), line(10.3, "lost", rank=1),
        line(10.5, "restore", step=10, path="/fsx"), line(10.9, "save", step=10, stall_s=0.5, seconds=2),
        *steps(11, 15, t=11), line(15.5, "save", step=15, reason="drain"), *steps(16, 20, t=16),
    ]  # fmt: skip
    lines[1] = line(1, "step", step=1, loss=1.0, world=4)
    assert getattr(read("a", json.dumps(progress), lines), figure) == value


def test_a_save_says_why_and_how_long() -> None:
    lines = [*steps(1, 5, t=0), line(5, "save", step=5, stall_s=0.5, seconds=2, reason="drain"), *steps(6, 9, t=5.5)]
    (save,) = read("a", "", lines).saves
    assert (save.t, save.step, save.reason, save.seconds, save.stall_s) == (5, 5, "drain", 2, 0.5)


LOST: dict[str, tuple[dict[str, tuple[int, float]], dict[str, float], dict[str, float], str]] = {
    "nothing": ({}, {"training": 10.0}, {}, ""),
    "the largest first": (
        {"error": (2, 30.0), "drain": (1, 120.0)}, {"training": 10.0, "recovering": 150.0, "saving": 4.0},
        {"drain notices": 120.0, "errors": 30.0, "saves": 4.0}, "drain notices 2 min in 1, errors 30 s in 2, saves 4 s",
    ),
    "what has no name is unknown": (
        {"new": (1, 5.0), "unknown": (1, 6.0)}, {"recovering": 11.0}, {"unknown causes": 11.0},
        "unknown causes 11 s in 1",
    ),
    "the rest is before the first step": (
        {}, {"training": 10.0, "waiting": 7.0, "saving": 0.5}, {"before the first step": 7.0, "saves": 0.5},
        "before the first step 7 s",
    ),
    "less than a thousandth of a second is nothing": ({}, {"training": 1.0, "waiting": 0.0009}, {}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", LOST)
def test_lost_time_is_said_by_its_cause(case: str) -> None:
    by_cause, seconds, lost, words = LOST[case]
    record = Record(name="a", by_cause=by_cause, seconds=seconds)
    assert list(record.lost) == list(lost)
    assert record.lost == pytest.approx(lost)
    assert record.lost_in_words == words


def test_goodput_is_not_known_before_there_is_a_step_or_without_the_first_lines() -> None:
    record = Record(name="a", seconds={"training": 3.0, "saving": 1.0}, step_t=5.0)
    assert record.goodput == 0.75
    changes: list[dict[str, Any]] = [{"step_t": None}, {"partial": True}, {"seconds": {}}]
    for unknown in changes:
        assert Record(**{**record.__dict__, **unknown}).goodput is None
    third = Record(name="a", seconds={"training": 1.0, "saving": 2.0}, step_t=5.0)
    assert third.goodput == 0.3333, "every place shows the same figure"


def test_the_end_is_known_while_steps_are_done() -> None:
    record = Record(name="a", recent_rate=2.0, total_steps=100, step=40)
    assert record.ends(now=1000) == 1030
    assert Record(**{**record.__dict__, "step": 120}).ends(now=1000) == 1000
    for unknown in ({"recent_rate": 0.0}, {"recent_rate": None}, {"total_steps": None}, {"step": None}):
        assert Record(**{**record.__dict__, **unknown}).ends(now=1000) is None
    for state in ("done", "failed"):
        assert Record(**{**record.__dict__, "state": state}).ends(now=1000) is None


def test_neighbours_are_those_of_which_the_second_continues_the_first() -> None:
    def done(t: float, step: int, *, resumed: bool = False) -> Step:
        return Step(t=t, step=step, value=None, resumed=resumed)

    first, second, again, third, same = done(1, 1), done(2, 2), done(5, 2, resumed=True), done(6, 3), done(6, 4)
    record = Record(name="a", steps=(first, second, again, third, same))
    assert record.advances() == [(first, second), (again, third)]
    assert record.by_step() == [first, again, third, same], "a step that was done again counts as it went the last time"


def test_interruptions_keep_their_number_where_the_first_are_no_longer_kept() -> None:
    shown = read("a", "", [*steps(1, 10, t=0), *steps(6, 12, t=60)])
    assert (shown.interrupted, shown.first_number) == (1, 1)
    assert Record(name="a", interruptions=shown.interruptions, interrupted=30).first_number == 30
    assert Record(name="a").first_number == 1


RATES = {"an even number of steps": ((1.0, 1.0, 2.0, 2.0), 1 / 1.5), "an odd one": ((1.0, 2.0, 2.0), 0.5),
         "one": ((4.0,), 0.25)}  # fmt: skip


@pytest.mark.parametrize("case", RATES)
def test_the_usual_rate_is_the_median(case: str) -> None:
    gaps, rate = RATES[case]
    t, lines = 0.0, [line(0, "step", step=0, loss=1)]
    for number, gap in enumerate(gaps, start=1):
        t += gap
        lines.append(line(t, "step", step=number, loss=1))
    assert read("a", "", lines).usual_rate == pytest.approx(rate, rel=0.05)


def test_the_present_rate_is_that_of_the_last_minute() -> None:
    slow, fast = steps(1, 50, t=0, every=10), steps(51, 150, t=491, every=1)
    found = read("a", "", [*slow, *fast])
    assert found.recent_rate == pytest.approx(1.0, rel=0.05)
    assert read("a", "", []).recent_rate is None


RECENT = {
    "those that began within the minute": (((10, 1), (20, 1), (40, 1)), 2 / 60),
    "one began before it": (((10, 1), (20.5, 1), (40, 1)), 1 / 40),
    "a line for ten steps": (((10, 10), (20, 10), (40, 10)), 20 / 60),
    "steps of more than a minute": (((90, 1), (120, 1)), 1 / 120),
    "two in one second": (((0.5, 1), (0.25, 1)), 2 / 0.75),
}
"""Seconds and steps since the line before."""


@pytest.mark.parametrize("case", RECENT)
def test_the_present_rate(case: str) -> None:
    advances, rate = RECENT[case]
    t, step, lines = 0.0, 0, [line(0, "step", step=0, loss=1)]
    for seconds, done in advances:
        t, step = t + seconds, step + done
        lines.append(line(t, "step", step=step, loss=1))
    assert read("a", "", lines).recent_rate == pytest.approx(rate)
