"""How a fault's job is submitted and which node it takes, on a Slurm that only notes what it is asked."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli import local
from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.rehearsal.options import PROJECT
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.slurm import commands, rehearse
from hyperpod_ray_sandbox.rehearsal.slurm.conf import Layout
from hyperpod_ray_sandbox.rehearsal.slurm.rehearse import (
    FAULTS,
    FAULTS_OF,
    KINDS,
    LAUNCHERS,
    REPAIRED,
    REQUEUED,
    SPARED,
    Kind,
    Options,
    Scene,
)
from hyperpod_ray_training.history import Event

LAYOUT = {"host": "h", "user": "u", "controller_port": 1, "node_ports": (2, 3, 4, 5)}


class Slurm:
    """Every job runs on the nodes that it asked for until it is cancelled; a lost node leaves it."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(folder=folder, **LAYOUT)  # type: ignore[arg-type]
        self.layout.shared.mkdir()
        self.asked: list[tuple[str, ...]] = []
        self.env: dict[str, str] = {}
        self.killed: list[str] = []
        self.held: list[str] = []

    def ask(self, program: str, *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
        self.asked.append((program, *arguments))
        if program == "sbatch":
            self.env = env or {}
            count = next(int(word.partition("=")[2]) for word in arguments if word.startswith("--nodes="))
            self.held = [f"n{number}" for number in range(1, count + 1)]
        return f"{sum(words[0] == 'sbatch' for words in self.asked)}\n"

    def job(self, job: str) -> dict[str, str]:
        cancelled = ("scancel", job) in self.asked
        return {"JobState": "CANCELLED" if cancelled else "RUNNING", "BatchHost": "n1", "Restarts": "0"}

    def nodes_of(self, job: str) -> list[str]:
        return [name for name in self.held if name not in self.killed]

    def kill_node(self, name: str) -> None:
        self.killed.append(name)

    def submitted(self) -> list[tuple[str, ...]]:
        return [words for words in self.asked if words[0] == "sbatch"]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    monkeypatch.setattr(rehearse, "found", lambda program: f"/usr/bin/{program}")
    return Slurm(tmp_path)


def scene(slurm: Slurm, *, launcher: str = "ray", notes: list[str] | None = None) -> Scene:
    made = Scene(
        slurm, options=Options(launcher=launcher), project=PROJECT,  # type: ignore[arg-type]
        note=(notes if notes is not None else []).append,
    )  # fmt: skip
    made.tail.path.parent.mkdir(parents=True)
    return made


def wrote(made: Scene, *events: Event) -> None:
    with made.tail.path.open("a") as stream:
        for event in events:
            step = {} if event.step is None else {"step": event.step}
            stream.write(json.dumps({"t": event.t, "kind": event.kind, **step, **event.values}) + "\n")


def event(t: float, kind: str, step: int | None = None, **values: Any) -> Event:
    return Event(t=t, kind=kind, step=step, values=values)


@pytest.mark.parametrize(
    ("kind", "options", "nodes"),
    [
        (REPAIRED, {"--no-kill"}, 2),
        (REQUEUED, set(), 2),
        (SPARED, {"--no-kill", "--export=ALL,RAY_SURVIVES=1"}, 3),
    ],
)
def test_each_kind_of_job_is_the_line_that_its_fault_needs(
    slurm: Slurm, kind: Kind, options: set[str], nodes: int
) -> None:
    made = scene(slurm)
    made.submit(kind)
    (line,) = slurm.submitted()
    before, after = line[: line.index("jobs/slurm/ray.sbatch")], line[line.index("jobs/slurm/ray.sbatch") :]
    assert {word for word in before if word.startswith(("--no-kill", "--export"))} == options
    assert f"--nodes={nodes}" in before
    assert after[after.index("--workers") + 1] == "2", "the spare is beyond them"
    assert ("--spares" in after) == (kind is SPARED)
    assert slurm.env["RAY_worker_niceness"] == "0"


def test_a_lost_batch_host_and_a_spare_have_a_job_of_their_own() -> None:
    assert {fault: KINDS.get(fault, REPAIRED) for fault in rehearse.FAULTS} == {
        "process": REPAIRED, "node": REPAIRED, "controller": REPAIRED, "batch-host": REQUEUED, "spare": SPARED,
    }  # fmt: skip


def test_a_spare_has_to_be_warm_before_a_node_is_lost(slurm: Slurm) -> None:
    made = scene(slurm)
    made.submit(SPARED)
    now = made.submitted_t
    wrote(
        made, event(now - 5, "spare", warm_spares=1), event(now + 1, "start"), event(now + 2, "save", 10),
        event(now + 3, "step", 15),
    )  # fmt: skip
    assert not made.settled(), "that spare was an earlier job's"
    wrote(made, event(now + 4, "spare", warm_spares=1))
    assert made.settled()
    made.kind = REPAIRED
    made.tail.events = [one for one in made.tail.events if "warm_spares" not in one.values]
    assert made.settled(), "a job without spares waits for none"


def test_a_spares_fault_takes_a_rank_and_the_job_goes_on_without_its_node(slurm: Slurm) -> None:
    notes = list[str]()
    made = scene(slurm, notes=notes)
    made.submit(SPARED)
    now = made.submitted_t
    ranks = {"0": {"node": "127.3.3.11"}, "1": {"node": "127.3.3.12"}}
    wrote(
        made, event(now + 1, "start"), event(now + 1, "generation", ranks=ranks, warm_spares=1),
        event(now + 2, "save", 10), event(now + 3, "step", 15, loss=1.0),
    )  # fmt: skip

    def kill(name: str) -> None:
        slurm.killed.append(name)
        wrote(made, event(time.time(), "restore", 15, path="memory"))
        wrote(made, event(time.time(), "step", 16, loss=1.0))

    slurm.kill_node = kill  # type: ignore[method-assign]
    made.replacement.tick = lambda: None  # type: ignore[method-assign]
    found = made.suffer("spare")
    assert slurm.killed == ["n2"]
    assert not made.replacement.left_to_slurm, "its health check sees it"
    assert (found.nodes_before, found.nodes_after) == (("n1", "n2", "n3"), ("n1", "n3"))
    assert (found.by, found.report.steps_lost, found.report.checkpoint) == ("spare", 0, "memory")
    assert made.kind is None, "the next fault needs a job with a new spare"
    assert len(slurm.submitted()) == 1


def test_the_commands_faults_are_the_rehearsals() -> None:
    assert local.SLURM_FAULTS == FAULTS
    assert Options().faults == FAULTS_OF["torchrun"] == ("process", "node", "controller", "batch-host")
    assert FAULTS_OF["ray"] == FAULTS


@pytest.mark.parametrize("launcher", sorted(LAUNCHERS))
def test_without_the_option_a_launcher_loses_all_that_it_can(launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Options]()

    def noted(*, options: Options, **_: object) -> bool:
        asked.append(options)
        return True

    monkeypatch.setattr(commands, "slurm", noted)
    assert main(["local", "slurm", "--launcher", launcher]) == 0
    assert asked[0].faults == FAULTS_OF[launcher]


def test_each_launcher_has_its_script() -> None:
    """The option's values are those of the rehearsal; a name that is none is refused without the command too."""
    for launcher, script in LAUNCHERS.items():
        assert Options(launcher=launcher)
        assert (PROJECT / script).exists()
    with pytest.raises(LocalError, match="--launcher: mpi"):
        Options(launcher="mpi")
