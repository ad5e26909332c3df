from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperpod_ray.ops.in_ray import reports
from hyperpod_ray.ops.in_ray import runs as reader
from tests.ops.test_ops_run_state import write_run


def test_reports_come_while_the_command_runs_and_only_where_something_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []
    clock = iter(range(0, 10**9, 30_000))

    class EndError(Exception):
        pass

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            (tmp_path / "progress.json").write_text('{"last_step": 3}')
        if len(waits) > 5:
            raise EndError

    fake = SimpleNamespace(sleep=sleep, monotonic=lambda: float(next(clock)))
    monkeypatch.setattr("hyperpod_ray.ops.in_ray.reports.time", fake)
    with pytest.raises(EndError):
        reports._report(str(tmp_path))
    assert waits[:3] == [300.0, 600.0, 600.0]
    assert capsys.readouterr().out.count(reader.MARK) == 1


def test_a_report_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, "long", monkeypatch, steps=500, slope=0.001)
    found = reader.read(str(tmp_path / "long"))
    short = reports.shortened(found)
    assert len(json.dumps(short)) < 12_000
    assert short["history"]["last"] == found["history"]["last"], "the newest step"
    assert short["history"]["seconds"] == found["history"]["seconds"]
    assert short["checkpoints"][0] == found["checkpoints"][0]
