"""The command line's messages and the table; nothing is started."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.rehearsal.job import Job
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["rehearse", "local", "--faults", "earthquake"],
            "--faults: earthquake. Expected some of worker, freeze-worker, node",
        ),
        (["rehearse", "local", "--faults", ""], "--faults: none. Expected some of"),
        (["rehearse", "local", "--interval", "2"], "--interval: 2. Expected 4 or more"),
        (["rehearse", "local", "--fault-timeout", "0"], "--fault-timeout: 0. Expected more than 0"),
        (["rehearse", "local", "--kills", "0"], "--kills: 0. Expected 1 or more"),
        (["rehearse", "local", "--kills", "3", "--web"], "--kills: 3 with --web. Expected a report as a table"),
        (["rehearse", "no-such-file.yaml"], "no-such-file.yaml: cannot be read"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dict(os.environ)
    assert main(["local", *argv]) == 2
    assert {k: v for k, v in os.environ.items() if k != leash.VARIABLE} == {
        k: v for k, v in before.items() if k != leash.VARIABLE
    }
    error = capsys.readouterr().err
    assert message in error
    assert [line.split(":")[0] for line in error.splitlines()] == ["error", "Fix"]


def test_kills_have_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "rehearse", "local", "--kills", "3", "-o", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["what"] == "--kills: 3 with -o json"


def test_an_unknown_job_is_refused_with_the_ones_there_are(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="Expected one of classify, finetune"):
        Job(name="pretrain", project=PROJECT, steps=1, interval=10, step_delay_s=0, workers="2")
