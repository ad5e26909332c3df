from __future__ import annotations

import made_up

from hyperpod_ray_sandbox.rehearsal import soak
from hyperpod_ray_sandbox.rehearsal.options import Options
from hyperpod_ray_training.history import Event


def test_a_seed_plans_the_same_kills_and_another_seed_others() -> None:
    one, same, other = (soak.plan(kills=60, seed=seed, interval=10, size=2) for seed in (7, 7, 8))
    assert one == same
    assert one != other
    assert {kill.kind for kill in one} == set(soak.KINDS), "the middle of a checkpoint included"
    assert all(1 <= kill.steps <= 15 and kill.rank in (0, 1) for kill in one)


def test_a_lost_checkpoint_is_seen() -> None:
    kill = soak.plan(kills=1, seed=0, interval=10, size=2)[0]
    before = made_up.work(t=100, first=1, last=26)
    after = made_up.work(t=130, first=11, last=20)
    bad = soak.judge(kill, t=111, events=before + made_up.back(t=120, step=10) + after)
    assert (bad.saved_step, bad.restored_step, bad.lost_checkpoint) == (20, 10, True)
    good = soak.judge(
        kill, t=111, events=before + made_up.back(t=120, step=20) + made_up.work(t=130, first=21, last=30)
    )
    assert not good.lost_checkpoint
    nothing = soak.judge(kill, t=101, events=[*made_up.work(t=100, first=1, last=3), Event(t=110, kind="start")])
    assert not nothing.lost_checkpoint


def test_a_soak_with_spares_is_long_enough_to_wait_for_each() -> None:
    plain, one, three = (Options(spares=spares) for spares in (0, 1, 3))
    assert soak.length(50, plain) == soak.length(50, one), "a standby is waited for as a spare is"
    assert soak.length(50, one) == 10 * 53 + 50 * 80
    assert 10 * 53 < soak.length(50, three) < soak.length(50, one)
