"""A run lasts until its last fault: each fault, and each wait for a warm spare, has the steps it needs."""

from __future__ import annotations

from dataclasses import replace

from hyperpod_ray_sandbox.rehearsal.faults import faults_named
from hyperpod_ray_sandbox.rehearsal.lengths import WARM_SECONDS, run_lengths
from hyperpod_ray_sandbox.rehearsal.options import Options

NO_STANDBY = {"RESILIENCE_STANDBY_WORKERS": "0"}
OPTIONS = Options(interval=10, step_delay_s=0.15, job_env=NO_STANDBY)


def _steps(*names: str, options: Options = OPTIONS, fault_tolerant: bool = False) -> tuple[int, int]:
    return run_lengths(options, faults_named(names), fault_tolerant=fault_tolerant)


def test_every_fault_has_an_interval_of_its_own_and_two_are_left_around_them() -> None:
    assert _steps("node", "freeze", "hang") == (50, 50)


def test_an_interval_more_where_ranks_may_not_wait_at_a_step() -> None:
    assert _steps("hung-job") == (40, 40)


def test_where_ranks_may_not_wait_there_is_work_while_a_spare_becomes_warm_or_a_standby_imports() -> None:
    for options in (replace(OPTIONS, spares=1), replace(OPTIONS, job_env={})):
        gap = _steps("node", "freeze", "hung-job", options=options)[0] - _steps("node", "freeze", "hung-job")[0]
        assert gap == 3 * int(WARM_SECONDS / 0.15)
        assert _steps("node", "freeze", "hang", options=options) == _steps("node", "freeze", "hang")


def test_only_the_run_of_changing_size_lasts_as_long_as_a_lost_node_is_away() -> None:
    fixed, changing = _steps("node", "elastic")
    assert fixed == 40
    assert changing == fixed + 200


def test_a_lost_head_needs_work_that_goes_on_only_with_fault_tolerance() -> None:
    assert _steps("head", fault_tolerant=True)[0] > _steps("head")[0] == 30
