"""What is read of a run's own files: steps, interruptions, rates; whatever is in them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from hyperpod_ray.ops.in_ray.history import History
from hyperpod_ray.ops.journal.record import read
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
