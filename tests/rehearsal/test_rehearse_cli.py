"""The command line's messages and the table; nothing is started."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import made_up
import pytest
from rich.console import Console

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.rehearsal import commands, soak
from hyperpod_ray_sandbox.rehearsal import terminal as show
from hyperpod_ray_sandbox.rehearsal.job import Job
from hyperpod_ray_sandbox.rehearsal.options import Options
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_training.history import Event

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


@pytest.mark.parametrize(("verb", "words"), [("rehearse", []), ("soak", ["--kills", "3"])])
def test_the_longest_wait_can_be_raised_as_its_message_says(
    verb: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[float]()

    def started(env: str, *, options: Options, **_: Any) -> bool:
        given.append(options.fault_timeout_s)
        return True

    monkeypatch.setattr(commands, verb, started)
    assert main(["local", "rehearse", "local", *words]) == 0
    assert main(["local", "rehearse", "local", *words, "--fault-timeout", "900"]) == 0
    assert given == [240, 900]


def test_an_unknown_job_is_refused_with_the_ones_there_are(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="Expected one of classify, finetune"):
        Job(name="pretrain", project=PROJECT, steps=1, interval=10, step_delay_s=0, workers="2")


def test_the_table_and_the_verdict_say_what_happened(tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    report = made_up.report(tmp_path)
    show.summary(report, log=lambda item: console.print(item, markup=False, highlight=False))
    text = out.getvalue()
    assert "9.0 s" in text
    assert "equal to the undisturbed run's to the last bit" in " ".join(text.split())
    assert "NCCL and EFA" in text


def test_without_a_terminal_there_are_plain_lines() -> None:
    out = io.StringIO()
    with show.Show(Console(file=out, width=200)) as shown:
        shown.line(1.0, "cluster up")
        shown.progress(run="r", step=30, steps=60, loss=1.5, doing="finishing")
    assert "\x1b" not in out.getvalue()
    assert "cluster up" in out.getvalue()
    assert "step 30 of 60" in out.getvalue()


def test_a_seed_plans_the_same_kills_and_another_seed_others() -> None:
    one, same, other = (soak.plan(kills=60, seed=seed, interval=10, size=2) for seed in (7, 7, 8))
    assert one == same
    assert one != other
    assert {kill.kind for kill in one} == set(soak.KINDS), "the middle of a checkpoint included"
    assert all(1 <= kill.steps <= 15 and kill.rank in (0, 1) for kill in one)


def test_a_lost_checkpoint_is_seen() -> None:
    kill = soak.plan(kills=1, seed=0, interval=10, size=2)[0]
    before = made_up.work(t=100, first=1, last=26)
    after = made_up.work(t=130, first=11, last=20)
    bad = soak.judge(kill, t=111, events=before + made_up.back(t=120, step=10) + after)
    assert (bad.saved_step, bad.restored_step, bad.lost_checkpoint) == (20, 10, True)
    good = soak.judge(
        kill, t=111, events=before + made_up.back(t=120, step=20) + made_up.work(t=130, first=21, last=30)
    )
    assert not good.lost_checkpoint
    nothing = soak.judge(kill, t=101, events=[*made_up.work(t=100, first=1, last=3), Event(t=110, kind="start")])
    assert not nothing.lost_checkpoint


def test_a_soak_with_spares_is_long_enough_to_wait_for_each() -> None:
    plain, one, three = (Options(spares=spares) for spares in (0, 1, 3))
    assert soak.length(50, plain) == soak.length(50, one), "a standby is waited for as a spare is"
    assert soak.length(50, one) == 10 * 53 + 50 * 80
    assert 10 * 53 < soak.length(50, three) < soak.length(50, one)
