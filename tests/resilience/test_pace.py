from __future__ import annotations

import pytest

from hyperpod_ray_training.pace import Pace


def stepped(pace: Pace, *gaps: float) -> Pace:
    now = 100.0
    pace.stepped(now)
    for gap in gaps:
        now += gap
        pace.stepped(now)
    return pace


def test_the_pace_is_the_median_and_the_longest_pauses() -> None:
    fields = stepped(Pace(), 1, 1, 1, 30, 1, 20).fields()
    assert fields["step_s"] == 1
    assert fields["pauses_s"][:3] == [30, 20, 1]
    assert fields["best_step_s"] is None, "a few steps may be quick by chance"


def test_the_pace_before_the_second_step_is_not_known() -> None:
    assert stepped(Pace()).fields() == {}


def test_an_attempt_remembers_the_pauses_and_the_best_of_the_one_before() -> None:
    first = stepped(Pace(world=2), *[1.0] * 60, 40, 40).fields()
    assert first["best_step_s"] == 1.0
    again = Pace({**first, "world_size": 2}, world=2)
    assert stepped(again, *[3.0] * 60).fields()["best_step_s"] == 1.0
    assert again.pauses[:2] == [40.0, 40.0]
    other = Pace({**first, "world_size": 2}, world=1)
    assert stepped(other, *[3.0] * 60).fields()["best_step_s"] == 3.0, "fewer ranks have another best"


@pytest.mark.parametrize("found", [None, "x", [None, "a", True], {}])
def test_what_a_file_holds_instead_of_pauses_is_ignored(found: object) -> None:
    assert Pace({"pauses_s": found}).pauses == []
