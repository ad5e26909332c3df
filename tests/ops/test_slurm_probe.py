from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.acceptance import slurm_probe
from tests.ops.ops_probes_helpers import Json

SLURM: Json = {
    "hosts": ["ip-1", "ip-2", "ip-3"], "python": "/fsx/venv/bin/python", "probe": "/fsx/probe.py", "gpus": 8,
    "seconds": 5, "storage": "/fsx/x", "storage_mib": 64, "limit": 30,
}  # fmt: skip


def srun(monkeypatch: pytest.MonkeyPatch, *steps: tuple[list[Json], str]) -> list[tuple[list[str], Json]]:
    """Each step of Slurm, with what its tasks print and the errors; returns what was started."""
    started: list[tuple[list[str], Json]] = []
    remaining = list(steps)

    def run(command: list[str], **options: Any) -> Any:
        started.append((command, options))
        lines, err = remaining.pop(0)
        out = "noise\n" + "".join(f"{slurm_probe.MARK}{json.dumps(line)}\n" for line in lines)
        return SimpleNamespace(returncode=1, stdout=out, stderr=err)

    monkeypatch.setattr(subprocess, "run", run)
    return started


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_slurm_measures_the_nodes_that_have_all_their_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """https://slurm.schedmd.com/srun.html"""
    started = srun(
        monkeypatch,
        ([{"host": "ip-2", "devices": 8}, {"host": "ip-1", "devices": 8}], "srun: one is taken"),
        ([{"host": "ip-1", "tflops": 1.0}], "slurmstepd: error: task 1 was killed"),
    )
    answer = slurm_probe.run(SLURM)
    assert answer["busy"] == [{"host": "ip-3"}], "what Slurm did not give at once has work"
    assert answer["answers"] == [
        {"host": "ip-1", "tflops": 1.0},
        {"host": "ip-2", "error": "slurmstepd: error: task 1 was killed"},
    ]
    assert (answer["cuda"], answer["ranks"]) == (True, 8)
    (count, counted), (measure, measured) = started
    assert (option(count, "--nodelist"), option(measure, "--nodelist")) == ("ip-1,ip-2,ip-3", "ip-1,ip-2")
    assert (option(count, "--nodes"), option(measure, "--nodes")) == ("3", "2")
    for command in (count, measure):
        assert "--immediate=60" in command
        assert "--gpus-per-node=8" in command
        assert option(command, "--ntasks-per-node") == "1"
        assert {"--exclusive", "--kill-on-bad-exit=0"} <= set(command), "one node's failure ends no other's test"
    assert count[-3:] == ["/fsx/venv/bin/python", "/fsx/probe.py", "count"]
    assert ("--time=4" in count, "--time=2" in measure) == (True, True)
    assert counted["timeout"] > 120
    assert measured["timeout"] > 30
    words = measure[measure.index("/fsx/probe.py") + 1 :]
    assert dict(zip(words[::2], words[1::2], strict=True)) == {
        "--ranks": "8", "--seconds": "5", "--storage": "/fsx/x", "--storage-mib": "64", "--limit": "30",
    }  # fmt: skip


def test_nodes_of_slurm_with_fewer_gpus_or_an_error_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[Json] = [
        {"host": "ip-1", "devices": 8},
        {"host": "ip-2", "devices": 7},
        {"host": "ip-3", "error": "no driver"},
    ]
    started = srun(monkeypatch, (counts, ""), ([{"host": "ip-1", "tflops": 1.0}], ""))
    answer = slurm_probe.run({**SLURM, "gpus": 0})
    assert answer["answers"] == [
        {"host": "ip-3", "error": "no driver"},
        {"host": "ip-2", "error": "7 of 8 GPUs answer"},
        {"host": "ip-1", "tflops": 1.0},
    ]
    assert answer["busy"] == []
    assert not [word for command, _ in started for word in command if word.startswith("--gpus")]


def test_without_a_node_slurms_own_words_are_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: list[Json] = []
    for err, error in (
        ("srun: x\nsrun: error: Unable to allocate\n", "srun: error: Unable to allocate"),
        ("", "exit code 1"),
    ):
        srun(monkeypatch, (nothing, err))
        assert slurm_probe.run(SLURM) == {"answers": [], "busy": [], "cuda": False, "ranks": 1, "error": error}
    count: Json = {"host": "ip-1", "devices": 0}
    measured: Json = {"host": "ip-1"}
    srun(monkeypatch, ([count], ""), ([measured], ""))
    cpus = slurm_probe.run({**SLURM, "hosts": ["ip-1"]})
    assert (cpus["cuda"], cpus["ranks"], cpus["answers"]) == (False, 1, [{"host": "ip-1"}])
