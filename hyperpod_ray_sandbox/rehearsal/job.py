"""The job a rehearsal trains: how it is submitted, and how its undisturbed twin runs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.jobs_api import submit
from hyperpod_ray_training.faults import FOLDER, HOLD
from hyperpod_ray_training.history import Event, Tail

DRIVER, SUPERVISOR = "train.py", "hyperpod_ray_training.supervise"
STANDBY = "driver-standby"
"""The name of the process that becomes the next driver, while it waits."""
FORKED_RANKS = Path(__file__).with_name("forked_ranks.py")
GRACE_S = 30.0
PATIENT = {"RESILIENCE_PROCESS_GROUP_TIMEOUT_S": "900"}
"""No rank of the undisturbed run is lost: one that is waited for is short of processor time."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One of the folders in `jobs/` with its arguments.

    Args:
        name: the folder's name.
        project: the project's folder.
        steps: how many steps a run has.
        interval: steps between two checkpoints.
        step_delay_s: seconds each step is slowed down by, so that a fault can hit between two checkpoints.
        workers: ranks, `N` or `MIN:MAX`.
        spares: workers that stand by.
        extra: further arguments.
        env: environment of driver and workers on top of the cluster's.
        dropout: False for a run of changing size: a mask belongs to a rank, so another size is another run.
        other_folder: a folder with a `train.py` of the same arguments, instead of `jobs/NAME`.
    """

    name: str
    project: Path
    steps: int
    interval: int
    step_delay_s: float
    workers: str
    spares: int = 0
    extra: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    dropout: bool = True
    other_folder: Path | None = None

    def __post_init__(self) -> None:
        if not _rehearsable(self.folder / DRIVER):
            scripts = filter(_rehearsable, (self.project / "jobs").glob(f"*/{DRIVER}"))
            job_names = ", ".join(sorted(script.parent.name for script in scripts)) or "none"
            raise LocalError(
                f"--job: {self.name!r} has no jobs/{self.name}/{DRIVER} with --steps",
                expected=f"one of {job_names}",
                fix="correct the name",
            )

    @property
    def folder(self) -> Path:
        """What `--working-dir` is."""
        return self.other_folder or self.project / "jobs" / self.name

    def script(self) -> list[str]:
        """What `python` runs: the script under its supervisor. A baseline has no supervisor."""
        return [DRIVER] if self.other_folder else ["-m", SUPERVISOR, DRIVER]

    def arguments(self, *, storage: Path, run: str, workers: str, delay_s: float) -> list[str]:
        """The driver's arguments."""
        out = ["--storage", str(storage), "--name", run, "--workers", workers, "--steps", str(self.steps)]
        out += ["--save-every-steps", str(self.interval)]
        if self.name != "classify":
            out += ["--step-delay-s", str(delay_s)]
            out += [] if self.dropout else ["--dropout", "0"]
        if self.spares and workers != "0":
            out += ["--spares", str(self.spares)]
        return [*out, *self.extra]

    def submit(self, cluster: Cluster, *, run: str, submission: str) -> str:
        """`ray job submit` from the project's folder; the driver off the head where the manifest has a place."""
        resource = cluster.plan.driver_resource
        return submit(
            ray=cluster.bin / "ray",
            dashboard=cluster.dashboard,
            env=cluster.client_env(),
            cwd=self.project,
            working_dir=self.folder,
            py_modules=["hyperpod_ray_training"],
            entrypoint=["python", *self.script(), *self.arguments(
                storage=cluster.fsx, run=run, workers=self.workers, delay_s=self.step_delay_s)],
            submission_id=submission,
            env_vars={"RESILIENCE_FAULT_HOOKS": "1", **self.env},
            entrypoint_resources={resource: 1} if resource else None,
        )  # fmt: skip

    def arm(self, cluster: Cluster, *, run: str, fault: str, rank: int) -> None:
        """Ask a rank for a fault from inside (the library's `faults.py`): hang, die, die-after-shard and others."""
        (self._faults(cluster, run=run) / f"{fault}-rank-{rank}").touch()

    def hold(self, cluster: Cluster, *, run: str, after: int = 0) -> None:
        """Let ranks that have done so many steps wait at the start of their next step, until `release`."""
        (self._faults(cluster, run=run) / HOLD).write_text(str(after))

    def release(self, cluster: Cluster, *, run: str) -> None:
        """Let them continue."""
        (self._faults(cluster, run=run) / HOLD).unlink(missing_ok=True)

    @staticmethod
    def _faults(cluster: Cluster, *, run: str) -> Path:
        folder = cluster.fsx / run / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Undisturbed:
    """The same job at full size without Ray and without a fault; the yardstick for every loss.

    Runs beside the cluster's start; at a low priority, so as not to lengthen what is measured. Its ranks share their
    imports, which take longer than their steps.
    """

    def __init__(self, job: Job, *, bin_folder: Path, storage: Path, run: str = "undisturbed") -> None:
        self.job, self.tail = job, Tail(storage / run / "events.jsonl")
        storage.mkdir(parents=True, exist_ok=True)
        self.log = storage / f"{run}.log"
        ranks = job.workers.rpartition(":")[2]
        command = ["nice", "-n", "10", str(bin_folder / "python"), "-P", str(FORKED_RANKS), ranks]
        command += [str(job.folder / DRIVER), *job.arguments(storage=storage, run=run, workers="0", delay_s=0)]
        env = {"PATH": f"{bin_folder}:/usr/bin:/bin", "PYTHONPATH": str(job.project), "RAY_USAGE_STATS_ENABLED": "0"}
        env |= {"HOME": str(Path.home()), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        env |= {"OPENBLAS_NUM_THREADS": "1"}  # NumPy's would start threads before the fork
        env |= PATIENT
        env |= leash.inherited()
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(command, env=env, stdout=stream, stderr=stream, start_new_session=True)

    def events(self, *, timeout_s: float = 300) -> list[Event]:
        """Wait for its end and give its events. LocalError where it failed, or was without an event for `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while (code := self.process.poll()) is None:
            if self.tail.read():
                deadline = time.monotonic() + timeout_s
            if time.monotonic() > deadline:
                self.stop()
                raise LocalError(
                    f"the undisturbed run stands still at step {self.tail.step}",
                    expected=f"a step within {timeout_s:g} s",
                    fix=f"see {self.log}, or rehearse fewer steps",
                    code=1,
                )
            time.sleep(0.1)
        if code:
            raise LocalError(
                f"the undisturbed run failed: exit code {code}", expected="0", fix=f"see {self.log}", code=1
            )
        self.tail.read()
        return self.tail.events

    def stop(self) -> None:
        """End it: its ranks end with it on SIGTERM. One that has no time for that is killed with them."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def _rehearsable(script: Path) -> bool:
    """Whether a script trains by itself for a number of steps: recipes want a model or data of yours."""
    return script.is_file() and '"--steps"' in script.read_text(encoding="utf-8")
