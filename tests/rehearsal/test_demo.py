"""The demo's training, which runs beside its other steps: what it says of how the rehearsal ended."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal import demo

FAULTS = [
    {"taken_over_by": "the spare", "recovery_s": 0.4, "steps_lost": 1},
    {"taken_over_by": "a standby", "recovery_s": 2.1, "steps_lost": 0},
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(demo, "PROJECT", tmp_path)
    monkeypatch.setattr(demo, "TRAINING_LOG", tmp_path / ".local" / "training.log")
    return tmp_path


def training(monkeypatch: pytest.MonkeyPatch, script: str) -> demo.Training:
    """The training, with a shell script in the place of the rehearsal."""
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda words, **more: start(["sh", "-c", script, *words], **more))
    return demo.Training()


def test_it_says_what_the_report_says(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = project / ".local" / "rehearsal"
    report = json.dumps({"faults": FAULTS})
    run = training(monkeypatch, f"mkdir -p {out}; echo '{report}' >{out}/report.json; : >{out}/run.png; echo \"$@\"")
    assert run.wait() == (
        "node lost, the spare took over, training back in 0.4 s with 1 step done again; process lost without a spare, "
        "a standby took over, back in 2.1 s; picture .local/rehearsal/run.png"
    )
    words = demo.TRAINING_LOG.read_text().split()
    assert words[words.index("--faults") + 1] == "node,spareless"
    assert float(words[words.index("--replace-after") + 1]) > 600, "a replacement would be the next spare"
    assert words[words.index("--out") + 1] == str(out)


@pytest.mark.parametrize(("count", "words"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps")])
def test_steps_are_counted_in_english(count: int, words: str) -> None:
    assert demo._steps(count) == words


@pytest.mark.parametrize(("script", "said"), [("exit 3", "ended with exit code 3"), (":", "no picture of the run")])
def test_a_run_that_failed_is_not_told_by_an_older_report(
    project: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    out = project / ".local" / "rehearsal"
    out.mkdir(parents=True)
    (out / "report.json").write_text(json.dumps({"faults": FAULTS}))
    (out / "run.png").touch()
    with pytest.raises(demo.DemoError, match=said) as failed:
        training(monkeypatch, script).wait()
    assert str(demo.TRAINING_LOG) in str(failed.value.fix)


def test_a_demo_that_failed_ends_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run: Any = training(monkeypatch, "exec sleep 600")
    run.stop()
    assert run._process.returncode < 0
