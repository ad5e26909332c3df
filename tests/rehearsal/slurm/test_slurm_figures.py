"""The report of a rehearsal on Slurm, from made-up events."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.rehearsal.report import FaultReport, RunReport
from hyperpod_ray_sandbox.rehearsal.slurm import commands, install
from hyperpod_ray_sandbox.rehearsal.slurm.figures import (
    BEFORE_S,
    Recovery,
    SlurmReport,
    how,
    needed_steps,
    rank_to_lose,
    rows,
    verdict,
    warm_spares,
)
from hyperpod_ray_sandbox.rehearsal.slurm.rehearse import FAULTS
from hyperpod_ray_training.history import Event

FAULT = FaultReport(
    fault="node", run="r", target="n2", t=1.0, step=14, detected_after_s=1.0, detected_by="x", resumed_after_s=20.0,
    recovery_s=20.0, steps_lost=4, checkpoint_step=10, checkpoint="c", interrupted=True, resubmitted=False,
    survived=True, world=2, full_size_after_s=None,
)  # fmt: skip
RUN = RunReport(
    name="r", status="COMPLETED", submissions=1, final_loss=1.0, undisturbed_loss=1.0, equal=True, steps_compared=60,
    steps_different=0, largest_difference=0.0, bound="0",
)  # fmt: skip
BACK = Recovery(report=FAULT, by="auto-resume", nodes_before=("n1", "n2"), nodes_after=("n1", "n2"), restarts=0)
REPORT = SlurmReport(
    slurm="slurm 22",
    launcher="torchrun",
    job="finetune",
    timers="tuned",
    settings={},
    faults=[BACK],
    run=RUN,
    seconds=1.0,
    machine={},
)


def test_the_time_is_printed_beside_the_one_measured_before() -> None:
    assert rows(REPORT) == [("node", "14", "20.0 s", "15.2 s", "4", "auto-resume", "n1,n2")]
    moved = replace(BACK, report=replace(FAULT, fault="batch-host"), by="requeue", nodes_after=("n2", "n3"))
    assert rows(replace(REPORT, faults=[moved], timers="default"))[0][3:] == (
        "150.1 s", "4", "requeue", "n1,n2 → n2,n3"
    )  # fmt: skip
    assert {fault for fault, _ in BEFORE_S} <= set(FAULTS)
    assert rows(replace(REPORT, launcher="ray"))[0][3] == "-", "measured with torchrun"


def test_a_table_is_shown_with_what_it_cannot_show() -> None:
    console = Console(file=io.StringIO(), width=200)
    commands.show(REPORT, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "15.2 s" in shown
    assert "survived: 60 losses are the undisturbed run's to the last bit" in shown
    assert "not shown: HyperPod's auto-resume plugin" in shown


@pytest.mark.parametrize(
    "broken",
    [
        replace(REPORT, run=replace(RUN, steps_different=1)),
        replace(REPORT, run=replace(RUN, steps_compared=0)),
        replace(REPORT, run=replace(RUN, equal=False)),
        replace(REPORT, run=replace(RUN, status="FAILED")),
        replace(REPORT, faults=[replace(BACK, report=replace(FAULT, survived=False))]),
    ],
)
def test_any_other_loss_or_end_is_no_survival(broken: SlurmReport) -> None:
    assert REPORT.survived
    assert not broken.survived
    assert verdict(broken).startswith("not survived")


@pytest.mark.parametrize(
    ("restarts", "interrupted", "started", "from_memory", "by"),
    [
        (1, True, True, False, "requeue"),
        (0, True, True, False, "auto-resume"),
        (0, True, False, False, "Ray"),
        (0, True, False, True, "spare"),
        (0, True, True, True, "auto-resume"),
        (0, False, False, False, "no pause"),
    ],
)
def test_what_brought_it_back(restarts: int, interrupted: bool, started: bool, from_memory: bool, by: str) -> None:
    assert (
        how(
            restarts_before=0, restarts_after=restarts, interrupted=interrupted, started=started,
            from_memory=from_memory,
        )
        == by
    )  # fmt: skip


def test_a_spare_counts_when_it_is_warm_and_of_this_job() -> None:
    """An earlier job of the run had one too; what the coordinator says last counts."""
    said = [Event(t=float(t), kind=kind, values={"warm_spares": n}) for t, kind, n in (
        (1, "spare", 1), (11, "generation", 0), (12, "spare", 1),
    )]  # fmt: skip
    assert warm_spares(said, since=10.0) == 1
    assert warm_spares(said[:2], since=10.0) == 0
    assert warm_spares(said[:1], since=10.0) == 0
    assert warm_spares([Event(t=13.0, kind="step", step=1)], since=0.0) == 0


@pytest.mark.parametrize(
    ("addresses", "batch_host", "lost"),
    [
        ({"0": "127.5.5.11", "1": "127.5.5.13"}, "n1", "n3"),
        ({"0": "127.5.5.12", "1": "127.5.5.11"}, "n1", "n2"),  # the spare is on n3
        ({"2": "127.5.5.12", "10": "127.5.5.13"}, "n1", "n3"),
    ],
)
def test_a_node_with_a_rank_is_lost_and_never_that_of_the_head(
    addresses: dict[str, str], batch_host: str, lost: str
) -> None:
    ranks = {rank: {"node": address, "pid": 1} for rank, address in addresses.items()}
    assert rank_to_lose(ranks, batch_host=batch_host, first_address=10) == lost


def test_a_run_has_room_for_each_fault() -> None:
    one = needed_steps(["node"], interval=10, step_delay_s=0.1, away_s=4)
    assert needed_steps(["node", "node"], interval=10, step_delay_s=0.1, away_s=4) > one
    assert needed_steps(["controller"], interval=10, step_delay_s=0.1, away_s=4) >= one + 4 / 0.1


# ---- the command ----


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--faults", "earthquake"], "--faults: earthquake. Expected of process, node"),
        (["--faults", ""], "--faults: none. Expected of process"),
        (["--faults", "node,spare"], "--faults: spare with --launcher torchrun. Expected --launcher ray"),
        (["--launcher", "mpi"], "'mpi' is not one of 'torchrun', 'ray'"),
        (["--interval", "2"], "--interval: 2. Expected 4 or more"),
        (["--fault-timeout", "0"], "--fault-timeout: 0. Expected more than 0"),
    ],
)
def test_bad_input_is_one_message(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "slurm", *argv]) == 2
    assert message in capsys.readouterr().err


def test_where_slurm_is_not_installed_one_message_has_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(install, "found", lambda program: None if program == "slurmctld" else f"/usr/sbin/{program}")
    assert main(["local", "slurm", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "Slurm is not installed: no slurmctld. Expected Debian's slurm-wlm and munge" in error
    assert install.INSTALL in error
    assert install.INSTALL in str(install.why_not())
    assert not (tmp_path / "out").exists()
