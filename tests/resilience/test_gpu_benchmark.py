"""What is measured on a GPU: the command, its exit codes, and the same lines on a CPU."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu.__main__ import LIMITS_S, MISSED, NO_GPU, check_of, main, table
from benchmarks.gpu.copies import whole_period

PROJECT = Path(__file__).resolve().parents[2]


def test_without_a_gpu_nothing_is_run_and_said_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == NO_GPU == 4
    assert capsys.readouterr().out == "no GPU: not run\n"


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "copies,everything"])
    assert ended.value.code == 2
    assert "--only: everything. Expected some of readers, groups" in capsys.readouterr().err


def test_each_part_measures() -> None:
    assert all(callable(importlib.import_module(f"benchmarks.gpu.{part}").measure) for part in LIMITS_S)


def test_the_table_shows_rows_and_what_is_missed() -> None:
    checks = [check_of("overhead", "2 %", "<= 3 %", met=True), check_of("load", "0.4", ">= 0.5", met=False)]
    parts = {"copies": {"seconds": 3, "rows": [{"state": "1 GB", "ranks": 1}], "checks": checks}}
    lines = table({"card": {"name": "H100"}, "parts": parts}).splitlines()
    assert lines[0] == "name H100"
    assert "| 1 GB | 1 |" in lines
    assert lines[-2:] == ["met    overhead: 2 % (bar: <= 3 %)", "MISSED load: 0.4 (bar: >= 0.5)"]


def test_overhead_is_of_a_whole_period_from_one_copy_to_the_next() -> None:
    """Eight steps of eighteen hold one copy or none, whatever copies cost."""
    memory = SimpleNamespace(due=lambda number: number < 8 or number % 18 == 0)

    def timed_step(number: int) -> float:
        return 1.5 if memory.due(number) else 1.0

    period, copies = whole_period(memory, timed_step)
    assert (len(period), sum(period), copies) == (18, 18.5, 17)


@pytest.mark.slow
def test_a_killed_run_and_struck_ranks_on_a_cpu(tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    words = ["--device", "cpu", "--small", "--only", "groups,losses,faults", "--json", str(figures)]
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *words],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert run.returncode in {0, MISSED}, run.stderr[-4000:]
    parts = json.loads(figures.read_text())["parts"]
    missed = [check for part in parts.values() for check in part["checks"] if not check["met"]]
    assert not [check for check in missed if "losses" in check["check"] or "end" in check["check"]], run.stderr[-4000:]
    assert [row["done again"] >= 1 for row in parts["faults"]["rows"]] == [True] * 3


IMPORTS = """
import importlib, importlib.metadata, pathlib, sys
for part in pathlib.Path("benchmarks/gpu").glob("*.py"):
    importlib.import_module(f"benchmarks.gpu.{part.stem}")
import ray.train, transformers
from jobs.finetune.train import ByteModel
from hyperpod_ray.ops.acceptance import node_probe
from hyperpod_ray.planner import architecture, memory, speed
from hyperpod_ray_training.spares import coordinator, loop, memory
names = importlib.metadata.packages_distributions()
print(*{name for module in list(sys.modules) for name in names.get(module.partition(".")[0], [])})
"""


@pytest.mark.slow
def test_the_lock_of_the_image_has_the_packages_for_a_machine_without_a_network() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=PROJECT, capture_output=True, text=True, check=True)
    lock = (PROJECT / "hyperpod_ray/image/requirements-cu130-transformers.txt").read_text()
    locked = {line.partition("==")[0].partition("[")[0].lower() for line in lock.splitlines() if "==" in line}
    imported = {name.lower().replace("_", "-") for name in done.stdout.split()}
    ours = {name for name in imported if name.startswith("hyperpod-ray")}
    optional = {"colorama", "pillow"}  # what others import where it is there
    assert {"torch", "ray", "transformers", "pydantic"} <= imported
    assert imported - locked - ours - optional == set()
