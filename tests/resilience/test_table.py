"""Who holds which rank: every decision of the coordinator, on made-up time and without a process."""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training.settings import Settings
from hyperpod_ray_training.spares.members import Limits, Member, unpacked
from hyperpod_ray_training.spares.progress import Habits, Progress
from hyperpod_ray_training.spares.table import Message, Table
from tests.resilience.table_helpers import World

PROJECT = Path(__file__).resolve().parents[2]


def test_the_first_generation_has_neighbours_in_rank_on_one_node() -> None:
    world = World(active=4, spares=2, per_node=2)
    assert world.table.running
    nodes = [world.table.members[world.holder(rank)].node for rank in range(4)]
    assert nodes == ["node-0", "node-0", "node-1", "node-1"]


def test_a_closed_connection_is_a_new_generation_at_once() -> None:
    world = World()
    survivor, spare = world.holder(0), world.spare
    world.run(2)
    world.kill(world.holder(1))
    assert world.table.running
    assert (world.holder(0), world.holder(1), world.table.gen) == (survivor, spare, 1)
    assert sum(message["type"] == "assign" and message["gen"] == 1 for _, message in world.sent) == 2


def test_no_spare_waits_for_one_and_keeps_the_survivors() -> None:
    world = World(spares=0)
    survivor = world.holder(0)
    world.run(2)
    world.kill(world.holder(1))
    assert not world.table.running
    world.run(20)
    assert world.alive.keys() == {survivor}
    newcomer = world.join(7, node="node-9")
    assert world.table.running
    assert world.holder(1) == newcomer


def test_a_warm_spare_goes_first_and_a_cold_one_is_better_than_none() -> None:
    world = World(spares=2, warm=False)
    first, second = [uid for uid in world.alive if uid not in world.table.ranks.values()]
    world.take(world.table.warmed(world.t, second))
    world.kill(world.holder(1))
    assert world.holder(1) == second
    world.kill(world.holder(0))
    assert world.holder(0) == first


def test_collectives_of_an_earlier_generation_blame_nobody() -> None:
    """A survivor has begun hundreds, and the newcomer none: nobody is behind before the new generation began one."""
    world = World()
    world.run(20)
    world.kill(world.holder(1))
    assert {world.table.members[uid].seq for uid in world.table.ranks.values()} == {0}


def test_silence_of_a_rank_is_a_loss_and_it_is_fenced() -> None:
    world = World()
    world.run(2)
    frozen = world.holder(1)
    world.run(1.4, silent=(frozen,))
    assert world.holder(1) == frozen
    world.run(0.4, silent=(frozen,))
    assert world.holder(1) != frozen
    assert (frozen, {"type": "fence"}) in world.sent


def beside(world: World, uid: str, seconds: float, state: str, *, computes: bool) -> None:
    """A member says nothing; the process beside it looks at it."""
    ticks = world.table.members[uid].ticks if uid in world.table.members else 0
    for _ in range(round(seconds * 10)):
        ticks += 10 if computes else 0
        world.take(world.table.pulse(world.t, uid, state=state, ticks=ticks))
        world.run(0.1, silent=(uid,))


@pytest.mark.parametrize(
    ("state", "computes", "lives_s", "dies_s"),
    [
        ("R", True, 170.0, 190.0),  # one long call holds Python's lock: a sort, a pickle
        ("S", False, 55.0, 62.0),  # it waits for something, and holds the lock
        ("D", False, 55.0, 62.0),
        ("t", False, 170.0, 190.0),  # a debugger has stopped it
        ("T", False, 0.7, 1.0),  # somebody has stopped it
        ("Z", False, 0.7, 1.0),
    ],
)
def test_a_silent_process_that_lives_is_given_longer(state: str, computes: bool, lives_s: float, dies_s: float) -> None:
    world = World(patience_s=180.0)
    world.run(2)
    mute = world.holder(1)
    beside(world, mute, lives_s, state, computes=computes)
    assert world.holder(1) == mute
    beside(world, mute, dies_s - lives_s, state, computes=computes)
    assert world.holder(1) != mute
    assert (mute, {"type": "fence"}) in world.sent


def test_a_stopped_process_is_lost_as_soon_on_a_machine_short_of_time() -> None:
    """Beats that came late say nothing of a process that the kernel calls stopped; nor does a save, or an import."""
    world = World()
    world.run(2)
    stopped = world.holder(1)
    world.run(1.4, silent=(stopped,))
    world.run(1)
    world.table.members[stopped].saving = True
    assert world.table.silence_limit_s(world.t) > 4
    beside(world, stopped, 0.7, "T", computes=False)
    assert world.holder(1) == stopped
    beside(world, stopped, 0.3, "T", computes=False)
    assert world.holder(1) != stopped
    (lost,) = (fields["message"] for kind, fields in world.notes if kind == "lost")
    assert lost == "no beat for 0.8 s: its process is stopped (T in /proc)"


def test_a_process_that_was_stopped_for_a_moment_stays() -> None:
    world = World()
    world.run(2)
    stopped = world.holder(1)
    for _ in range(5):
        beside(world, stopped, 0.6, "T", computes=False)
        world.take(world.table.pulse(world.t, stopped, state="S", ticks=0))
        beside(world, stopped, 0.6, "T", computes=False)
        world.run(0.5)
    assert world.kinds().count("lost") == 0


@pytest.mark.parametrize(("state", "computes", "silent_s"), [("S", False, 5.0), ("R", True, 100.0)])
def test_a_coordinator_that_stood_still_blames_nobody_for_it(state: str, computes: bool, silent_s: float) -> None:
    """It could hear neither a member nor the process beside it, which said until then that it lives."""
    world = World(patience_s=180.0)
    world.run(2)
    mute = world.holder(1)
    beside(world, mute, silent_s, state, computes=computes)
    world.t += 20.0
    world.take(world.table.tick(world.t))
    assert world.holder(1) == mute
    assert not [message for _, message in world.sent if message["type"] == "fence"]


def test_who_stood_still_before_the_others_waited_has_not_kept_them_waiting() -> None:
    """A rank writes a file for minutes while the others still compute: it is late once they wait, and not before."""
    common: dict[str, Any] = {"order": 0, "port": 1, "pid": 1, "beat": 0.0}
    slow = Member(uid="slow", node="a", seq=5, place="lock", still=300.0, at="save.py:3", **common)
    other = Member(uid="other", node="b", seq=6, place="collective", **common)
    progress, limits = Progress(), Limits()
    by_rank = [(0, slow), (1, other)]
    assert progress.behind(300.0, by_rank, limits) == []
    slow.still = 300.1
    assert progress.behind(300.1, by_rank, limits) == [], "the other has just come to wait"
    slow.still = 300.0 + limits.floor_s + 1
    (hung,) = progress.behind(slow.still, by_rank, limits)
    assert hung[0] is slow


def test_a_node_that_stands_still_silences_both() -> None:
    world = World()
    world.run(2)
    mute = world.holder(1)
    beside(world, mute, 10, "R", computes=True)
    assert world.holder(1) == mute
    world.run(1.8, silent=(mute,))
    assert world.holder(1) != mute


def test_a_machine_on_which_pulses_come_late_is_given_more_time_too() -> None:
    world = World()
    world.run(2)
    slow = world.holder(1)
    for _ in range(3):
        world.take(world.table.pulse(world.t, slow, state="S", ticks=0))
        world.run(1.0)
    assert world.table.silence_limit_s(world.t) == pytest.approx(3.0, abs=0.3)


def test_a_rank_that_held_pythons_lock_says_nothing_of_its_machine() -> None:
    """A frozen rank is noticed as soon after it as before."""
    world = World(patience_s=180.0)
    world.run(2)
    held = world.holder(1)
    beside(world, held, 12.0, "R", computes=True)
    world.run(1)
    assert world.table.silence_limit_s(world.t) <= 3 * 1.5
    beside(world, held, 5.0, "T", computes=False)
    assert world.holder(1) != held


def test_a_pulse_of_nobody_is_no_news() -> None:
    world = World()
    assert world.table.pulse(world.t, "stranger", state="R", ticks=5) == []


def test_a_machine_short_of_time_is_given_more_of_it() -> None:
    """Beats that come a second late are heard late from everybody; a silence of two is then no sign of death."""
    world = World()
    world.run(2)
    slow = world.holder(1)
    world.run(1.2, silent=(slow,))
    world.run(1)
    assert world.table.silence_limit_s(world.t) == pytest.approx(3.6, abs=0.4)
    world.run(2.5, silent=(slow,))
    assert world.holder(1) == slow
    world.run(1)
    world.run(31)
    assert world.table.silence_limit_s(world.t) == 1.5
    world.run(2, silent=(slow,))
    assert world.holder(1) != slow


def test_a_rank_that_saves_may_be_silent_longer() -> None:
    world = World()
    world.run(2)
    saving = world.holder(1)
    world.take(world.table.beat(world.t, saving, saving=True))
    world.run(5, silent=(saving,))
    assert world.holder(1) == saving
    world.run(2, silent=(saving,))
    assert world.holder(1) != saving


def test_a_spare_that_imports_may_be_silent_longer() -> None:
    world = World()
    spare = world.spare
    world.run(5, silent=(spare,))
    assert spare in world.alive
    world.run(12, silent=(spare,))
    assert spare not in world.alive


def trained(**options: Any) -> World:
    """A world whose steps are regular, and a rank 0 that waits in a collective that rank 1 has not begun."""
    world = World(**options)
    world.run(4)
    world.alive[world.holder(0)]["seq"] += 1
    return world


def test_a_rank_that_stands_in_a_lock_while_others_wait_hangs() -> None:
    world = trained()
    hung = world.holder(1)
    world.run(2.4, stuck=(hung,))
    assert world.holder(1) == hung
    world.run(1.0, stuck=(hung,))
    assert world.holder(1) == hung, "it has moved in between"
    world.run(2.7, stuck=(hung,))
    assert world.holder(1) != hung
    (lost,) = (fields["message"] for kind, fields in world.notes if kind == "lost")
    assert lost.startswith("hangs for 2.5 s at train.py:7 in main (lock) while others wait for it")
    assert 'with training.phase("evaluate")' in lost, "the way out"


@pytest.mark.parametrize("place", ["moves", "sleep", "data", "storage", "compile", "debugger", "input"])
def test_a_rank_at_work_does_not_hang_however_long_others_wait(place: str) -> None:
    assert Limits.of(Settings()).patience_s == 1800
    world = trained(patience_s=180.0)
    works = world.holder(1)
    world.run(175, stuck=(works,), place=place)
    assert world.kinds().count("lost") == 0
    world.run(6, stuck=(works,), place=place)
    assert world.holder(1) != works


@pytest.mark.parametrize("place", ["thread", "package", "process", "unknown"])
def test_where_nobody_can_tell_the_limit_is_a_minute(place: str) -> None:
    world = trained()
    unsure = world.holder(1)
    world.run(55, stuck=(unsure,), place=place)
    assert world.holder(1) == unsure
    world.run(62, stuck=(unsure,), place=place)
    assert world.holder(1) != unsure


def test_until_steps_are_regular_the_limit_is_a_minute() -> None:
    world = World()
    world.run(1.5)  # seven steps
    world.alive[world.holder(0)]["seq"] += 1
    new = world.holder(1)
    world.run(55, stuck=(new,))
    assert world.holder(1) == new
    world.run(62, stuck=(new,))
    assert world.holder(1) != new


def test_the_first_steps_of_a_generation_may_take_a_minute_too() -> None:
    world = trained()
    world.kill(world.holder(1))
    world.run(0.5)
    world.alive[world.holder(0)]["seq"] += 1
    new = world.holder(1)
    world.run(55, stuck=(new,))
    assert world.holder(1) == new


def test_who_stands_in_the_collective_with_fewer_begun_is_not_blamed() -> None:
    """A stage of a pipeline begins fewer collectives than the next one, which hangs."""
    world = trained()
    world.alive[world.holder(1)]["seq"] += 50
    hung, waits = world.holder(1), world.holder(0)
    world.run(3, stuck=(hung,))
    assert world.holder(0) == waits
    assert world.holder(1) != hung


def test_all_in_locks_and_nobody_in_a_collective_blame_nobody() -> None:
    world = trained()
    world.run(100, stuck=tuple(world.alive))
    assert world.kinds().count("lost") == 0


def test_a_lock_that_opened_again_is_given_twice_as_long() -> None:
    world = trained()
    slow = world.holder(1)
    world.run(2.4, stuck=(slow,))
    world.run(1)
    assert world.table._progress.hang_limit_s(world.table.limits) == pytest.approx(4.7, abs=0.3)
    world.alive[world.holder(0)]["seq"] += 1
    world.run(4, stuck=(slow,))
    assert world.holder(1) == slow


def stand_again(world: World, rank: int = 1, *, steps_s: float = 0.0) -> str:
    """Let the run go on for so long; then the others wait again for a rank, whose holder it returns."""
    world.run(steps_s)
    for other in {*world.table.ranks} - {rank}:
        world.alive[world.holder(other)]["seq"] = world.alive[world.holder(rank)]["seq"] + 1
    return world.holder(rank)


def recovered(world: World) -> None:
    """The generation after a loss has begun, and has done no step yet."""
    while not world.table.running:
        world.run(0.1, step_s=1000.0)


def test_where_two_were_fenced_in_one_step_it_is_the_script_and_nobody_else_is() -> None:
    world = trained(spares=4)
    for limit in (2.7, 61.0):
        standing = world.holder(1)
        world.run(limit, stuck=(standing,))
        assert world.holder(1) != standing, limit
        assert world.table._habits.fenced_in == {"train.py:7 in main": world.alive[world.holder(0)]["step"]}
        recovered(world)
        stand_again(world)
    third = world.holder(1)
    world.run(200, stuck=(third,))
    assert world.holder(1) == third
    world.run(61, stuck=(third,), at="train.py:90 in other")
    assert world.holder(1) != third, "another line has a limit of its own"


def test_a_hang_that_was_fenced_does_not_teach_that_waiting_there_is_normal() -> None:
    """A line that waits for the device is where every hung GPU stands: one after another, in a run of weeks."""
    world = trained(spares=8)
    for rank in (1, 1, 0, 1, 0, 0):
        standing = stand_again(world, rank, steps_s=4.0)
        world.run(2.4, stuck=(standing,))
        assert world.holder(rank) == standing
        world.run(2.7, stuck=(standing,))
        assert world.holder(rank) != standing, "its step was done again, and did not stand there"


def test_a_rank_that_is_fenced_often_at_one_line_is_given_a_minute_there() -> None:
    """A script that evaluates every ten minutes, say: the step that is done again has nothing to evaluate."""
    world = trained(spares=8)
    for _ in range(3):
        standing = stand_again(world, steps_s=4.0)
        world.run(2.7, stuck=(standing,))
        assert world.holder(1) != standing
    standing = stand_again(world, steps_s=4.0)
    world.run(50, stuck=(standing,))
    assert world.holder(1) == standing
    for _ in range(2):  # what came back by itself may take twice as long
        standing = stand_again(world, steps_s=4.0)
        world.run(95, stuck=(standing,))
        assert world.holder(1) == standing


def test_a_step_that_stands_again_is_given_time_and_its_line_is_known_from_then_on() -> None:
    """A script that evaluates in a thread of C++ at each hundredth step: the fence was wrong, and comes once."""
    world = trained(spares=8)
    standing = world.holder(1)
    world.run(2.7, stuck=(standing,))
    recovered(world)
    standing = stand_again(world)
    world.run(30, stuck=(standing,))
    assert world.holder(1) == standing, "the step that is done again"
    for _ in range(3):
        assert stand_again(world, steps_s=4.0) == standing
        world.run(55, stuck=(standing,))
        assert world.holder(1) == standing


def test_two_ranks_that_hang_at_one_moment_are_one_sign() -> None:
    """A node hangs with its ranks; the one that takes their place may hang too."""
    world = trained(active=3, spares=6)
    hung = (world.holder(1), world.holder(2))
    world.alive[world.holder(0)]["seq"] += 1
    world.run(2.7, stuck=hung)
    assert not set(hung) & set(world.alive)
    recovered(world)
    standing = stand_again(world)
    world.run(61, stuck=(standing,))
    assert world.holder(1) != standing


def test_a_step_before_the_one_of_a_fence_shows_nothing_of_its_line() -> None:
    """A run that copies seldom goes back some steps: these end, and the line comes after them."""
    habits = Habits(fenced=Counter({"train.py:7": 2, "train.py:9": 1}), fenced_in={"train.py:7": 9, "train.py:9": 4})
    habits.step_done(9)
    assert habits.fenced == {"train.py:7": 2}
    habits.step_done(10)
    assert not habits.fenced
    assert habits.fenced_in == {}


@pytest.mark.parametrize("place", ["lock", "thread"])
def test_a_script_that_stands_long_at_a_line_is_fenced_twice_and_never_again(place: str) -> None:
    world = trained(spares=4)
    for _ in range(2):
        standing = world.holder(1)
        world.run(62, stuck=(standing,), place=place)
        assert world.holder(1) != standing
        recovered(world)
        stand_again(world)
    standing = world.holder(1)
    for _ in range(3):  # each of its evaluations: it comes back by itself
        world.run(90, stuck=(standing,), place=place)
        assert stand_again(world, steps_s=4.0) == standing


def test_a_rank_that_says_nothing_of_itself_is_given_a_minute() -> None:
    world = trained()
    silent = world.holder(1)
    for _ in range(550):
        world.t += 0.1
        for uid, state in world.alive.items():
            world.take(world.table.beat(world.t, uid, step=state["step"], seq=state["seq"], place="", still=0.0))
        world.take(world.table.tick(world.t))
    assert world.holder(1) == silent
    for _ in range(100):
        world.t += 0.1
        for uid, state in list(world.alive.items()):
            world.take(world.table.beat(world.t, uid, step=state["step"], seq=state["seq"], place="", still=0.0))
        world.take(world.table.tick(world.t))
    assert world.holder(1) != silent


def test_long_steps_are_not_a_hang() -> None:
    world = World(hang_steps=6.0)
    world.run(30, step_s=2.0)
    assert world.table._progress.hang_limit_s(world.table.limits) == pytest.approx(12.0, rel=0.2)


def test_slow_storage_is_not_a_hang() -> None:
    world = World()
    world.run(4)
    world.alive[world.holder(0)]["seq"] += 1
    for _ in range(100):
        world.t += 0.1
        for uid, state in world.alive.items():
            busy = uid == world.holder(1)
            stance = {"place": "lock" if busy else "collective", "still": 99.0}
            world.take(world.table.beat(world.t, uid, step=state["step"], seq=state["seq"], busy=busy, **stance))
        world.take(world.table.tick(world.t))
    assert world.kinds().count("lost") == 0


def test_all_waiting_in_collectives_start_again_and_nobody_is_lost() -> None:
    world = trained()
    members = dict(world.table.ranks)
    world.alive[world.holder(1)]["seq"] = world.alive[world.holder(0)]["seq"]
    world.run(19, stuck=("nobody",))
    assert world.table.gen == 0
    world.run(21, stuck=("nobody",))
    assert (world.table.gen, world.table.ranks, world.kinds().count("lost")) == (1, members, 0)


def test_a_copy_that_all_wait_for_is_no_standstill() -> None:
    world = trained()
    for _ in range(1000):
        world.t += 0.1
        for uid in world.alive:
            place = "copy" if uid == world.holder(0) else "collective"
            world.take(world.table.beat(world.t, uid, seq=50, busy=False, place=place, still=99.0))
        world.take(world.table.tick(world.t))
    assert (world.table.gen, world.kinds().count("lost")) == (0, 0)


def test_a_rank_that_hangs_while_another_waits_for_its_copy_is_found() -> None:
    world = trained()
    hung = world.holder(1)
    for _ in range(30):
        world.t += 0.1
        for uid, state in list(world.alive.items()):
            place = "lock" if uid == hung else "copy"
            world.take(world.table.beat(world.t, uid, seq=state["seq"], busy=False, place=place, still=99.0))
        world.take(world.table.tick(world.t))
    assert world.holder(1) != hung


def test_one_that_is_announced_keeps_all_from_starting_again() -> None:
    world = trained()
    for _ in range(1000):
        world.t += 0.1
        for uid in world.alive:
            busy = uid == world.holder(1)
            world.take(world.table.beat(world.t, uid, seq=50, busy=busy, place="collective", still=99.0))
        world.take(world.table.tick(world.t))
    assert world.table.gen == 0


def test_a_process_that_is_no_member_any_more_is_fenced() -> None:
    """It may train on: two processes of one rank would write one run."""
    world = World(spares=1)
    world.run(2)
    assert world.table.beat(world.t, "nobody") == [("nobody", {"type": "fence"})]


def test_a_word_of_an_older_generation_changes_nothing() -> None:
    world = World(spares=2)
    world.run(2)
    survivor = world.holder(0)
    world.kill(world.holder(1))
    assert (world.table.gen, world.table.running) == (1, True)
    world.take(world.table.broke(world.t, survivor, 0))  # it was said before the loss was known
    world.run(3)
    assert world.table.gen == 1
    world.obedient = False
    world.kill(world.holder(1))
    newcomer = world.holder(1)
    world.take(world.table.is_ready(world.t, newcomer, 2))
    world.take(world.table.is_ready(world.t, survivor, 1))
    assert not world.table.running, "it is ready for a generation that has passed"
    world.take(world.table.is_ready(world.t, survivor, 2))
    assert world.table.running
    world.take(world.table.handed_over(world.t, survivor, 1))
    assert world.table.gen == 2


def test_a_broken_collective_alone_starts_the_same_members_again() -> None:
    world = World()
    members = dict(world.table.ranks)
    world.run(2)
    world.take(world.table.broke(world.t, world.holder(0), 0))
    world.run(0.8)
    assert world.table.gen == 0
    world.run(0.6)
    assert (world.table.gen, world.table.ranks, world.table.running) == (1, members, True)


@pytest.mark.parametrize("kills", [2, 3])
def test_several_at_once(kills: int) -> None:
    world = World(active=4, spares=4, per_node=4)
    world.run(2)
    for rank in range(kills):
        world.kill(world.holder(rank) if rank in world.table.ranks else world.spare)
    assert world.table.running
    assert len(set(world.table.ranks.values())) == 4


def test_a_node_with_four_ranks() -> None:
    world = World(active=8, spares=4, per_node=4)
    world.run(2)
    gone = [uid for uid in world.alive if world.table.members[uid].node == "node-1"]
    world.obedient = False  # all connections close before anybody has answered
    for uid in gone:
        world.alive.pop(uid)
        world.take(world.table.lost(world.t, uid, "connection closed"))
    assert world.table.gen == 1
    for uid in list(world.table.ranks.values()):
        world.take(world.table.is_ready(world.t, uid, 1))
    assert world.table.running
    assert {world.table.members[world.holder(rank)].node for rank in range(4, 8)} == {"node-2"}


@pytest.mark.parametrize("who", ["survivor", "newcomer"])
def test_a_loss_while_a_generation_forms(who: str) -> None:
    world = World(active=2, spares=2)
    world.run(2)
    world.obedient = False
    survivor = world.holder(0)
    world.kill(world.holder(1))
    assert not world.table.running
    world.kill(survivor if who == "survivor" else world.holder(1))
    for uid in list(world.table.ranks.values()):
        world.take(world.table.is_ready(world.t, uid, world.table.gen))
    assert world.table.running
    assert len(world.table.ranks) == 2


def test_a_survivor_that_does_not_let_go_is_fenced() -> None:
    world = World(spares=2, ready_s=3.0)
    world.run(2)
    world.obedient = False
    survivor = world.holder(0)
    world.kill(world.holder(1))
    world.take(world.table.is_ready(world.t, world.holder(1), 1))
    world.obedient = True
    world.run(2.5)
    assert survivor in world.alive
    world.run(1.0)
    assert survivor not in world.alive
    assert world.table.running


@pytest.mark.parametrize("place", ["lock", "native"])
def test_a_recovery_that_comes_to_no_step_ends_within_the_stated_time(place: str) -> None:
    limits = Limits.of(Settings())
    page = (Path(__file__).parents[2] / "docs" / "what-happens-when-a-node-dies.md").read_text()
    stated = re.search(r"within (\d+) seconds of the last loss", page)
    assert stated is not None
    assert int(stated[1]) == math.ceil(limits.ends_within_s)
    world = World(active=3, spares=20, **dataclasses.asdict(limits))
    world.run(5)
    world.obedient = False  # survivors that nobody can interrupt
    world.kill(world.holder(1))
    began, world.obedient = world.t, True
    while "fallback" not in world.kinds() and world.t < began + 2 * limits.ends_within_s:
        stuck = world.holder(0) if world.table.running else "nobody"
        seconds = limits.floor_s if world.table.running else limits.ready_s
        # at another line each time: where two ranks were fenced, a third counts as work
        world.run(seconds + 1, stuck=(stuck,), place=place, at=f"train.py:{world.table.gen} in main")
    assert "fallback" in world.kinds()
    assert limits.ready_s + limits.floor_s < world.t - began <= limits.ends_within_s


def test_generations_without_a_step_end_in_a_restart_from_the_checkpoint() -> None:
    world = World(spares=20, barren=3)
    for _ in range(3):
        world.kill(world.holder(1))
    assert [m["type"] for _, m in world.sent].count("fallback") == len(world.alive)
    assert "3 generations in a row without a step" in dict(world.notes)["fallback"]["message"]
    world.alive.clear()  # they raise, and Ray starts new ones
    for order in range(3):
        world.join(order, node=f"node-{order}")
    world.run(6)
    assert world.table.running
    assert not world.table.over


def test_the_end_is_told_to_all_and_to_latecomers() -> None:
    world = World()
    world.take(world.table.done(world.holder(0)))
    assert [m["type"] for _, m in world.sent].count("over") == 3
    late = world.join(9, node="node-9")
    assert world.sent[-1] == (late, {"type": "over"})
    assert world.table.lost(world.t, world.holder(0), "gone") == []


def test_the_run_is_finished_when_each_rank_has_ended_though_it_is_lost_then() -> None:
    world = World()
    first, second = world.holder(0), world.holder(1)
    assert not world.table.finished
    world.take(world.table.done(first))
    world.take(world.table.lost(world.t, first, "gone"))
    assert not world.table.finished
    messages = len(world.sent)
    world.take(world.table.done(second))
    assert world.table.finished
    assert len(world.sent) == messages, "the end is told once"
    world.table.begins()
    world.alive.clear()
    for order in range(3):
        world.join(order, node=f"node-{order}")
    world.run(6)
    world.take(world.table.done(world.holder(0)))
    assert not world.table.finished, "each of the new ones has to end, too"


def test_the_end_is_not_that_of_workers_that_ray_starts_again() -> None:
    world = World()
    world.run(1)
    world.take(world.table.done(world.holder(0)))
    world.table.begins()
    world.alive.clear()
    for order in range(3):
        world.join(order, node=f"node-{order}")
    world.run(6)
    assert (world.table.running, world.table.over) == (True, False)


def test_a_group_that_begins_while_the_run_is_not_over_changes_nothing() -> None:
    world = World()
    world.run(1)
    ranks, gen = dict(world.table.ranks), world.table.gen
    world.table.begins()
    assert (world.table.ranks, world.table.gen, world.table.running) == (ranks, gen, True)


def test_a_spare_s_done_is_not_the_end() -> None:
    world = World()
    world.take(world.table.done(world.spare))
    assert not world.table.over


def test_a_new_coordinator_takes_up_the_generation_that_trains() -> None:
    world = World(spares=0, active=0)
    world.table = Table(active=2, expected=3, limits=Limits(), note=lambda kind, **f: world.notes.append((kind, f)))
    spare = world.join(2, node="node-2", gen=0, warm=True)
    first = world.join(0, node="node-0", rank=0, gen=4)
    world.run(1)
    second = world.join(1, node="node-1", rank=1, gen=4)
    assert (world.table.running, world.table.gen, world.table.ranks) == (True, 4, {0: first, 1: second})
    assert not [m for _, m in world.sent if m["type"] in {"abandon", "fence"}]
    world.kill(second)
    assert world.holder(1) == spare


def test_a_generation_s_number_is_never_given_twice_whatever_coordinators_there_were() -> None:
    """All have left generation 8 when the new coordinator comes: none has a rank, and each ignores a lower number."""
    world = World(spares=0, active=0)
    world.table = Table(active=2, expected=3, limits=Limits(), note=lambda kind, **f: world.notes.append((kind, f)))
    first = world.join(0, node="node-0", gen=8, warm=True)
    second = world.join(1, node="node-1", gen=8, warm=True)
    world.run(6)
    assert (world.table.running, world.table.gen, set(world.table.ranks.values())) == (True, 9, {first, second})
    late = world.join(2, node="node-2", gen=12, warm=True)  # it had heard of more, and was away for longer
    world.run(3)
    world.kill(second)
    assert (world.table.running, world.table.gen, set(world.table.ranks.values())) == (True, 13, {first, late})
    assert [message["gen"] for uid, message in world.sent if message["type"] == "assign"] == [9, 9, 13, 13]


def test_steps_that_no_tick_has_seen_count_too() -> None:
    world = World(spares=20, barren=3)
    for step in range(1, 9):
        for rank in (0, 1):
            world.take(world.table.beat(world.t, world.holder(rank), step=step, seq=step))
        world.kill(world.holder(1))
    assert "fallback" not in world.kinds()


def test_a_rank_that_does_not_come_back_to_a_new_coordinator_is_replaced() -> None:
    world = World(spares=0, active=0)
    world.table = Table(active=2, expected=3, limits=Limits(), note=lambda kind, **f: world.notes.append((kind, f)))
    first = world.join(0, node="node-0", rank=0, gen=4)
    spare = world.join(2, node="node-2", gen=0, warm=True)
    world.run(4)
    assert not world.table.running
    world.run(2)
    assert (world.table.running, world.table.gen, world.table.ranks) == (True, 5, {0: first, 1: spare})


def test_a_coordinator_that_stood_still_blames_nobody() -> None:
    world = World()
    world.run(2)
    world.t += 60.0
    world.take(world.table.tick(world.t))
    world.run(2)
    assert world.kinds().count("lost") == 0


def test_ranks_leave_a_node_that_goes_away_once_spares_elsewhere_are_warm() -> None:
    world = World()
    world.run(2)
    leaving = world.holder(1)
    node = world.table.members[leaving].node
    world.take(world.table.drain(world.t, frozenset({node})))
    assert world.sent[-1] == (world.holder(0), {"type": "move", "resize": False})
    world.take(world.table.handed_over(world.t, world.holder(0), 0))
    assert world.table.running
    assert world.holder(1) != leaving
    assert leaving in world.alive  # it lives until its node goes, and is no spare
    world.kill(world.holder(1))
    assert not world.table.running


def test_without_a_warm_spare_elsewhere_nobody_moves() -> None:
    world = World(warm=False)
    world.run(2)
    world.take(world.table.drain(world.t, frozenset({"node-1"})))
    world.run(2)
    assert not [m for _, m in world.sent if m["type"] == "move"]
    world.take(world.table.warmed(world.t, world.spare))
    world.run(0.3)
    assert [m for _, m in world.sent if m["type"] == "move"]


def test_a_loop_that_cannot_be_rehearsed_is_not_tried_again() -> None:
    world = World()
    world.table.cold(world.spare)
    world.join(9, node="node-9")
    assert world.sent[-1][1] == {"type": "welcome", "rehearse": False}


def test_a_worker_that_still_imports_may_be_silent_for_longer() -> None:
    world = World(spares=0, warm=False)
    slow = world.holder(1)
    assert not world.table.members[slow].proven
    world.run(4, silent=(slow,))
    assert slow in world.table.members
    world.run(32)  # until that gap is forgotten
    assert world.table.members[slow].proven
    world.run(2.5, silent=(slow,))
    assert slow not in world.table.members
    rehearsed = World(warm=True)
    assert rehearsed.table.members[rehearsed.spare].proven


# ---- an elastic size ----


def assigned(world: World) -> dict[str, tuple[int, int]]:
    """Of each member, the rank and number of ranks it was given last."""
    return {uid: (one["rank"], len(unpacked(one["nodes"]))) for uid, one in world.sent if one["type"] == "assign"}


def test_an_elastic_run_goes_on_at_once_with_those_that_are_left() -> None:
    world = World(active=3, spares=0, least=1)
    world.run(2)
    second, third = world.holder(1), world.holder(2)
    world.kill(world.holder(0))
    assert world.table.running
    assert (assigned(world)[second], assigned(world)[third]) == ((0, 2), (1, 2))
    world.kill(third)
    assert assigned(world)[second] == (0, 1)


def test_it_takes_in_who_comes_once_it_is_warm_and_at_the_end_of_a_step() -> None:
    world = World(active=2, spares=0, least=1)
    world.run(2)
    stays = world.holder(0)
    world.kill(world.holder(1))
    late = world.join(7, node="node-7")
    world.run(2)
    assert world.table.ranks == {0: stays}, "a cold one would keep the others waiting"
    world.take(world.table.warmed(world.t, late))
    world.run(0.2)
    assert world.sent[-1] == (stays, {"type": "move", "resize": True})
    world.take(world.table.handed_over(world.t, stays, world.table.gen))
    assert assigned(world)[stays] == (0, 2)
    assert assigned(world)[late] == (1, 2)
    world.run(2)
    assert world.sent[-1][1]["type"] != "move"


def test_it_waits_for_all_who_come_and_moves_once() -> None:
    world = World(active=3, spares=0, least=1)
    world.run(2)
    for rank in (2, 1):
        world.kill(world.holder(rank))
    first, second = (world.join(order, node=f"node-{order}") for order in (7, 8))
    world.take(world.table.warmed(world.t, first))
    world.run(2)
    assert not world.table._moving
    world.take(world.table.warmed(world.t, second))
    world.run(0.2)
    assert world.sent[-1] == (world.holder(0), {"type": "move", "resize": True})
    world.take(world.table.handed_over(world.t, world.holder(0), world.table.gen))
    assert (world.table.size, len(world.table.ranks)) == (3, 3)


def test_below_its_least_size_it_waits() -> None:
    world = World(active=3, spares=0, least=2)
    world.run(2)
    world.kill(world.holder(0))
    assert world.table.running
    world.kill(world.holder(0))
    assert not world.table.running
    late = world.join(7, node="node-7")
    world.run(1)
    assert not world.table.running
    world.take(world.table.warmed(world.t, late))
    assert world.table.running
    assert assigned(world)[late][1] == 2


def test_ranks_of_a_node_that_goes_away_leave_an_elastic_run_with_a_save() -> None:
    world = World(active=2, spares=0, least=1)
    world.run(2)
    stays = world.holder(1)
    world.take(world.table.drain(world.t, frozenset({"node-0"})))
    assert world.sent[-1] == (world.holder(0), {"type": "move", "resize": True})
    world.take(world.table.handed_over(world.t, world.holder(0), world.table.gen))
    assert assigned(world)[stays] == (0, 1)
    fixed = World(active=2, spares=0)
    fixed.run(2)
    fixed.take(fixed.table.drain(fixed.t, frozenset({"node-0"})))
    assert "move" not in [message["type"] for _, message in fixed.sent]


def test_it_starts_with_those_that_ray_has_room_for() -> None:
    world = World(active=3, spares=0, least=1, warm=False)
    fresh = Table(active=3, min_ranks=1, expected=3, limits=Limits())
    fields = {"uid": "a", "order": 0, "node": "n", "port": 1, "pid": 1, "warm": False, "rank": None}
    fresh.hello(0.0, **fields, group=2)
    assert not fresh.ranks
    out = fresh.hello(0.1, **fields | {"uid": "b", "order": 1}, group=2)
    assert (fresh.size, len(fresh.ranks)) == (2, 2)
    assert {message["type"] for _, message in out} == {"welcome", "abandon"}
    assert world.table.size == 3
    slow = Table(active=3, min_ranks=1, expected=3, limits=Limits())
    slow.hello(0.0, **fields, group=3)
    for t in (10.0, 29.0):
        slow.beat(t, "a")
        slow.tick(t)
        assert not slow.ranks
    slow.beat(31.0, "a")
    slow.tick(31.0)
    assert slow.size == 1


def test_a_new_coordinator_learns_the_size_from_those_that_train() -> None:
    table = Table(active=3, min_ranks=1, expected=3, limits=Limits())
    fields = {"order": 0, "node": "n", "port": 1, "pid": 1, "warm": True, "gen": 4, "world": 2}
    table.hello(0.0, uid="a", rank=0, **fields)
    assert not table.running
    table.hello(0.1, uid="b", rank=1, **fields)
    assert (table.running, table.size) == (True, 2)


def test_a_run_whose_workers_may_be_silent_for_long_gives_them_as_long_to_let_go() -> None:
    assert Limits.of(Settings()) == Limits()
    patient = Limits.of(Settings(silence_s=900.0, hang_s=800.0, hang_steps=9.0))
    assert (patient.silence_s, patient.hang_s, patient.hang_steps, patient.ready_s) == (900.0, 800.0, 9.0, 900.0)


# ---- standbys ----


def with_standby(*, spares: int = 0, node: str = "node-1", imported: bool = True, **options: Any) -> tuple[World, str]:
    """A world that trains, with a standby on one node."""
    world = World(spares=spares, **options)
    world.run(2)
    uid = world.join(9, node=node, standby=True, pid=99)
    if imported:
        world.take(world.table.imported(world.t, uid))
    return world, uid


def adopted(world: World) -> list[tuple[str, Message]]:
    return [(uid, message) for uid, message in world.sent if message["type"] == "adopt"]


def test_a_standby_holds_no_rank_and_counts_for_no_spare() -> None:
    world, uid = with_standby()
    assert uid not in world.table.ranks.values()
    assert (world.table.standbys, world.table.warm_spares, world.table.elastic) == (1, 0, False)
    assert World(spares=0, warm=False).table.running, "nobody waits for one"


def test_the_standby_of_the_node_takes_a_lost_one_s_seat_at_once() -> None:
    world, uid = with_standby()
    survivor, lost = world.holder(0), world.holder(1)
    world.table.members[lost].seat = "devices"
    world.kill(lost)
    assert world.table.running
    assert (world.holder(0), world.holder(1)) == (survivor, uid)
    assert adopted(world) == [(uid, {"type": "adopt", "seat": "devices", "order": 1, "pid": 1})]
    assert world.table.successor("node-1", 1, final=False) == 99
    assert world.table.members[uid].seat == "devices", "so that the next one can take it over"


def test_a_standby_of_another_node_has_no_device_there() -> None:
    world, _ = with_standby(node="node-0")
    world.kill(world.holder(1))
    world.run(6)
    assert not world.table.running
    assert not adopted(world)
    assert [fields["message"][:26] for kind, fields in world.notes if kind == "note"] == ["1 of 2 ranks (first: 1) ha"]


def test_a_warm_spare_is_taken_first_and_the_standby_becomes_the_next() -> None:
    world, uid = with_standby(spares=1)
    spare = (
        world.spare
        if world.spare != uid
        else next(u for u in world.alive if u not in (*world.table.ranks.values(), uid))
    )
    world.kill(world.holder(1))
    assert world.holder(1) == spare
    assert adopted(world)[0][0] == uid
    assert not world.table.members[uid].standby


def test_a_standby_on_a_node_that_stands_still_is_not_asked() -> None:
    world, uid = with_standby()
    lost = world.holder(1)
    world.run(4, silent=(lost, uid))  # the whole node is silent: the rank is missed first
    assert lost not in world.alive
    assert not adopted(world)
    assert world.table.successor("node-1", 1, final=False) == -1, "it may come back"
    world.take(world.table.beat(world.t, uid, step=0, seq=0, busy=False))
    world.take(world.table.tick(world.t))
    assert world.holder(1) == uid


def test_a_standby_on_a_node_that_is_taken_away_is_not_asked() -> None:
    """It would go with the node, and its rank a second time."""
    world, uid = with_standby()
    world.take(world.table.drain(world.t, frozenset({"node-1"})))
    world.kill(world.holder(1))
    world.run(1)
    assert not adopted(world)
    assert uid not in world.table.ranks.values()


def test_a_place_that_ray_fills_is_not_given_to_a_standby_as_well() -> None:
    world = World(spares=0)
    world.run(2)
    assert world.table.successor("node-1", 1, final=True) == -1, "it lives"
    world.kill(world.holder(1))
    assert world.table.successor("node-1", 1, final=False) == -1
    assert world.table.successor("node-1", 1, final=True) == 0
    uid = world.join(9, node="node-1", standby=True, pid=99)
    world.take(world.table.imported(world.t, uid))
    assert not adopted(world)
    assert world.table.successor("node-1", 1, final=False) == 0


def test_a_standby_that_comes_after_the_loss_still_takes_the_seat() -> None:
    world = World(spares=0)
    world.run(2)
    world.kill(world.holder(1))
    uid = world.join(9, node="node-1", standby=True, pid=99)
    assert world.table.running
    assert world.holder(1) == uid


def test_an_elastic_run_does_not_shrink_where_a_standby_is_ready_and_does_where_it_still_imports() -> None:
    for imported, size in ((True, 2), (False, 1)):
        world, _ = with_standby(least=1, imported=imported)
        world.kill(world.holder(1))
        assert (world.table.running, world.table.size) == (True, size)


def test_the_loss_of_a_standby_is_nobody_s_business() -> None:
    world, uid = with_standby()
    world.kill(uid)
    assert world.table.running
    assert world.table.gen == 0
    assert world.table.standbys == 0


def test_what_rank_0_has_imported_reaches_standbys_old_and_new() -> None:
    world, uid = with_standby(imported=False)
    world.take(world.table.has_imported(world.holder(0), ["a.module"]))
    later = world.join(10, node="node-0", standby=True, pid=98)
    asked = [member for member, message in world.sent if message == {"type": "import", "modules": ["a.module"]}]
    assert asked == [uid, later]
    assert world.table.has_imported(later, ["another"]) == [], "no rank"
    assert world.table.modules == ["a.module"]


def test_a_new_coordinator_hears_whose_seat_a_standby_has() -> None:
    world = World(spares=0)
    world.join(5, node="node-7", pid=70, took=41)
    assert world.table.successor("node-7", 41, final=True) == 70


def test_standbys_that_fall_back_with_all_leave_nothing_behind() -> None:
    world, _ = with_standby()
    world.kill(world.holder(1))
    world.take(world.table._give_up("a test"))
    table = world.table
    assert not any((table.members, table.ranks, table.rank_of, table._vacant, table._successors))


# ---- thousands ----


def test_a_rank_s_number_is_known_without_a_search_and_both_ways_agree() -> None:
    world = World(active=6, spares=2, least=3)
    world.run(1)
    for rank in (5, 0, 3):
        world.kill(world.holder(min(rank, world.table.size - 1)))
        assert world.table.rank_of == {uid: number for number, uid in world.table.ranks.items()}


def test_a_generation_of_many_names_only_who_is_new() -> None:
    world = World(active=300, spares=1)
    first = next(fields for kind, fields in world.notes if kind == "generation")
    assert len(first["ranks"]) == 256
    spare = world.spare
    world.take(world.table.warmed(world.t, spare))
    world.kill(world.holder(7))
    kind, fields = world.notes[-1]
    assert (kind, list(fields["ranks"]), fields["world"]) == ("generation", [7], 300)


@pytest.mark.parametrize(("ranks", "beat_s", "silence_s"), [(2, 0.2, 1.5), (1000, 0.2, 1.5), (4096, 0.8192, 2.4576)])
def test_thousands_beat_less_often_and_may_be_silent_for_longer(ranks: int, beat_s: float, silence_s: float) -> None:
    table = Table(active=ranks, expected=ranks, limits=Limits())
    assert table.limits.beat_of(ranks) == pytest.approx(beat_s)
    assert table.silence_limit_s(0.0) == pytest.approx(silence_s)


def _calls(ranks: int) -> int:
    """How many calls a second of training with so many ranks takes."""
    world = World(active=ranks, spares=0)
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    for uid in world.alive:
        world.table.beat(1.0, uid, step=1, seq=1, busy=False, place="collective", still=0.0)
    world.table.beat(1.0, world.holder(0), step=1, seq=0, busy=False, place="lock", still=0.0)
    for _ in range(3):
        world.table.tick(1.0)
    sys.setprofile(None)
    return calls


def test_a_second_of_training_takes_work_in_proportion_to_the_ranks() -> None:
    """Counted in calls, not in time: a beat and a tick look at a member so many times, however many there are.

    In a process of its own: under a profile, CPython 3.11 loops without end when another thread wants the lock.
    """
    code = "from tests.resilience.test_table import _calls; print(_calls(64), _calls(256))"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=PROJECT)
    few, many = map(int, printed.stdout.split())
    assert 64 < few < many < 5 * few
