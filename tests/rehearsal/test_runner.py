"""The moment of a fault: between two checkpoints, and when all is there that it needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.faults import Fault, Spareless, faults_named
from hyperpod_ray_sandbox.rehearsal.job import Job
from hyperpod_ray_sandbox.rehearsal.loopback_run import Scene
from hyperpod_ray_sandbox.rehearsal.options import Options
from hyperpod_ray_sandbox.rehearsal.runner import Rehearsal
from hyperpod_ray_training.history import Tail

PROJECT = Path(__file__).resolve().parents[2]


def _scene() -> Any:
    return Scene.__new__(Scene)


class Run:
    """A run whose events are written by the test, and a scene that looks at them."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder
        self.tail = Tail(folder / "run" / "events.jsonl")
        self.pods = [SimpleNamespace(name=name, ip=name, alive=True, frozen=False) for name in "abc"]
        self.scene = _scene()
        self.scene.options = Options(faults=names, interval=10, spares=1)
        self.scene.size = self.scene.nodes = 2
        self.scene.replacement = SimpleNamespace(complete=True)
        self.scene.watcher = SimpleNamespace(nodes={pod.ip: "ALIVE" for pod in self.pods})
        self.scene.cluster = SimpleNamespace(
            fsx=folder, state=SimpleNamespace(pods=self.pods), alive_pods=self._alive, training_pods=self._alive
        )
        self.scene.cluster.state.backend = ""
        self.scene.tails = {"run": self.tail}
        self.scene.until = self._until
        self.turns: list[Any] = []
        self.rehearsal = Rehearsal(environment="local", scene=self.scene)
        self.job = Job(name="finetune", project=PROJECT, steps=50, interval=10, step_delay_s=0.1, workers="2")
        (folder / "run").mkdir(parents=True)

    def _alive(self) -> list[Any]:
        return [pod for pod in self.pods if pod.alive]

    def writes(self, **event: Any) -> None:
        with (self.folder / "run" / "events.jsonl").open("a") as file:
            file.write(json.dumps({"t": 1.0, **event}) + "\n")
        self.tail.read()

    def trains(self, step: int, *, saved: int, standbys: int, warm: int = 1) -> None:
        self.writes(kind="save", step=saved)
        self.writes(kind="step", step=step, loss=1.0, world=2)
        self.writes(kind="spare", standbys=standbys, warm_spares=warm)

    @property
    def held_after(self) -> int | None:
        """Steps after which the ranks wait; None: nothing holds them."""
        file = self.folder / "run" / "faults" / "hold"
        return int(file.read_text()) if file.exists() else None

    @property
    def held(self) -> bool:
        return self.held_after == 0

    def _until(self, run: str, job: Any, check: Any, *, doing: str) -> bool:
        """What the scene does, with what the test does in each turn; the last turn must be the moment."""
        for turn in self.turns:
            assert not check(self.tail)
            turn()
        assert check(self.tail)
        return False

    def settle(self, fault: Fault, *turns: Any) -> None:
        self.turns = list(turns)
        self.rehearsal._until_settled("run", self.job, [fault], after=0.0)
        assert not self.held, "training continues before the fault"


def test_ranks_wait_in_their_step_for_what_still_imports_and_train_on_before_the_fault(tmp_path: Path) -> None:
    run, (fault,) = Run(tmp_path, "node"), faults_named(["node"])
    run.writes(kind="generation", gen=0, ranks={}, world=2)
    seen: list[bool] = []

    def too_early() -> None:
        seen.append(run.held)
        run.trains(16, saved=10, standbys=2)

    def standby() -> None:
        seen.append(run.held)
        run.trains(23, saved=20, standbys=3, warm=0)  # a step too far: the ranks saw the file late

    def warm() -> None:
        seen.append(run.held)
        run.trains(23, saved=20, standbys=3)

    run.settle(fault, too_early, standby, warm)
    assert seen == [False, True, True]


def test_without_a_coordinator_and_before_an_agent_that_ends_jobs_no_rank_waits(tmp_path: Path) -> None:
    for folder, names, generation in (("no", ["node"], False), ("agent", ["node", "hung-job"], True)):
        run = Run(tmp_path / folder, *names)
        if generation:
            run.writes(kind="generation", gen=0, ranks={}, world=2)
        run.trains(16, saved=10, standbys=2, warm=0)
        seen: list[bool] = []

        def complete(run: Run = run, seen: list[bool] = seen) -> None:
            seen.append(run.held)
            run.trains(16, saved=10, standbys=3)

        run.settle(faults_named(["node"])[0], complete)
        assert seen == [False]


def test_a_run_does_not_end_before_its_faults(tmp_path: Path) -> None:
    run, faults = Run(tmp_path, "node", "drain"), faults_named(["node", "drain"])
    drains = int(run.scene.options.drain_s / run.scene.options.step_delay_s)
    run.job = replace(run.job, steps=50 + drains)
    run.writes(kind="generation", gen=0, ranks={}, world=2)
    run.trains(39, saved=31, standbys=3)
    held_after: list[int | None] = []

    def too_late() -> None:
        held_after.append(run.held_after)
        run.trains(40, saved=40, standbys=3)  # beside a checkpoint, but no other one comes

    run.turns = [too_late]
    run.rehearsal._until_settled("run", run.job, faults, after=2.0)
    assert held_after == [run.held_after] == [40]
    run.rehearsal._hold_before_end("run", run.job, faults[1:])
    assert run.held_after == 45
    run.rehearsal._hold_before_end("run", run.job, [])
    assert run.held_after is None


def test_a_rank_that_waits_is_let_go_where_it_shall_break_from_inside(tmp_path: Path) -> None:
    run = Run(tmp_path, "hang")
    run.scene.under_way = "run", run.job
    run.job.hold(run.scene.cluster, run="run", after=30)

    def obeys() -> None:
        assert run.held_after is None
        run.writes(kind="fault", t=4e9)

    run.turns = [obeys]
    assert run.scene.arm("hang", rank=1).kind == "fault"
    assert (tmp_path / "run" / "faults" / "hang-rank-1").exists()


@pytest.mark.parametrize(("step", "saved"), [(11, 10), (13, 10), (19, 10), (10, 10)])
def test_a_fault_is_not_beside_a_checkpoint(tmp_path: Path, step: int, saved: int) -> None:
    run, (fault,) = Run(tmp_path, "node"), faults_named(["node"])
    run.trains(step, saved=saved, standbys=3)
    run.settle(fault, lambda: run.trains(16, saved=10, standbys=3))


@pytest.mark.parametrize("gone", [{"alive": False}, {"frozen": True}])
def test_a_loss_without_a_spare_waits_for_no_spare_and_no_replacement(tmp_path: Path, gone: dict[str, bool]) -> None:
    run = Run(tmp_path, "node", "spareless")
    run.writes(kind="generation", gen=0, ranks={}, world=2)
    run.trains(16, saved=10, standbys=1, warm=0)
    vars(run.pods[2]).update(gone)
    run.scene.watcher.nodes["c"] = "DEAD"
    run.scene.replacement.complete = False

    def standby() -> None:
        run.trains(16, saved=10, standbys=2, warm=0)

    run.settle(Spareless(), standby)


def test_spares_that_are_there_are_lost_first_and_missed_before_the_process(tmp_path: Path) -> None:
    run, killed = Run(tmp_path, "spareless"), []
    run.trains(16, saved=10, standbys=3, warm=1)
    run.scene.under_way = "run", run.job
    run.scene.training_pods = lambda: run.pods[:2]
    run.scene.cluster.kill = lambda pod: killed.append(pod.name)
    run.scene.kill_worker = lambda pod: killed.append(f"process of {pod.name}")
    run.turns = [lambda: run.trains(16, saved=10, standbys=2, warm=0)]
    _, target = Spareless().inject(run.scene)
    assert killed == ["c", "process of a"]
    assert target.endswith("and every spare before it")
    run.pods[2].alive = False
    run.turns, killed[:] = [], []
    assert Spareless().inject(run.scene)[1] == "a training process on a"
    assert killed == ["process of a"]
