"""The arithmetic of a rehearsal, on made-up events. No Ray, no clock."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_up
import pytest

from hyperpod_ray_sandbox.rehearsal.report import Injected, Observation, Report, compare, measure, unexplained
from hyperpod_ray_sandbox.rehearsal.terminal import verdicts
from hyperpod_ray_training.history import Event, Tail, parse


def fault(t: float, *, kind: str = "node") -> Injected:
    return Injected(fault=kind, t=t, step=16, target="pod", run="run")


def test_a_lost_node() -> None:
    events = [*made_up.work(t=100, first=1, last=16), Event(t=109, kind="error"), *made_up.back(t=112, step=10)]
    events += made_up.work(t=115, first=11, last=20)
    got = measure(fault(106.5), events, until=1000, observations=[Observation(t=110, what="node dead")])
    assert (got.detected_after_s, got.detected_by) == (2.5, "Ray Train: a worker failed")
    assert (got.resumed_after_s, got.recovery_s) == (8.5, 8.5)
    assert (got.steps_lost, got.checkpoint_step, got.checkpoint) == (6, 10, "step-00000010-aaaaaa")
    assert got.interrupted
    assert got.survived
    assert got.world == 2


def test_a_drained_node_counts_from_the_last_step_before_the_stop() -> None:
    events = made_up.work(t=100, first=1, last=30)  # goes on until 111.6, the notice came at 105
    events += [Event(t=105.4, kind="drain", step=14), Event(t=111, kind="save", step=29, values={"path": "/x/step-29"})]
    events += made_up.back(t=118, step=29) + made_up.work(t=120, first=30, last=40)
    got = measure(fault(105, kind="drain"), sorted(events, key=lambda e: e.t), until=1000)
    assert got.detected_by == "drain notice"
    assert (got.resumed_after_s, got.recovery_s) == (15.0, 8.4)
    assert got.steps_lost == 1


def test_a_new_head_is_timed_from_the_fault_on() -> None:
    events = made_up.work(t=100, first=1, last=60)
    got = measure(fault(106.5, kind="head"), events, until=1000, heads=[50.0, 118.25, 300.0])
    assert got.head_back_after_s == 11.75
    assert measure(fault(106.5, kind="head"), events, until=1000, heads=[50.0]).head_back_after_s is None
    assert measure(fault(106.5, kind="node"), events, until=1000, heads=[118.25]).head_back_after_s is None


def test_a_head_with_fault_tolerance_interrupts_nothing() -> None:
    events = made_up.work(t=100, first=1, last=60)
    got = measure(fault(106.5, kind="head"), events, until=1000)
    assert not got.interrupted
    assert got.survived
    assert (got.steps_lost, got.checkpoint_step, got.checkpoint) == (0, None, None)


def test_nothing_after_the_fault_is_not_survived() -> None:
    events = [*made_up.work(t=100, first=1, last=16), Event(t=109, kind="error")]
    got = measure(fault(106.5), events, until=1000)
    assert not got.survived
    assert got.recovery_s is None


def test_the_last_step_of_a_dying_run_is_no_recovery() -> None:
    events = made_up.work(t=100, first=1, last=17)
    got = measure(fault(106.2, kind="head"), events, until=1000, recovered=False)
    assert not got.survived
    assert got.interrupted
    assert got.resumed_after_s is None


def test_a_start_from_nothing_loses_every_step() -> None:
    events = [*made_up.work(t=100, first=1, last=6), Event(t=110, kind="start", values={"role": "worker"})]
    events += made_up.work(t=112, first=1, last=10)
    got = measure(fault(103), events, until=1000)
    assert (got.steps_lost, got.checkpoint_step, got.checkpoint) == (6, 0, None)


def test_the_driver_s_own_start_is_no_new_worker() -> None:
    events = [*made_up.work(t=100, first=1, last=16), Event(t=107, kind="start", values={"role": "driver"})]
    events += made_up.back(t=112, step=10) + made_up.work(t=115, first=11, last=20)
    got = measure(fault(106.5, kind="driver"), events, until=1000)
    assert got.detected_by == "new workers"
    assert got.detected_after_s == 5.5


def test_later_faults_are_none_of_this_one_s_business() -> None:
    events = (
        made_up.work(t=100, first=1, last=16) + made_up.back(t=112, step=10) + made_up.work(t=115, first=11, last=26)
    )
    events += made_up.back(t=130, step=20) + made_up.work(t=133, first=21, last=30)
    first = measure(fault(106.5), events, until=121)
    assert (first.checkpoint_step, first.resumed_after_s) == (10, 8.5)
    second = measure(Injected(fault="hang", t=121.5, step=26, target="", run="run"), events, until=1000)
    assert (second.checkpoint_step, second.steps_lost) == (20, 6)


def test_elastic_counts_until_full_size() -> None:
    events = made_up.work(t=100, first=1, last=16) + made_up.back(t=112, step=10, world=1)
    events += made_up.work(t=115, first=11, last=30, world=1) + made_up.back(t=130, step=30)
    events += made_up.work(t=133, first=31, last=40)
    got = measure(fault(106.5, kind="elastic"), events, until=1000)
    assert got.world == 1
    assert got.full_size_after_s == 26.5


@pytest.mark.parametrize("lost", [0, 1, 9])
@pytest.mark.parametrize("pause", [0.5, 31.25, 300.0])
@pytest.mark.parametrize("cycle", [1, 2, 20])
def test_lost_steps_and_times_come_out_as_put_in(lost: int, pause: float, cycle: int) -> None:
    saved = cycle * 10
    events = made_up.work(t=100, first=1, last=saved + lost)
    t = 100 + 0.4 * (saved + lost)
    events += made_up.back(t=t + pause, step=saved) + made_up.work(t=t + pause + 2, first=saved + 1, last=saved + 5)
    got = measure(fault(t), events, until=1e9)
    assert got.steps_lost == lost
    assert got.recovery_s == pytest.approx(pause + 2, abs=0.01)
    assert got.checkpoint_step == saved


def test_one_different_bit_anywhere_is_found() -> None:
    truth = made_up.work(t=0, first=1, last=40)
    run = made_up.work(t=0, first=1, last=40)
    same = compare(name="r", status="SUCCEEDED", submissions=1, events=run, undisturbed=truth, elastic=False)
    assert (same.equal, same.steps_different, same.steps_compared) == (True, 0, 40)
    at = next(i for i, event in enumerate(run) if event.kind == "step" and event.step == 23)
    off = run[at].loss or 0.0
    run[at] = Event(t=run[at].t, kind="step", step=23, values={"loss": off * (1 + 2**-52), "world": 2})
    other = compare(name="r", status="SUCCEEDED", submissions=1, events=run, undisturbed=truth, elastic=False)
    assert (other.equal, other.steps_different) == (True, 1)
    assert 0 < other.largest_difference < 1e-12


def test_a_restart_between_two_faults_is_said(tmp_path: Path) -> None:
    first, second = made_up.back(t=101, step=10), made_up.back(t=140, step=30)
    from_memory = Event(t=120.0, kind="restore", step=20, values={"path": "memory"})
    events = [*first, from_memory, *second]
    assert unexplained(events, [(100.0, 110.0), (139.0, 150.0)]) == 0
    assert unexplained(events, [(100.0, 110.0)]) == 1
    assert unexplained(events, []) == 2
    report = made_up.report(tmp_path)
    run = replace(report.runs[0], unexplained_restarts=1)
    assert "1 restarts from a checkpoint that no fault explains" in verdicts(replace(report, runs=[run]))[-1]
    assert not any("no fault explains" in line for line in verdicts(report))


def test_the_verdict_is_no_when_anything_is_off(tmp_path: Path) -> None:
    good = made_up.report(tmp_path)
    assert good.survived

    def changed(**values: object) -> Report:
        return Report(**{**good.__dict__, **values})

    run = good.runs[0]
    for bad in ({"status": "FAILED"}, {"largest_difference": 1e-9}, {"steps_compared": 0}):
        assert not changed(runs=[type(run)(**{**run.__dict__, **bad})]).survived
    first = good.faults[0]
    assert not changed(faults=[type(first)(**{**first.__dict__, "survived": False})]).survived


def test_the_json_keeps_its_keys(tmp_path: Path) -> None:
    raw = json.loads(made_up.report(tmp_path).to_json())
    assert raw["schema_version"] == 1
    assert list(raw) == [
        "schema_version", "survived", "not_shown", "environment", "job", "settings", "cluster", "faults", "runs",
        "timeline", "started_t", "seconds", "machine", "log", "files",
    ]  # fmt: skip
    assert list(raw["faults"][0]) == [
        "fault", "run", "target", "t", "step", "detected_after_s", "detected_by", "resumed_after_s", "recovery_s",
        "steps_lost", "checkpoint_step", "checkpoint", "interrupted", "resubmitted", "survived", "world",
        "full_size_after_s", "head_back_after_s", "taken_over_by",
    ]  # fmt: skip
    assert any("NCCL" in text for text in raw["not_shown"])


TAKEN_OVER: list[tuple[list[dict[str, Any]], str | None]] = [
    ([{"kind": "error"}], None),
    (
        [
            {"kind": "lost", "rank": 1, "warm_spares": 0}, {"kind": "spare", "instead_of": 7},
            {"kind": "generation", "world": 2},
        ],
        "a standby",
    ),
    (  # the node's processes end one after another
        [
            {"kind": "lost", "rank": 1, "node": "b", "warm_spares": 1},
            {"kind": "spare", "node": "b", "instead_of": 7, "warm_spares": 1},
            {"kind": "lost", "rank": 1, "node": "b", "warm_spares": 0}, {"kind": "generation", "world": 2},
        ],
        "a spare",
    ),
    (  # another node is lost beside a process that its standby replaces
        [
            {"kind": "lost", "rank": 0, "node": "a", "warm_spares": 0},
            {"kind": "spare", "node": "a", "instead_of": 7, "warm_spares": 0},
            {"kind": "lost", "rank": 1, "node": "b", "warm_spares": 0}, {"kind": "generation", "world": 2},
        ],
        "a standby",
    ),
    (
        [
            {"kind": "lost", "rank": 0, "node": "a", "warm_spares": 1},
            {"kind": "lost", "rank": 1, "node": "b", "warm_spares": 0}, {"kind": "generation", "world": 2},
        ],
        "a new worker",
    ),
    ([{"kind": "lost", "rank": 1, "warm_spares": 1}, {"kind": "generation", "world": 2}], "a spare"),
    ([{"kind": "lost", "rank": 1, "warm_spares": 0}, {"kind": "generation", "world": 2}], "a new worker"),
    ([{"kind": "lost", "rank": 1, "warm_spares": 0}, {"kind": "generation", "world": 1}], "nobody, fewer workers"),
    ([{"kind": "lost", "rank": 1, "warm_spares": 0}, {"kind": "fallback"}, {"kind": "generation", "world": 2}], None),
    ([{"kind": "lost", "rank": None, "warm_spares": 0}, {"kind": "generation", "world": 2}], None),
]  # fmt: skip


@pytest.mark.parametrize(("said", "successor"), TAKEN_OVER)
def test_who_has_the_lost_rank_is_what_the_coordinator_said(said: list[dict[str, Any]], successor: str | None) -> None:
    injected = Injected(fault="worker", t=10.0, step=5, target="rank 1", run="r")
    events = [Event(9.0, "step", 5, {"loss": 1.0, "world": 2})]
    for number, fields in enumerate(said):
        kind = str(fields["kind"])
        events.append(Event(10.1 + number / 10, kind, None, {k: v for k, v in fields.items() if k != "kind"}))
    events += [Event(11.0, "restore", 4, {"path": "memory"}), Event(11.2, "step", 5, {"loss": 1.0, "world": 2})]
    report = measure(injected, events, until=12.0)
    assert (report.survived, report.taken_over_by) == (True, successor)


def test_a_line_cut_short_by_a_kill_is_passed_over_and_a_late_half_is_joined(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(path)
    assert tail.read() == []
    path.write_bytes(b'{"t": 1, "kind": "step", "step": 1, "loss": 0.1}\n{"t": 2, "ki')
    assert [event.step for event in tail.read()] == [1]
    with path.open("ab") as stream:
        stream.write(b'nd": "step", "step": 2, "loss": 0.30000000000000004}\n{"t": 3, "kind\n[1]\n')
    assert [event.loss for event in tail.read()] == [0.30000000000000004]
    assert tail.step == 2
    assert parse("null") is None
