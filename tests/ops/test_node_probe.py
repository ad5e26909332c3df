from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_ray.ops.acceptance import node_probe, verdict
from hyperpod_ray.ops.acceptance.verdict import Expected
from tests.ops.world import ROOT


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7, 8, 9, 64])
def test_in_a_round_each_node_has_one_partner_and_no_pair_comes_twice(nodes: int) -> None:
    table = node_probe.rounds(nodes)
    assert len(table) <= node_probe.ROUNDS
    for pairs in table:
        named = list(itertools.chain(*pairs))
        assert len(named) == len(set(named)) >= nodes - 1 - nodes % 2
        assert all(0 <= one < other < nodes for one, other in pairs)
    met = [pair for pairs in table for pair in pairs]
    assert len(met) == len(set(met))
    if nodes <= 8:
        assert len(met) == nodes * (nodes - 1) // 2
    if nodes > 1:
        assert set(itertools.chain(*met)) == set(range(nodes))


SMI = """#!/bin/sh
case "$1" in
--query-gpu=*) printf '0, 3, 0, Not Active, 41\\n1, 0, 7, Active, [N/A]\\n' ;;
--query-remapped-rows=*) printf 'No, No\\n1, 0\\n' ;;
*) exit 2 ;;
esac
"""


def test_counters_are_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    first, second = node_probe.health()
    assert (first["uncorrected"], first["corrected"], first["slowed"], first["rows_pending"]) == (0, 3, 0, 0)
    assert (second["uncorrected_ever"], second["slowed"], second["temperature"], second["rows_pending"]) == (
        7,
        1,
        None,
        1,
    )
    program.write_text("#!/bin/sh\necho 'Unable to determine the device handle for GPU 0' >&2\nexit 15\n")
    (broken,) = node_probe.health()
    assert "device handle" in broken["error"]
    program.unlink()
    assert node_probe.health() == []


def test_a_python_without_torch_says_so(tmp_path: Path) -> None:
    """The project's own environment has none."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", node_probe.__file__, "count"], capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout.removeprefix(node_probe.MARK))
    assert "torch" in answer["error"]


def test_an_agent_says_what_its_processes_could_not_do(tmp_path: Path) -> None:
    options = node_probe.parser().parse_args(["agent", "--ranks", "1", "--limit", "60"])
    assert isinstance(options, argparse.Namespace)
    done = subprocess.run(
        [sys.executable, "-I", "-S", node_probe.__file__, "agent", "--limit", "60"],
        capture_output=True,
        text=True,
        check=True,
    )
    report = verdict.judge(
        {"answers": [json.loads(done.stdout.removeprefix(node_probe.MARK))], "busy": [], "cuda": False, "ranks": 1},
        Expected(),
    )
    assert any("No module named 'torch'" in finding.text for finding in report.faults)


pytestmark = pytest.mark.slow


PYTHON = ROOT / ".venv-rehearsal" / "bin" / "python"


SPOILED = """
import argparse, sys, types
sys.path.insert(0, sys.argv[1])
import torch
import node_probe
options = node_probe.parser().parse_args(["rank", "--seconds", "1"])
rank = node_probe.Rank(options)
lines = []
rank.emit = lambda phase, **figures: lines.append(figures)
product, count = torch.Tensor.__matmul__, 0
def spoiled(left, right):
    global count
    count += 1
    answer = product(left, right)
    if count > 1 and SPOIL:
        answer[7, 11] += 1e-3
    return answer
torch.Tensor.__matmul__ = spoiled
full = torch.full
def flipped(*shape, **more):
    block = full(*shape, **more)
    if SPOIL:
        block[12345] ^= 4
    return block
torch.full = flipped
rank.compute()
rank.memory()
print([line["wrong"] for line in lines], lines[0]["products"])
"""


@pytest.mark.parametrize("spoil", [False, True])
def test_a_wrong_product_and_a_flipped_bit_are_counted(spoil: bool) -> None:
    """An arithmetic unit that errs in one element, and a word of memory that loses a bit in each block."""
    script = f"SPOIL = {spoil}\n{SPOILED}"
    folder = str(Path(node_probe.__file__).parent)
    done = subprocess.run([str(PYTHON), "-c", script, folder], capture_output=True, text=True, check=True, timeout=300)
    wrong, _, products = done.stdout.strip().rpartition(" ")
    assert wrong == (f"[{products}, 1]" if spoil else "[0, 0]")
