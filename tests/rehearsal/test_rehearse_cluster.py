"""Real Ray, real kills, by the very commands of `docs/what-happens-when-a-node-dies.md`. Minutes, not seconds.

Asserts on states, steps and losses, never on times.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_training.history import Tail
from tests.support.ray_turn import ray_turn

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "what-happens-when-a-node-dies.md"
LIMIT_S = 1800  # only so that a hang ends; a quiet machine needs a tenth of it

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PROJECT / ".venv-rehearsal" / "bin" / "ray").exists(), reason="needs .venv-rehearsal (make rehearsal-env)"
    ),
]


def commands(word: str) -> list[list[str]]:
    """The page's `hyperpod-ray local WORD …` lines, in order, as this source tree runs them."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    found = [line for line in lines if line[:3] == ["hyperpod-ray", "local", word]]
    return [[sys.executable, "-m", "hyperpod_ray.cli", *line[1:]] for line in found]


def ray_processes() -> set[str]:
    """Processes started for a pod of `local ray`, by this system's ids. A rehearsal of Slurm may run beside it."""
    out = set()
    for path in Path("/proc").iterdir():
        try:
            variables = (path / "environ").read_bytes()
            if (
                re.search(rb"RAY_ON_HYPERPOD_POD=(?!slurm-)", variables)
                and bytes(PROJECT) in variables
                and (path / "cmdline").read_bytes()
            ):
                out.add(path.name)
        except OSError:
            continue
    return out


def left_since(before: set[str]) -> set[str]:
    """What a cluster has left running; a process namespace that was ended is gone a moment later."""
    until = time.monotonic() + 600
    while (left := ray_processes() - before) and time.monotonic() < until:
        time.sleep(0.2)
    return left


class Probe(threading.Thread):
    """While the rehearsal runs: what does its Jobs API say to someone without the token?"""

    def __init__(self, before: set[str]) -> None:
        super().__init__(daemon=True)
        self.before, self.answers, self.ended = before, set[int](), threading.Event()

    def run(self) -> None:
        while not self.ended.wait(1):
            for name in set(Cluster.names(project=PROJECT)) - self.before:
                try:
                    dashboard = Cluster.load(name=name, project=PROJECT).dashboard
                    self.answers.add(dashboard.request("/api/jobs/", token="wrong", timeout=600)[0])
                    self.answers.add(dashboard.request("/api/jobs/", timeout=600)[0])
                except Exception:  # noqa: S112 - the cluster comes and goes
                    continue


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    (command,) = commands("rehearse")
    folder = tmp_path_factory.mktemp("rehearsal")
    command[command.index("--out") + 1] = str(folder)
    command[command.index("--faults") + 1] += ",hung-job"
    # beside the whole suite the job starts ten times slower, and who injects the faults sees its steps late
    command += ["--fault-timeout", "900", "--interval", "6", "--step-delay", "1"]
    with ray_turn():
        before, names = ray_processes(), set(Cluster.names(project=PROJECT))
        probe = Probe(names)
        probe.start()
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        probe.ended.set()
        probe.join()
        left = left_since(before)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return {
        "report": report,
        "folder": folder,
        "left": left,
        "answers": probe.answers,
        "out": done.stdout,
    }


def test_every_fault_is_survived_with_no_hand_on_it(rehearsed: dict[str, Any]) -> None:
    report = rehearsed["report"]
    assert report["survived"]
    assert [fault["fault"] for fault in report["faults"]] == ["worker", "node", "hung-job"]
    assert all(fault["interrupted"] and fault["survived"] and not fault["resubmitted"] for fault in report["faults"])
    assert [run["status"] for run in report["runs"]] == ["SUCCEEDED"]
    assert report["runs"][0]["submissions"] == 1


def test_every_loss_equals_the_undisturbed_run_s_to_the_last_bit(rehearsed: dict[str, Any]) -> None:
    (run,) = rehearsed["report"]["runs"]
    assert run["equal"]
    assert run["steps_different"] == 0
    assert run["steps_compared"] > rehearsed["report"]["settings"]["steps"], "steps done again count too"


def test_work_resumed_from_the_newest_checkpoint(rehearsed: dict[str, Any]) -> None:
    report = rehearsed["report"]
    saves = [event for event in events_of(report).events if event.kind == "save"]
    for fault in report["faults"]:
        newest = max(event.step or 0 for event in saves if event.t < fault["t"])
        assert fault["checkpoint_step"] >= newest >= report["settings"]["interval_steps"]
        assert fault["checkpoint"].startswith(f"step-{fault['checkpoint_step']:08d}")


def test_the_stand_in_agent_found_the_hang_by_rules_that_awss_library_sent(rehearsed: dict[str, Any]) -> None:
    report = rehearsed["report"]
    hung = report["faults"][2]
    after = hung["t"] - report["started_t"]
    said = [text for t, text in report["log"] if "stand-in agent on" in text and t >= after - 1]
    assert said, report["log"]
    event = json.loads(said[0].partition(": ")[2])
    assert (event["event"], event["action"]) == ("HANG_DETECTED", "cancel")
    assert "rule progress: no line for" in event["message"]


def test_nothing_is_left_running(rehearsed: dict[str, Any]) -> None:
    assert rehearsed["left"] == set()


def test_the_jobs_api_asks_for_the_token(rehearsed: dict[str, Any]) -> None:
    assert 401 in rehearsed["answers"] or 403 in rehearsed["answers"]
    assert 200 in rehearsed["answers"]


def test_report_and_picture_are_there_and_say_what_was_not_shown(rehearsed: dict[str, Any]) -> None:
    for name in ("report.json", "timeline.svg", "timeline.png"):
        assert (rehearsed["folder"] / name).stat().st_size > 1000
        assert name in rehearsed["out"]
    assert "NCCL and EFA" in rehearsed["out"]
    assert rehearsed["report"]["cluster"]["token_auth"]


def events_of(report: dict[str, Any]) -> Tail:
    """The journal that the run has left."""
    run = report["runs"][0]["name"]
    tail = Tail(PROJECT / ".local" / "ray" / report["cluster"]["name"] / "fsx" / run / "events.jsonl")
    tail.read()
    return tail


def test_events_of_the_page_s_run_can_be_read_again(rehearsed: dict[str, Any]) -> None:
    tail = events_of(rehearsed["report"])
    assert tail.step == rehearsed["report"]["settings"]["steps"]
    assert os.access(tail.path, os.R_OK)
