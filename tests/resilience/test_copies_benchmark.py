"""The benchmark of copies: its ratios, a size that does not fit, a whole run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import copies
from hyperpod_ray_training.spares import host_memory

PROJECT = Path(__file__).resolve().parents[2]


def measured(**changed: Any) -> dict[str, Any]:
    seconds = {"take_s": 2.0, "exchange_s": 4.0, "socket_s": 3.0, "memcpy_s": 1.0, "load_s": 2.0, "load_new_s": 5.0}
    seconds |= {"new_memory_s": 4.0, "memcpy_processor_s": 1.0}
    usual = {name: [value] for name, value in seconds.items()}
    return usual | {"cpu_s": [1.0], "state_bytes": 2 * 10**9, "copies_bytes": 14 * 10**9} | changed


def test_ratios_are_of_the_slowest_rank() -> None:
    row = copies.ratios([measured(), measured(take_s=[3.0], socket_s=[2.0], copies_bytes=10 * 10**9)])
    assert (row["stall"], row["exchange"]) == (3.0, 0.75)
    assert (row["load"], row["load_new"], row["new_memory"]) == (0.5, 0.2, 0.25)
    assert (row["memory"], row["cpu_s_per_gb"]) == (7.0, 0.5)
    assert (
        copies.line_of({"gb": 2.0, "ranks": 2, **row}) == "| 2 GB | 2 | 3.00 | 0.75 | 0.50 | 0.20 | 0.25 | 7.0 | 0.50 |"
    )


def test_a_size_that_does_not_fit_is_not_run_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(host_memory, "memory_free", lambda: (64 << 30, 10 * 10**9))
    assert copies.main(["--gb", "1", "--ranks", "2", "--json", str(tmp_path / "rows")]) == 3
    row = json.loads((tmp_path / "rows").read_text())[0]
    assert row["not_run"] == "not run: 15 GB needed, 7 GB to be had"
    line = capsys.readouterr().out.splitlines()[-1]
    assert "not run" in line
    assert line.count("|") == len(copies.HEADER) + 1


@pytest.mark.parametrize(("options", "reason"), [
    (["--ranks", "1"], "a copy goes to another rank"), (["--steps", "4"], "--steps: 4. Expected more than 4"),
    (["--gb", "0"], "Expected numbers above 0"), (["--gb", "much"], "invalid"),
])  # fmt: skip
def test_what_cannot_be_measured_is_refused(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        copies.main(options)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


@pytest.mark.slow
def test_two_ranks_measure_every_ratio(tmp_path: Path) -> None:
    command = [sys.executable, str(PROJECT / "benchmarks" / "copies.py"), "--gb", "0.002", "--ranks", "2"]
    rows = tmp_path / "rows"
    run = subprocess.run([*command, "--json", str(rows)], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"\| 0\.002 GB \| 2 \|( \d+\.\d+ \|){7}", run.stdout.splitlines()[-1])
    row = json.loads(rows.read_text())[0]
    assert all(row[name] > 0 for name in ("stall", "exchange", "load", "load_new", "cpu_s_per_gb"))
    assert row["memory"] >= 4  # two steps of its own and two of its neighbour's
