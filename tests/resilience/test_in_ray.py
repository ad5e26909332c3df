"""A rank dies in a real Ray, in a run with a spare and Ray Data, and Ray's controller shows what it makes of that."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray_run
from conftest import ROOT, job_environment

from hyperpod_ray_training import metrics

pytestmark = pytest.mark.slow
LIMIT_S = 1500  # only so that a hang ends


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ray")
    command = [sys.executable, str(Path(ray_run.__file__)), str(folder)]
    # Ray's own niceness of workers, 15, leaves them a thirtieth of a core beside the rest of the suite
    environment = job_environment(RAY_worker_niceness="0")
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    lines = (folder / "run" / "events.jsonl").read_text().splitlines()
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result | {
        "events": [json.loads(line) for line in lines],
        "folder": folder / "run",
    }


def of_kind(ran: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in ran["events"] if event["kind"] == kind]


def test_the_survivor_stays_and_the_spare_continues_from_memory(ran: dict[str, Any]) -> None:
    assert ran["error"] == ""
    done = of_kind(ran, "done")[0]["t"]
    # a store that is slow to answer costs one more
    first, *_, second = [event for event in of_kind(ran, "generation") if event["t"] < done]
    assert first["ranks"]["0"] == second["ranks"]["0"]
    assert first["ranks"]["1"] != second["ranks"]["1"]
    ((path, step),) = [(event["path"], event["step"]) for event in of_kind(ran, "restore") if event["t"] < done]
    assert path == "memory"
    assert step in (ray_run.DIES_AT - 1, ray_run.DIES_AT)


def test_ray_replaces_the_lost_one_and_hears_of_each_save(ran: dict[str, Any]) -> None:
    done = of_kind(ran, "done")[0]["t"]
    errors = {event["message"] for event in of_kind(ran, "error") if event["t"] < done}
    assert errors <= {"unfinished checkpoint removed"}
    assert of_kind(ran, "fallback") == []
    lost = next(event for event in of_kind(ran, "lost") if event["rank"] is not None)
    assert [event for event in of_kind(ran, "spare") if event.get("warm_spares") and event["t"] > lost["t"]]
    newest = of_kind(ran, "save")[-1]
    assert newest["step"] == ray_run.STEPS
    assert ran["checkpoint"] == newest["path"]
    kept = list(ran["folder"].glob("step-*"))
    # one that Ray never heard of gave its room to a later save, and the next start removes its folder
    kept = [path for path in kept if any(path.iterdir())]
    assert all((path / ".metadata").exists() for path in kept), "the save that died is removed"
    assert 1 <= len(kept) <= 3, "Ray keeps two, so it knows them; one may have been whole and not announced yet"


def test_what_comes_after_the_loop_is_done_where_a_rank_is_lost_in_it(ran: dict[str, Any]) -> None:
    assert (ran["folder"] / "died behind the loop").exists()
    assert (ran["folder"] / "exported").exists()
    messages = [event["message"] for event in of_kind(ran, "error")]
    assert any("lost after its last step, before the end of its script" in message for message in messages)


def test_every_row_is_seen_once_an_epoch_and_a_step_done_again_is_the_same(ran: dict[str, Any]) -> None:
    seen: dict[int, set[tuple[float, float]]] = {}
    for event in of_kind(ran, "step"):
        seen.setdefault(event["step"], set()).add((event["loss"], event["ids"]))
    assert sorted(seen) == list(range(1, ray_run.STEPS + 1))
    assert all(len(values) == 1 for values in seen.values())
    each = ray_run.STEPS // ray_run.EPOCHS
    for epoch in range(ray_run.EPOCHS):
        steps = range(epoch * each + 1, (epoch + 1) * each + 1)
        assert sum(ids for step in steps for _, ids in seen[step]) == sum(range(ray_run.ROWS))


def test_steps_are_metrics_at_rays_own_port(ran: dict[str, Any]) -> None:
    """In Prometheus' text format, with the label by which alerts tell runs apart; and gone when the run has ended."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in (ran["folder"] / "metrics.txt").read_text(encoding="utf-8").splitlines():
        shape = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
        assert shape, line
        labels = dict(re.findall(r'(\w+)="([^"]*)"', shape[2]))
        found.setdefault(shape[1], []).append((labels, float(shape[3])))
    assert {f"ray_{name}" for name in metrics.DESCRIPTIONS} == set(found)
    assert all(labels["run"] == "run" and labels["WorkerId"] for series in found.values() for labels, _ in series)
    ((_, step),) = [one for one in found["ray_training_run_step"] if one[1] == ray_run.WAITS_AT]
    assert step == ray_run.WAITS_AT
    assert found["ray_training_run_workers"][-1][1] == 2
    times = sorted(value for _, value in found["ray_training_run_step_time_seconds"])
    start = of_kind(ran, "start")[0]["t"]
    assert len(times) >= 2, "rank 0's and the driver's"
    assert start - 60 < times[0] < times[-1] <= of_kind(ran, "done")[-1]["t"]
    assert ran["left"] == []
