"""What a deploy says of its progress: usual times, what is left, which stacks it waits for longest."""

from __future__ import annotations

import pytest

from hyperpod_ray.ops.change.progress import REMIND_SECONDS, Expected, Watch
from hyperpod_ray.ops.observe.snapshot import Stack

EXPECTED = Expected(
    minutes={"Network": 1, "Eks": 15, "Image": 10, "HyperPod": 20, "Ray": 2},
    after={"Eks": ["Network"], "HyperPod": ["Eks"], "Ray": ["HyperPod", "Image"]},
)


def stacks(**states: str) -> list[Stack]:
    return [Stack(name=name, status=states.get(name, "")) for name in EXPECTED.minutes]


def test_what_is_left_is_the_longest_way_not_the_sum() -> None:
    assert EXPECTED.left() == (38, ["Network", "Eks", "HyperPod", "Ray"])
    assert EXPECTED.left(done={"Network", "Eks"}, running={"HyperPod": 15, "Image": 1}) == (11, ["Image", "Ray"])
    assert EXPECTED.left(done=set(EXPECTED.minutes)) == (0, [])


def test_a_stack_that_takes_longer_than_usual_does_not_count_below_zero() -> None:
    minutes, way = EXPECTED.left(done={"Network", "Eks", "Image"}, running={"HyperPod": 60})
    assert (minutes, way) == (2, ["Ray"])


def test_each_change_comes_with_elapsed_usual_and_remaining_time(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(EXPECTED, stacks(), at=0)
    watch.look(stacks(Network="CREATE_COMPLETE", Eks="CREATE_IN_PROGRESS"), at=60)
    watch.look(stacks(Network="CREATE_COMPLETE", Eks="CREATE_IN_PROGRESS"), at=70)
    watch.look(stacks(Network="CREATE_COMPLETE", Eks="CREATE_COMPLETE"), at=60 + 14 * 60)
    assert capsys.readouterr().err.splitlines() == [
        "Network: CREATE_COMPLETE",
        "Eks: CREATE_IN_PROGRESS (usually 15 min)",
        "60 s elapsed, about 37 min left: Eks → HyperPod → Ray",
        "Eks: CREATE_COMPLETE after 14 min (usually 15 min)",
        "15 min elapsed, about 22 min left: HyperPod → Ray",
    ]


def test_a_long_stack_is_heard_of_every_few_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(EXPECTED, stacks(), at=0)
    done = "CREATE_COMPLETE"
    going = stacks(Network=done, Eks=done, Image=done, HyperPod="CREATE_IN_PROGRESS")
    watch.look(going, at=0)
    capsys.readouterr()
    watch.look(going, at=REMIND_SECONDS - 1)
    assert capsys.readouterr().err == ""
    watch.look(going, at=25 * 60)
    assert capsys.readouterr().err.splitlines() == [
        "HyperPod: CREATE_IN_PROGRESS for 25 min (usually 20 min), longer than usual",
        "25 min elapsed, about 2 min left: Ray",
    ]


def test_a_stack_that_began_has_those_before_it_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The CLI skips what does not differ: such a stack never changes its state."""
    before = stacks(Network="UPDATE_COMPLETE", Eks="UPDATE_COMPLETE")
    watch = Watch(EXPECTED, before, at=0)
    watch.look([*before[:2], Stack(name="HyperPod", status="UPDATE_IN_PROGRESS")], at=0)
    assert "about 22 min left: HyperPod → Ray" in capsys.readouterr().err


def test_a_rollback_keeps_the_time_of_its_update(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(EXPECTED, stacks(Eks="UPDATE_COMPLETE"), at=0)
    watch.look(stacks(Eks="UPDATE_IN_PROGRESS"), at=0)
    watch.look(stacks(Eks="UPDATE_ROLLBACK_IN_PROGRESS"), at=300)
    watch.look(stacks(Eks="UPDATE_ROLLBACK_COMPLETE"), at=600)
    assert "Eks: UPDATE_ROLLBACK_COMPLETE after 10 min" in capsys.readouterr().err
