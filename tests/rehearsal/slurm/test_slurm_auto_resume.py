"""The stand-in for auto-resume: what it decides, on states that a real Slurm printed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.rehearsal.slurm import answers, auto_resume
from hyperpod_ray_sandbox.rehearsal.slurm.auto_resume import MOST_RESTARTS, AutoResume, Seen, decide

RECORDED = Path(__file__).parents[2] / "ops" / "slurm_outputs"
IDLE = tuple(answers.nodes((RECORDED / "scontrol-show-nodes-idle.txt").read_text()))
ACTION = tuple(answers.nodes((RECORDED / "scontrol-show-nodes-action.txt").read_text()))
BOTH = ("n1", "n2")


@pytest.mark.parametrize(
    ("code", "restarts", "has", "nodes", "do", "node"),
    [
        (0, 0, BOTH, IDLE, "end", ""),
        (1, 0, BOTH, IDLE, "start", ""),  # a process died, all nodes live
        (1, 0, BOTH, ACTION, "wait", ""),  # n2 is down and still the job's
        (1, 0, ("n1",), ACTION, "wait", ""),  # Slurm has taken n2 away, its replacement is not there yet
        (1, 0, ("n1",), IDLE, "expand", "n2"),  # it is
        (1, 0, (), IDLE, "expand", "n1"),
        (1, MOST_RESTARTS, BOTH, IDLE, "end", ""),
    ],
)
def test_what_it_does_after_a_step(  # noqa: PLR0917
    code: int, restarts: int, has: tuple[str, ...], nodes: tuple[answers.Node, ...], do: str, node: str
) -> None:
    decision = decide(Seen(code=code, restarts=restarts, wanted=BOTH, has=has, nodes=nodes))
    assert (decision.do, decision.node) == (do, node)


def test_without_the_option_it_is_srun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REHEARSAL_SLURM_PROGRAMS", "srun=/usr/bin/srun,scontrol=/usr/bin/scontrol")
    became = list[tuple[str, list[str]]]()
    auto_resume.main(["--nodes=2", "true"], become=lambda path, arguments: became.append((path, arguments)))
    assert became == [("/usr/bin/srun", ["srun", "--nodes=2", "true"])]


def program(folder: Path, name: str, body: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_lost_node_is_awaited_and_taken_in_before_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With programs that answer as Slurm did: two nodes, then one, then two again."""
    monkeypatch.setattr(auto_resume, "_SETTLE_S", 0.0)
    monkeypatch.setattr(auto_resume, "_POLL_S", 0.0)
    running, down = (f"{RECORDED}/scontrol-show-job-{name}.txt" for name in ("running", "node-down"))
    show = f"""
echo "$@" >> {tmp_path}/asked
case "$1 $2" in
"show job") if [ -e {tmp_path}/expanded ] || [ ! -e {tmp_path}/failed ]; then cat {running}
    else cat {down}; fi;;
"show nodes") if [ -e {tmp_path}/looked ]; then cat {RECORDED}/scontrol-show-nodes-idle.txt
    else touch {tmp_path}/looked; cat {RECORDED}/scontrol-show-nodes-action.txt; fi;;
"show hostnames") if [ "$3" = "n[1-2]" ]; then printf 'n1\\nn2\\n'; else echo "$3"; fi;;
esac"""
    srun = f"echo x >> {tmp_path}/starts; [ -e {tmp_path}/expanded ] || {{ touch {tmp_path}/failed; exit 1; }}"
    salloc = f'env | grep -c SLURM_JOB_NODELIST > {tmp_path}/seen; echo "$@" > {tmp_path}/expanded'
    programs = {
        name: program(tmp_path, name, body) for name, body in {"srun": srun, "scontrol": show, "salloc": salloc}.items()
    }
    environ = {**os.environ, "SLURM_JOB_ID": "1", "SLURM_CONF": "/x", "SLURM_JOB_NODELIST": "n[1-2]"}
    assert AutoResume(["start.sh"], programs=programs, environ=environ).run() == 0
    assert (tmp_path / "starts").read_text().split() == ["x", "x"]
    assert "--nodelist=n2" in (tmp_path / "expanded").read_text()
    assert "--dependency=expand:1" in (tmp_path / "expanded").read_text()
    assert (tmp_path / "seen").read_text().strip() == "0", "the batch script's variables would be options of salloc"
    assert "update jobid=1 NumNodes=ALL" in (tmp_path / "asked").read_text()
    assert "stand-in" in capfd.readouterr().err
