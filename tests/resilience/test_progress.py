"""Which rank hangs, and how long each may stand where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_training.spares.members import Limits, Member
from hyperpod_ray_training.spares.progress import Habits, Progress
from hyperpod_ray_training.spares.stance import BACKWARD, COLLECTIVE, COPY, LOCK

LIMITS = Limits(hang_s=2.0, hang_steps=6.0, floor_s=60.0, patience_s=1800.0, together_s=20.0)


def member(rank: int, **now: Any) -> Member:
    fields: dict[str, Any] = {"seq": 10, "step": 5, "place": COLLECTIVE, **now}
    return Member(uid=f"m{rank}", order=rank, node=f"n{rank}", port=1, pid=1, beat=0.0, **fields)


def regular(step_s: float = 1.0) -> Progress:
    """A generation whose steps are known, past its first ones."""
    progress = Progress(steps=20, first_step=0)
    progress.habits.durations.extend([step_s] * 10)
    return progress


@pytest.mark.parametrize(
    ("steps", "known", "lock_s", "limit"),
    [
        (20, [1.0] * 10, 0.0, 6.0),  # six median steps
        (20, [0.1] * 10, 0.0, 2.0),  # not less than hang_s
        (20, [1.0] * 10, 5.0, 10.0),  # a lock that opened may take as long again
        (20, [1.0] * 9, 0.0, 60.0),  # not yet regular
        (3, [1.0] * 10, 0.0, 6.0),
        (2, [1.0] * 10, 0.0, 60.0),  # the first steps of a generation
        (0, [], 0.0, 60.0),
        (0, [20.0] * 10, 0.0, 120.0),  # steps that are longer than the floor
        (20, [*[1.0] * 9, 100.0], 0.0, 6.0),  # one long step is no habit
    ],
)
def test_how_long_a_rank_may_stand_in_a_lock(steps: int, known: list[float], lock_s: float, limit: float) -> None:
    progress = Progress(steps=steps)
    progress.habits.durations.extend(known)
    progress.habits.longest_lock_s = lock_s
    assert progress.hang_limit_s(LIMITS) == pytest.approx(limit)


@pytest.mark.parametrize(
    ("place", "at", "limit"),
    [
        (LOCK, "", 6.0),
        (LOCK, "train.py:9", 6.0),
        ("", "", 60.0),  # nobody can tell what a device waits for
        ("device", "train.py:9", 60.0),
        *((work, "", 1800.0) for work in ("data", "storage", "compile", "debugger", "sleep", "input", "moves")),
    ],
)
def test_how_long_a_rank_may_stand_by_where_it_stands(place: str, at: str, limit: float) -> None:
    assert regular().limit_s(0, member(0, place=place, at=at), LIMITS) == pytest.approx(limit)


def test_a_line_that_came_back_by_itself_may_take_as_long_again() -> None:
    progress = regular()
    progress.habits.came_back_s["train.py:9"] = 50.0
    limits = [progress.limit_s(0, member(0, place=LOCK, at=line), LIMITS) for line in ("train.py:9", "train.py:8", "")]
    assert limits == pytest.approx([100.0, 6.0, 6.0])


def test_a_line_where_a_rank_was_fenced_may_be_the_scripts() -> None:
    """ADR 22: once is a doubt, twice in a step that is not done is the script."""
    progress, line = regular(), "train.py:9"
    here, there = member(0, place=LOCK, at=line), member(1, place=LOCK, at="train.py:8")
    progress.habits.fence([(0, line), (3, line)], step=7)
    assert progress.habits.fenced[line] == 1, "several at one moment are once"
    assert progress.limit_s(0, here, LIMITS) == pytest.approx(60.0)
    assert progress.limit_s(1, there, LIMITS) == pytest.approx(6.0)
    progress.habits.fence([(0, line)], step=7)
    assert progress.limit_s(0, here, LIMITS) == pytest.approx(1800.0)
    progress.habits.step_done(7)
    assert progress.limit_s(0, here, LIMITS) == pytest.approx(1800.0), "the step of the fence is not done yet"
    progress.habits.step_done(8)
    assert progress.limit_s(0, here, LIMITS) == pytest.approx(6.0), "the line was passed: it was the machine"


def test_a_rank_that_is_fenced_at_one_line_three_times_has_a_clock_of_its_own() -> None:
    habits = Habits()
    for step in (3, 8):
        habits.fence([(0, "train.py:9")], step=step)
        habits.step_done(step + 1)
    assert not habits.may_be_the_script(0, "train.py:9")
    habits.fence([(0, "train.py:9")], step=20)
    habits.step_done(21)
    assert habits.may_be_the_script(0, "train.py:9")
    assert not habits.may_be_the_script(1, "train.py:9"), "of another rank"
    assert not habits.may_be_the_script(0, "train.py:8"), "at another line"


def stands(progress: Progress, *ranks: Member, until: float) -> list[str]:
    """Who hangs after that long, judged from the moment at which nothing moved any more."""
    by_rank = list(enumerate(ranks))
    assert progress.behind(0.0, by_rank, LIMITS) == [], "the collectives of this moment are new"
    return [holder.uid for holder, _ in progress.behind(until, by_rank, LIMITS)]


@pytest.mark.parametrize(
    ("slow", "others", "until", "hung"),
    [
        ({"place": LOCK, "still": 7.0}, {}, 7.0, ["m0"]),
        ({"place": LOCK, "still": 6.0}, {}, 7.0, []),  # it came to stand later
        ({"place": LOCK, "still": 90.0}, {}, 5.0, []),  # the others have not waited for so long
        ({"place": LOCK, "still": 7.0, "busy": True}, {}, 7.0, []),  # it announced something long
        ({"place": LOCK, "still": 7.0}, {"place": "moves"}, 7.0, []),  # nobody waits for it
        ({"place": COLLECTIVE, "still": 7.0}, {}, 7.0, []),
        ({"place": COPY, "still": 90.0}, {}, 90.0, []),
        ({"place": BACKWARD, "still": 61.0, "seq": 10}, {"seq": 10}, 61.0, []),  # it may be one of those that wait
        ({"place": BACKWARD, "still": 61.0, "seq": 9}, {"seq": 10}, 61.0, ["m0"]),
        ({"place": "", "still": 0.0, "seq": 9}, {"seq": 10}, 61.0, ["m0"]),  # without a stance the others judge it
        ({"place": "moves", "still": 0.0}, {}, 1801.0, ["m0"]),
        ({"place": "moves", "still": 0.0}, {}, 1799.0, []),
    ],
)
def test_who_hangs(slow: dict[str, Any], others: dict[str, Any], until: float, hung: list[str]) -> None:
    ranks = [member(0, **slow), *(member(rank, still=until, **others) for rank in (1, 2))]
    assert stands(regular(), *ranks, until=until) == hung


def test_while_any_rank_begins_a_collective_nobody_hangs() -> None:
    progress, slow = regular(), member(0, place=LOCK, still=90.0)
    other, third = member(1, still=90.0), member(2, still=90.0)
    ranks = [(0, slow), (1, other), (2, third)]
    assert progress.behind(0.0, ranks, LIMITS) == []
    other.seq += 1
    assert progress.behind(50.0, ranks, LIMITS) == []
    assert progress.behind(55.0, ranks, LIMITS) == [], "the clock begins again"
    assert [holder.uid for holder, _ in progress.behind(57.0, ranks, LIMITS)] == ["m0"]
    assert progress.behind(58.0, ranks, LIMITS) == [], "a fence is given time too"


def test_a_lock_that_opens_again_is_remembered() -> None:
    progress, slow = regular(), member(0, place=LOCK, still=5.0, at="train.py:9")
    ranks = [(0, slow), (1, member(1)), (2, member(2))]
    progress.behind(0.0, ranks, LIMITS)
    progress.behind(5.0, ranks, LIMITS)
    slow.seq += 1
    progress.behind(6.0, ranks, LIMITS)
    assert progress.habits.longest_lock_s == 5.0
    assert progress.habits.came_back_s == {"train.py:9": 5.0}
    assert progress.hang_limit_s(LIMITS) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("changed", "until", "says"),
    [
        ({}, 21.0, True),
        ({}, 20.0, False),
        ({"place": LOCK}, 21.0, False),
        ({"busy": True}, 21.0, False),
        ({"still": 19.0}, 21.0, False),  # one of them has moved since
        ({"place": BACKWARD}, 21.0, True),
        ({"place": COPY}, 21.0, False),
    ],
)
def test_all_stand_in_collectives(changed: dict[str, Any], until: float, says: bool) -> None:
    progress = regular()
    ranks = [member(0, **{"still": 21.0, **changed}), member(1, still=30.0)]
    assert progress.together(until, ranks, LIMITS) is None, "no collective has begun yet"
    progress.behind(0.0, list(enumerate(ranks)), LIMITS)
    assert (progress.together(until, ranks, LIMITS) is not None) == says


def test_steps_count_from_where_a_generation_begins_and_share_the_time_of_several() -> None:
    progress, holder = Progress(), member(0, step=100)
    for now, step in ((0.0, 100), (4.0, 101), (6.0, 102), (12.0, 105), (13.0, 105)):
        holder.step = step
        progress.behind(now, [(0, holder)], LIMITS)
    assert progress.steps == 5
    assert list(progress.habits.durations) == pytest.approx([2.0, 2.0]), "the first has no beginning"
