from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hyperpod_ray.ops.in_ray.history import History
from hyperpod_ray.ops.journal.record import Record
from hyperpod_ray.ops.journal.run import Run, run_of

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def test_a_clock_that_is_behind_makes_no_negative_age() -> None:
    ahead = Run(name="a", job="b", cluster="c", namespace="d", state="running", at=NOW, last_step_at=NOW + timedelta(1))
    assert ahead.step_age_seconds == 0


START = 1_000_000.0


def test_one_long_pause_is_no_habit() -> None:
    at = datetime.fromtimestamp(START, UTC)
    run = run_of({"pauses_s": [90, 8], "part_pauses_s": [300, 40]}, History(), name="first", at=at)
    assert (run.longest_pause_seconds, run.longest_part_pause_seconds) == (8, 40)


def of(progress: dict[str, Any], *lines: dict[str, Any], **more: Any) -> Run:
    history = History()
    for line in lines:
        history.add(json.dumps(line).encode())
    return run_of(progress, history, name="first", at=NOW, **more)


T = NOW.timestamp()
PUBLISHED: dict[str, tuple[dict[str, Any], str, Any]] = {
    "nothing": ({}, "state", "unknown"),
    "state": ({"state": "saving"}, "state", "saving"),
    "state_t": ({"state_t": T - 5}, "state_since", NOW - timedelta(seconds=5)),
    "started_t": ({"started_t": T - 9, "begun_t": T - 10}, "started", NOW - timedelta(seconds=9)),
    "begun_t": ({"begun_t": T - 10}, "started", NOW - timedelta(seconds=10)),
    "the first start": ({"started_t": T - 9, "begun_t": T - 10}, "began", NOW - timedelta(seconds=10)),
    "last_step": ({"last_step": 7}, "step", 7),
    "total_steps": ({"total_steps": 70}, "steps_total", 70),
    "step_s": ({"step_s": 0.5}, "step_seconds", 0.5),
    "a rate": ({"step_s": 0.5}, "steps_per_second", 2.0),
    "no rate": ({}, "steps_per_second", None),
    "best_step_s": ({"best_step_s": 0.25}, "best_step_seconds", 0.25),
    "part_s": ({"part_s": 0.125}, "part_seconds", 0.125),
    "last_part_t": ({"last_part_t": T - 1}, "last_part_at", NOW - timedelta(seconds=1)),
    "last_step_t": ({"last_step_t": T - 2}, "step_age_seconds", 2.0),
    "no step": ({}, "step_age_seconds", None),
    "last_checkpoint_t": ({"last_checkpoint_t": T - 3}, "checkpoint_age_seconds", 3.0),
    "a checkpoint from a clock that is ahead": ({"last_checkpoint_t": T + 3}, "checkpoint_age_seconds", 0.0),
    "no checkpoint": ({}, "checkpoint_age_seconds", None),
    "last_checkpoint_step": ({"last_checkpoint_step": 5}, "last_checkpoint_step", 5),
    "world_size": ({"world_size": 16}, "world_size", 16),
    "device": ({"device": "cuda"}, "device", "cuda"),
    "attempt": ({"attempt": "abc"}, "attempt", "abc"),
    "last_error": ({"last_error": "boom"}, "last_error", "boom"),
    "transport": ({"transport": "sockets"}, "transport", "sockets"),
    "metrics": ({"metrics": {"loss": 2, "acc": 0.5, "nan": "x"}}, "metrics", {"loss": 2.0, "acc": 0.5}),
    "a loss": ({"metrics": {"loss": 2}}, "loss", 2.0),
    "no loss among metrics": ({"metrics": {"acc": 2}}, "loss", None),
    "the folder of its checkpoint": ({"last_checkpoint_path": "/fsx/runs/a/step-5"}, "folder", "/fsx/runs/a"),
    "copies each step": ({"copy_every_steps": 1}, "copies_in_words", "a copy in a neighbour's memory each step"),
    "copies": ({"copy_every_steps": 1500}, "copies_in_words", "a copy in a neighbour's memory every 1,500 steps"),
    "no copies": ({}, "copies_in_words", ""),
    "copies of no step": ({"copy_every_steps": 0.5}, "copy_every_steps", None),
    "one pause of parts": ({"part_pauses_s": [4]}, "longest_part_pause_seconds", None),
}
"""A field of `progress.json`, as the training library publishes it, and what a run has of it."""


@pytest.mark.parametrize("case", PUBLISHED)
def test_what_a_run_publishes(case: str) -> None:
    progress, figure, value = PUBLISHED[case]
    assert getattr(of(progress), figure) == value


EFA: dict[str, tuple[dict[str, Any], bool]] = {
    "over sockets between nodes with EFA": ({}, True),
    "over EFA": ({"transport": "efa"}, False),
    "not said": ({"transport": ""}, False),
    "another value": ({"transport": 7}, False),
    "nodes without EFA": ({"efa": False}, False),
    "EFA is not said": ({"efa": "yes"}, False),
    "one node": ({"across_nodes": False}, False),
}


@pytest.mark.parametrize("case", EFA)
def test_who_misses_efa(case: str) -> None:
    changes, misses = EFA[case]
    assert of({"efa": True, "across_nodes": True, "transport": "sockets", **changes}).misses_efa is misses


def test_a_run_says_where_it_is_and_what_its_journal_adds_up_to() -> None:
    lines = [{"t": T - 60 + number, "kind": "step", "step": number, "loss": 1 / (1 + number)} for number in range(50)]
    lines += [{"t": T - 8, "kind": "error", "message": "x"}, {"t": T - 7, "kind": "save", "step": 49, "stall_s": 2.0}]
    run = of({"state": "running"}, *lines, job="j", cluster="c", namespace="n", folder="/fsx/a")
    assert (run.name, run.job, run.cluster, run.namespace, run.folder) == ("first", "j", "c", "n", "/fsx/a")
    assert (run.began, run.started) == (NOW - timedelta(seconds=60), None)
    assert (run.step, run.loss, run.last_checkpoint_step, run.faults, run.recoveries) == (49, 0.02, 49, 1, 0)
    assert [event.kind for event in run.events] == ["error", "save"]
    assert run.record is not None
    assert run.goodput == run.record.goodput and run.goodput is not None
    assert sum(run.spent_seconds.values()) == pytest.approx(run.record.whole_seconds, abs=0.01)
    assert run.lost_by_cause == {cause: round(lost, 3) for cause, lost in run.record.lost.items()} != {}
    other = of({"state": "running"}, {"t": T - 9, "kind": "step", "step": 1, "acc": 0.5})
    assert other.loss is None, "its metric is another one"
    bare = Run(name="a", job="", cluster="", namespace="", state="", at=NOW)
    assert (bare.goodput, bare.spent_seconds, bare.lost_by_cause) == (None, {}, {})
    rounded = Record(name="a", seconds={"training": 1.23456})
    assert Run(**{**bare.__dict__, "record": rounded}).spent_seconds == {"training": 1.235}
