"""A rehearsal on Slurm: one job, submitted by a script of `jobs/slurm`, and every fault asked for."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hyperpod_ray.core import names
from hyperpod_ray_sandbox.rehearsal.job import DRIVER, Job, Undisturbed
from hyperpod_ray_sandbox.rehearsal.options import OUT, PROJECT
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.isolation import send
from hyperpod_ray_sandbox.rehearsal.ray_hosts.machine import rehearsal_bin
from hyperpod_ray_sandbox.rehearsal.report import Injected, compare, measure
from hyperpod_ray_sandbox.rehearsal.slurm.cluster import Cluster, free_ports
from hyperpod_ray_sandbox.rehearsal.slurm.conf import TIMERS, TIMERS_OF, TUNED
from hyperpod_ray_sandbox.rehearsal.slurm.figures import (
    Recovery,
    SlurmReport,
    how,
    needed_steps,
    rank_to_lose,
    warm_spares,
)
from hyperpod_ray_sandbox.rehearsal.slurm.install import found, require
from hyperpod_ray_sandbox.rehearsal.slurm.replacement import Replacement
from hyperpod_ray_training.history import Event, Tail

FAULTS = ("process", "node", "controller", "batch-host", "spare")
LAUNCHERS = {"torchrun": "jobs/slurm/train.sbatch", "ray": "jobs/slurm/ray.sbatch"}
"""What starts the ranks, and the script that does."""
FAULTS_OF = {"torchrun": FAULTS[:-1], "ray": FAULTS}
"""What a launcher can lose: under torchrun nothing stands by."""
RAY_RANK = "ray::RayTrainWorker"
RAY_OPTIONS = "--num-gpus=0 --object-store-memory=100000000"
"""Of `ray start`: four nodes share this machine's memory."""
AWAY_S = 4.0
RANKS = 2
FIRST_ADDRESS = 10
_OWN_ADDRESSES = """#!/bin/sh
case "$1 $2" in
"show node") {scontrol} "$@" | sed "s/NodeAddr=127.0.0.1 /NodeAddr={network}.$(({first} + ${{3#n}})) /" ;;
*) exec {scontrol} "$@" ;;
esac
"""
"""Slurm's daemons listen on one address of a machine, and Ray takes 127.0.0.1 for the address of the network. In a job,
`scontrol` says an address of loopback for each node instead, as if each were a machine."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a job is submitted for a fault.

    Args:
        options: Of sbatch.
        nodes: That it asks for.
        spares: Ranks that stand by, one on a node.
    """

    options: tuple[str, ...] = ()
    nodes: int = RANKS
    spares: int = 0


REPAIRED = Kind(options=("--no-kill",))
"""The stand-in's need, not HyperPod's. The plugin changes a job's allocation from inside Slurm; a program outside can
do that only with a job that a lost node does not end."""
REQUEUED = Kind()
"""A job with `--no-kill` outlives its batch script, so that is never right for a lost batch host."""
SPARED = Kind(options=("--no-kill", "--export=ALL,RAY_SURVIVES=1"), nodes=RANKS + 1, spares=1)
"""As docs/slurm.md has it: the step outlives a lost node."""
KINDS = {"batch-host": REQUEUED, "spare": SPARED}
"""Of the faults that ask for another one than `REPAIRED`."""
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"})
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be set.

    Args:
        faults: Names of `FAULTS`, in this order.
        launcher: Of `LAUNCHERS`.
        job: Folder in `jobs/`.
        interval: Steps between two checkpoints.
        step_delay_s: Seconds each step is slowed down by.
        replace_after_s: Seconds from a lost node to its replacement.
        timers: `tuned` or `default`; see `conf.TIMERS_OF`.
        fault_timeout_s: Longest wait for the first steps, and for a new step after a fault.
        job_arguments: Further arguments of the job.
    """

    faults: tuple[str, ...] = FAULTS_OF["torchrun"]
    launcher: str = "torchrun"
    job: str = "finetune"
    interval: int = 10
    step_delay_s: float = 0.15
    replace_after_s: float = 3.0
    timers: str = TUNED
    fault_timeout_s: float = 400.0
    job_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [fault for fault in self.faults if fault not in FAULTS]
        if unknown or not self.faults:
            raise LocalError(
                f"--faults: {', '.join(unknown) or 'none'}",
                expected=f"of {', '.join(FAULTS)}",
                fix="correct the option",
            )
        if self.launcher not in LAUNCHERS:
            raise LocalError(
                f"--launcher: {self.launcher}", expected=" or ".join(LAUNCHERS), fix="correct the option"
            )  # fmt: skip
        if unsupported := [fault for fault in self.faults if fault not in FAULTS_OF[self.launcher]]:
            raise LocalError(
                f"--faults: {', '.join(unsupported)} with --launcher {self.launcher}", expected="--launcher ray",
                fix="add --launcher ray, or remove the fault",
            )  # fmt: skip
        if self.timers not in TIMERS:
            raise LocalError(f"--timers: {self.timers}", expected=" or ".join(TIMERS), fix="correct the option")
        if self.interval < 4:
            raise LocalError(
                f"--interval: {self.interval}", expected="4 or more: a fault must fit between two checkpoints",
                fix="correct the option",
            )  # fmt: skip
        for name, seconds in (("step-delay", self.step_delay_s), ("fault-timeout", self.fault_timeout_s)):
            if not seconds > 0:
                raise LocalError(f"--{name}: {seconds:g}", expected="more than 0", fix="correct the option")


class Scene:
    """A Slurm with the run on it.

    Args:
        cluster: The Slurm.
        options: Of the rehearsal.
        note: Takes a line about what happens.
        project: The project's folder.
    """

    def __init__(self, cluster: Cluster, *, options: Options, note: Callable[[str], None], project: Path) -> None:
        self.cluster, self.options, self.note, self.project = cluster, options, note, project
        self.bin = rehearsal_bin(project=project)
        self.storage = cluster.layout.shared
        self.replacement = Replacement(cluster, delay_s=options.replace_after_s, note=note)
        self.steps = needed_steps(
            options.faults, interval=options.interval, step_delay_s=options.step_delay_s, away_s=AWAY_S
        )
        self.job = Job(
            name=options.job, project=project, steps=self.steps, interval=options.interval,
            step_delay_s=options.step_delay_s, workers=str(RANKS), extra=options.job_arguments,
        )  # fmt: skip
        self.run = options.job
        self.tail = Tail(self.storage / self.run / "events.jsonl")
        self.log = cluster.layout.folder / "job.log"
        self.id = ""
        self.kind: Kind | None = None
        self.submissions, self.submitted_t = 0, 0.0

    # ---- the job ----

    def environment(self) -> dict[str, str]:
        """What `sbatch` hands to the job: where things are, and a `srun` that knows `--auto-resume=1`."""
        folder = self.cluster.layout.folder / "bin"
        folder.mkdir(exist_ok=True)
        shim = folder / "srun"
        python = shlex.quote(sys.executable)
        shim.write_text(
            f'#!/bin/sh\nexec {python} -m hyperpod_ray_sandbox.rehearsal.slurm.auto_resume "$@"\n', encoding="utf-8"
        )
        shim.chmod(0o755)
        if self.options.launcher == "ray":
            address = folder / "scontrol"
            # by chance: the next free one would be another rehearsal's too, which starts now
            network = f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}"
            address.write_text(
                _OWN_ADDRESSES.format(scontrol=found("scontrol"), network=network, first=FIRST_ADDRESS),
                encoding="utf-8",
            )
            address.chmod(0o755)
        port, client_port = map(str, free_ports(2))
        programs = ",".join(f"{name}={found(name)}" for name in ("srun", "salloc", "scontrol"))
        return {
            "PATH": f"{folder}:{os.environ.get('PATH', '')}",
            "PYTHONPATH": str(self.project),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "GLOO_SOCKET_IFNAME": "lo",
            "MASTER_PORT": port,
            "RAY_CLIENT_PORT": client_port,
            "RANKS_PER_NODE": "1",
            names.RUN_STORAGE_VARIABLE: str(self.storage),
            "TRAIN_SHARED": str(self.storage),
            "TMPDIR": str(self.cluster.layout.folder),  # each node's Ray has its folder in it
            "RAY_OPTIONS": RAY_OPTIONS,
            # Ray's own 15 is for a node of its own: here the rest of the machine would leave workers no time
            "RAY_worker_niceness": "0",
            # processes that are started in case they are needed: each costs seconds of two cores
            "RAY_enable_worker_prestart": "0",
            "RAY_prestart_worker_first_driver": "0",
            "RESILIENCE_STANDBY_DRIVER": "false",
            "TRAIN_HYPERPOD": str(folder),  # exists: this is a HyperPod node, as far as train.sbatch can see
            "TRAIN_PROJECT": str(self.project),
            "TRAIN_VENV": str(self.bin.parent),
            "REHEARSAL_SLURM_PROGRAMS": programs,
        }

    def submit(self, submission: Kind) -> None:
        """The line that a user types."""
        workers = "0" if self.options.launcher == "torchrun" else str(RANKS)
        job = replace(self.job, spares=submission.spares)
        job_arguments = job.arguments(
            storage=self.storage, run=self.run, workers=workers, delay_s=self.options.step_delay_s
        )
        script = LAUNCHERS[self.options.launcher]
        line = ["--parsable", f"--nodes={submission.nodes}", f"--output={self.log}", script, self.options.job]
        self.kind, self.submitted_t = submission, time.time()
        self.submissions += 1
        answer = self.cluster.ask(
            "sbatch", *submission.options, *line, *job_arguments, env=self.environment(), cwd=self.project
        )
        self.id = answer.strip()
        if not self.id:
            raise LocalError("sbatch failed", expected="a job", fix="see slurmctld's log", code=1)
        verb = "submitted again" if self.submissions > 1 else "submitted"
        spare_option = [f"--spares {submission.spares}"] if submission.spares else []
        command_line = " ".join(
            ["sbatch", *submission.options, f"--nodes {submission.nodes} {script} {self.options.job} …", *spare_option]
        )
        self.note(f"{verb}: {command_line} (job {self.id})")

    def cancel(self) -> None:
        """As a user does: every rank gets SIGTERM, saves and leaves."""
        self.cluster.ask("scancel", self.id)
        self.until(lambda: self.state() in _ENDED, doing="cancelling", ends=True)
        self.tail.read()
        save = self.tail.last("save")
        self.note(f"job {self.id}: {self.state()}; last save: {save.values.get('reason') if save else 'none'}")

    def until(self, check: Callable[[], bool], *, doing: str, ends: bool = False) -> None:
        """Turn until `check`, with replacements coming. A run that gets on has all the time it takes."""
        deadline = time.monotonic() + self.options.fault_timeout_s
        state_at = 0.0
        while not check():
            self.replacement.tick()
            if any(event.kind == "step" for event in self.tail.read()):
                deadline = time.monotonic() + self.options.fault_timeout_s
            now = time.monotonic()
            if now > state_at and not ends:
                state_at = now + 2.0
                if (state := self.state()) in _ENDED:
                    raise LocalError(
                        f"the job is {state} while {doing}: {self.last_line()}", expected="a running job",
                        fix="see its last line", code=1,
                    )  # fmt: skip
            if now > deadline:
                raise LocalError(
                    f"timed out {doing}: {self.last_line()}",
                    expected=f"a step within {self.options.fault_timeout_s:g} s",
                    fix="on a slow machine raise --fault-timeout", code=1,
                )  # fmt: skip
            time.sleep(_POLL_S)

    def state(self) -> str:
        """State of the job; empty while nobody can say."""
        return self.cluster.job(self.id).get("JobState", "")

    def last_line(self) -> str:
        """The end of the job's log."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return "no log"
        return next((line.strip() for line in reversed(lines) if line.strip()), "no line")[:300]

    def settled(self) -> bool:
        """A good moment for a fault: every node is there, and work has been done since a checkpoint."""
        self.tail.read()
        newest, save = self.tail.last("step"), self.tail.last("save")
        start = next((event for event in reversed(self.tail.events) if event.kind == "start" and event.worker), None)
        if newest is None or save is None or start is None or save.t < start.t:
            return False
        spares = self.kind.spares if self.kind else 0
        if warm_spares(self.tail.events, since=self.submitted_t) < spares:
            return False
        into = (newest.step or 0) - (save.step or 0)
        return (
            self.options.interval * 0.4 <= into < self.options.interval * 0.9
            and self.replacement.complete
            and self.state() == "RUNNING"
        )

    # ---- faults ----

    def inject(self, fault: str, nodes: Sequence[str]) -> tuple[float, str]:
        """Do it: when, and to what."""
        if fault == "process":
            pid = self._rank_on(nodes[-1])
            t = time.time()
            send([pid], signal.SIGKILL)
            return t, f"the rank on {nodes[-1]}"
        if fault == "controller":
            t = time.time()
            self.cluster.kill_controller()
            return t, "slurmctld"
        name = nodes[-1]
        if fault != "node":
            batch_host = self.cluster.job(self.id)["BatchHost"]
            holders = self.tail.last("generation")
            name = batch_host
            if fault == "spare" and holders is not None:
                name = rank_to_lose(holders.values["ranks"], batch_host=batch_host, first_address=FIRST_ADDRESS)
        t = time.time()
        self.cluster.kill_node(name)
        self.replacement.lose(name, noticed=fault != "batch-host")
        return t, name

    def _rank_on(self, node: str) -> int:
        lines = {pid: isolation.command_line(pid) for pid in self.cluster.members(node)}
        if self.options.launcher == "ray":
            ranks = [pid for pid, line in lines.items() if line.startswith(RAY_RANK)]
        else:
            ranks = [pid for pid, line in lines.items() if f"{DRIVER} --workers" in line and "torchrun" not in line]
        if not ranks:
            raise LocalError(f"{node}: no rank", expected="one", fix="see the job's log", code=1)
        return ranks[-1]

    def recovered(self, fault: str, injected: Injected) -> bool:
        """Whether a new step followed."""
        self.tail.read()
        window = [event for event in self.tail.events if event.t > injected.t]
        if fault == "controller":
            return self.state() == "RUNNING" and any(event.kind == "step" for event in window)
        back = next((event for event in window if event.kind == "restore"), None)
        return back is not None and any(event.kind == "step" and event.t > back.t for event in window)

    def suffer(self, fault: str) -> Recovery:
        """One fault, from the good moment to the first new step."""
        submission = KINDS.get(fault, REPAIRED)
        if submission != self.kind:
            self.cancel()
            self.submit(submission)
        self.until(self.settled, doing=f"before {fault}")
        nodes, restarts = self.cluster.nodes_of(self.id), int(self.cluster.job(self.id).get("Restarts", 0))
        t, target = self.inject(fault, nodes)
        self.tail.read()
        before = [event.step for event in self.tail.events if event.kind == "step" and event.t <= t and event.step]
        injected = Injected(fault=fault, t=t, step=before[-1] if before else 0, target=target, run=self.run)
        self.note(f"FAULT {fault}: {target} at step {injected.step}")
        if fault == "controller":
            until = time.monotonic() + AWAY_S
            self.until(lambda: time.monotonic() >= until, doing="without a controller")
            self.cluster.start_controller()
            self.note(f"slurmctld: started again after {AWAY_S:g} s; the job trained on")
        self.until(lambda: self.recovered(fault, injected), doing=f"recovering from {fault}")
        report = measure(injected, self.tail.events, until=time.time())
        after = int(self.cluster.job(self.id).get("Restarts", 0))
        after_it = [event for event in self.tail.events if event.t > t]
        started = any(event.kind == "start" and not event.worker for event in after_it)
        from_memory = any(event.kind == "restore" and event.values.get("path") == "memory" for event in after_it)
        if fault == "spare":
            self.until(lambda: target not in self.cluster.nodes_of(self.id), doing=f"without {target}")
            self.kind = None  # its spare is spent
        self.note(f"{fault}: a new step after {report.resumed_after_s} s, {report.steps_lost} steps done again")
        return Recovery(
            report=report, nodes_before=tuple(nodes), nodes_after=tuple(self.cluster.nodes_of(self.id)),
            restarts=after,
            by=how(
                restarts_before=restarts, restarts_after=after, interrupted=report.interrupted, started=started,
                from_memory=from_memory,
            ),
        )  # fmt: skip

    def finish(self) -> str:
        """Wait for the end; the state that Slurm gives."""
        self.until(lambda: self.state() in _ENDED, doing="finishing", ends=True)
        self.tail.read()
        return self.state()


def rehearse(
    options: Options, *, note: Callable[[str], None] = lambda _: None, out: Path | None = None, project: Path = PROJECT
) -> SlurmReport:
    """Start a real Slurm, train on it, break it, and compare every loss with an undisturbed run.

    Args:
        options: What can be set.
        note: Takes a line about what happens.
        out: Folder of `report.json` and the job's log. Default: `.rehearsal/slurm-TIME`.
        project: The project's folder.

    Raises:
        LocalError: Slurm is not installed, bad input (`code` 2), or the rehearsal could not be carried through.
    """
    require()
    began, log = time.time(), list[list[object]]()

    def noted(text: str) -> None:
        log.append([round(time.time() - began, 2), text])
        note(text)

    cluster = Cluster.start(timers=TIMERS_OF[options.timers], note=noted)
    twin: Undisturbed | None = None
    folder = out or project / OUT / datetime.fromtimestamp(began, tz=UTC).strftime("slurm-%Y%m%d-%H%M%S")
    try:
        scene = Scene(cluster, options=options, note=noted, project=project)
        version = cluster.ask("sinfo", "--version").strip()
        scene.submit(KINDS.get(options.faults[0], REPAIRED))
        twin = Undisturbed(scene.job, bin_folder=scene.bin, storage=scene.storage)
        try:
            faults = [scene.suffer(fault) for fault in options.faults]
            state = scene.finish()
            truth: Sequence[Event] = twin.events(timeout_s=max(300.0, options.fault_timeout_s))
        finally:
            folder.mkdir(parents=True, exist_ok=True)
            if scene.log.exists():
                (folder / "job.log").write_bytes(scene.log.read_bytes())
        run = compare(
            name=scene.run,
            status=state,
            submissions=scene.submissions,
            events=scene.tail.events,
            undisturbed=truth,
            elastic=False,
        )
    finally:
        if twin is not None:
            twin.stop()
        survivors = cluster.stop()
    if survivors:
        raise LocalError(
            f"still running after the rehearsal: processes {survivors}", expected="none", fix="end them by id", code=1
        )
    report = SlurmReport(
        slurm=version, launcher=options.launcher, job=options.job, timers=options.timers, faults=faults, run=run,
        settings={
            "faults": list(options.faults), "interval_steps": options.interval, "steps": scene.steps,
            "step_delay_s": options.step_delay_s, "replace_after_s": options.replace_after_s, "ranks": RANKS,
        },
        seconds=round(time.time() - began, 1),
        machine={"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}, log=log,
    )  # fmt: skip
    (folder / "report.json").write_text(report.to_json(), encoding="utf-8")
    return report
