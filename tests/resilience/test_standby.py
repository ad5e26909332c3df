"""A rank dies twice in a real Ray without a spare: the standby of its node takes its device and place each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import standby_run
from conftest import ROOT, job_environment

pytestmark = pytest.mark.slow
LIMIT_S = 1500  # only so that a hang ends


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ray")
    command = [sys.executable, str(Path(standby_run.__file__)), str(folder)]
    environment = job_environment(RAY_worker_niceness="0", GLOO_SOCKET_IFNAME="lo")
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    lines = (folder / "run" / "events.jsonl").read_text().splitlines()
    seats = {
        rank: [json.loads(line) for line in (folder / "run" / f"seats-{rank}.jsonl").read_text().splitlines()]
        for rank in range(2)
    }
    return {"events": [json.loads(line) for line in lines], "seats": seats}


def of_kind(ran: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in ran["events"] if event["kind"] == kind]


def test_both_losses_are_taken_over_by_standbys_and_the_other_rank_keeps_its_process(ran: dict[str, Any]) -> None:
    generations = of_kind(ran, "generation")
    assert {event["ranks"]["0"]["pid"] for event in generations} == {generations[0]["ranks"]["0"]["pid"]}
    lost = [event["ranks"]["1"]["pid"] for event in generations]
    taken = [event for event in of_kind(ran, "spare") if "instead_of" in event]
    assert [event["instead_of"] for event in taken] == list(dict.fromkeys(lost))[:2]
    assert {event["path"] for event in of_kind(ran, "restore")} == {"memory"}
    assert of_kind(ran, "fallback") == of_kind(ran, "error") == []
    assert {event["warm_spares"] for event in generations} == {0}


def test_the_successor_has_the_device_and_the_local_rank_of_the_lost_one(ran: dict[str, Any]) -> None:
    first, *others = ran["seats"][1]
    assert len({seat["pid"] for seat in ran["seats"][1]}) == 3
    assert (first["gpus"], first["visible"], first["device"], first["local_rank"]) == ([1], "0,1", "cuda:1", 1)
    for seat in others:
        assert seat | {"pid": 0} == first | {"pid": 0}
    assert {(seat["device"], seat["environment"]) for seat in ran["seats"][0]} == {("cuda:0", "0")}


def test_each_step_is_done_and_one_that_is_done_again_is_the_same(ran: dict[str, Any]) -> None:
    losses: dict[int, list[float]] = {}
    for event in of_kind(ran, "step"):
        losses.setdefault(event["step"], []).append(event["loss"])
    assert sorted(losses) == list(range(1, standby_run.STEPS + 1))
    assert all(len(set(values)) == 1 for values in losses.values())
    assert sum(len(values) - 1 for values in losses.values()) <= 2


def test_a_standby_says_what_memory_it_takes(ran: dict[str, Any]) -> None:
    for event in of_kind(ran, "spare"):
        if "rss_mb" in event:
            assert 50 < event["private_mb"] <= event["rss_mb"] < 4000
            break
    else:
        pytest.fail("no standby said it")
