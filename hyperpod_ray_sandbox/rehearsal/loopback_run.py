"""A loopback cluster with a run on it, and what can be done to both. A rehearsal and a soak say what happens when."""

from __future__ import annotations

import contextlib
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hyperpod_ray_sandbox.rehearsal.job import DRIVER, STANDBY, SUPERVISOR, Job, Undisturbed
from hyperpod_ray_sandbox.rehearsal.options import Listener, Options, with_spare_pods
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import Manifest
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import Pod
from hyperpod_ray_sandbox.rehearsal.replacement import Replacement
from hyperpod_ray_sandbox.rehearsal.watcher import Watcher
from hyperpod_ray_training.history import Event, Tail


class NotRecoveredError(LocalError):
    """What the rehearsal waited for did not come within `fault_timeout_s`."""


class Scene:
    """A cluster and the run under way on it.

    Args:
        manifest: of the RayCluster.
        options: of the rehearsal.
        listener: shows progress.
        project: the project's folder.
        name: of the cluster; default: `rehearse-` and four random digits.
    """

    def __init__(
        self,
        *,
        manifest: Manifest,
        options: Options,
        listener: Listener,
        project: Path,
        name: str | None = None,
    ) -> None:
        self.options, self.listener, self.project = options, listener, project
        self.start = time.time()
        self.log: list[list[Any]] = []
        self.tails: dict[str, Tail] = {}
        self.submissions: dict[str, int] = {}
        self.hangs: list[str] = []
        self.tag = secrets.token_hex(2)
        self.cluster = Cluster.start(
            manifest=with_spare_pods(manifest, max_replicas=options.max_pods, spares=options.spares),
            project=project,
            name=name or f"rehearse-{self.tag}",
            max_pods=options.max_pods + options.spares,
            pod_cpus=options.ranks_per_node,
            env={"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(options.drain_s), **options.pod_env},
            note=self.note,
        )
        self.note(f"cluster up: {len(self.cluster.state.pods)} pods at {self.cluster.dashboard.address}")
        self.nodes = self.cluster.plan.training_pods - options.spares
        self.size = self.nodes * options.ranks_per_node
        self.under_way: tuple[str, Job] | None = None
        self.replacement = Replacement(self.cluster, delay_s=options.replace_after_s, note=self.note)
        self.watcher = Watcher(self.cluster)
        self.watcher.start()

    def note(self, text: str) -> None:
        """A line for the log and whoever listens."""
        t = round(time.time() - self.start, 2)
        self.log.append([t, text])
        self.listener.line(t, text)

    # --- the run --------------------------------------------------------------------------------------------------

    def job(self, *, steps: int, workers: str) -> Job:
        """The job of this rehearsal."""
        return Job(
            name=self.options.job,
            project=self.project,
            steps=steps,
            interval=self.options.interval,
            step_delay_s=self.options.step_delay_s,
            workers=workers,
            spares=0 if ":" in workers else self.options.spares * self.options.ranks_per_node,
            extra=self.options.job_arguments,
            env=self.options.run_env,
            other_folder=self.options.job_folder,
        )

    def undisturbed(self, job: Job, *, run: str = "undisturbed") -> Undisturbed:
        """Start a job's twin."""
        return Undisturbed(job, bin_folder=self.cluster.bin, storage=self.cluster.fsx, run=run)

    def submit(self, job: Job, run: str) -> None:
        """Submit, or submit again: the same command with a new submission id."""
        count = self.submissions[run] = self.submissions.get(run, 0) + 1
        submission = f"{run}-{count}"
        deadline = time.time() + self.options.fault_timeout_s
        while True:
            try:
                job.submit(self.cluster, run=run, submission=submission)
                break
            except LocalError:
                if count == 1 or time.time() > deadline:
                    raise
                self.pump(run, job, doing="waiting for the head")
                time.sleep(0.5)
        self.watcher.follow(submission)
        self.note(f"{run}: submitted{' again' if count > 1 else ''} (ray job submit … {DRIVER} … --name {run})")

    def pump(self, run: str, job: Job, *, doing: str) -> list[Event]:
        """One turn: replacements, new events, progress."""
        self.replacement.tick(self.watcher.nodes)
        tail = self.tails.setdefault(run, Tail(self.cluster.fsx / run / "events.jsonl"))
        fresh = tail.read()
        for event in fresh:
            if event.kind == "restore":
                self.note(f"{run}: resumed from step {event.step} with {event.values.get('world')} workers")
        newest = tail.last("step")
        self.listener.progress(
            run=run, step=tail.step, steps=job.steps, loss=newest.loss if newest else None, doing=doing
        )
        return fresh

    def until(self, run: str, job: Job, check: Callable[[Tail], bool], *, doing: str, resubmit: bool = False) -> bool:
        """Turn until `check`; True where the job had to be submitted again.

        LocalError after `fault_timeout_s`; a run that only has to finish may take as long as it makes steps.
        """
        deadline, resubmitted = time.time() + self.options.fault_timeout_s, False
        while True:
            fresh = self.pump(run, job, doing=doing)
            if check(self.tails[run]):
                return resubmitted
            if doing == "finishing" and any(event.kind == "step" for event in fresh):
                deadline = time.time() + self.options.fault_timeout_s
            status = self.watcher.status
            if resubmit and status in {"FAILED", "UNKNOWN"} and self.replacement.complete:
                resubmitted = True
                self.note(f"{run}: Jobs API says {status.lower()}; submitted again, as documented")
                self.submit(job, run)
            elif status in {"FAILED", "STOPPED"}:
                raise LocalError(
                    f"{run}: {status.lower()} while {doing}: {last_line(self.watcher.message)}",
                    expected="a running job",
                    fix="see the run's log",
                    code=1,
                )
            elif status == "SUCCEEDED" and doing != "finishing":
                raise LocalError(
                    f"{run}: ended while {doing}",
                    expected="a run longer than its faults",
                    fix="raise --interval or --step-delay, or rehearse fewer faults",
                    code=1,
                )
            if time.time() > deadline:
                raise NotRecoveredError(
                    f"{run}: timed out {doing}",
                    expected=f"less than {self.options.fault_timeout_s:g} s",
                    fix="see the run's events; on a slow machine raise --fault-timeout",
                    code=1,
                )
            time.sleep(0.05)

    def warm_spares(self, tail: Tail) -> int:
        """How many spares could take a rank at once, as the coordinator last said."""
        announcement = next((event for event in reversed(tail.events) if "warm_spares" in event.values), None)
        return int(announcement.values["warm_spares"]) if announcement else 0

    def standbys_complete(self, tail: Tail) -> bool:
        """Whether each live node of training has a standby that has imported. Without a coordinator there are none."""
        if not self.options.standbys or tail.last("generation") is None:
            return True
        announcement = next((event for event in reversed(tail.events) if "standbys" in event.values), None)
        return announcement is not None and int(announcement.values["standbys"]) >= sum(
            not pod.frozen for pod in self.cluster.training_pods()
        )

    def give_up(self) -> None:
        """End a run that does not come back, and make the cluster whole for the next one."""
        submission = self.watcher.submission
        if submission:
            with contextlib.suppress(OSError):
                self.cluster.dashboard.stop_job(submission)
        for pod in self.cluster.training_pods():
            self.cluster.kill(pod)
        deadline = time.time() + self.options.fault_timeout_s
        while time.time() < deadline and not self.replacement.complete:
            self.replacement.tick(self.watcher.nodes)
            time.sleep(0.2)
        self.cluster.wait_for_nodes()

    # --- what faults use ------------------------------------------------------------------------------------------

    def wait_for(self, check: Callable[[Event], bool], *, doing: str) -> Event:
        """Work on until the run has written such an event."""
        run, job = self._running()
        self.until(run, job, lambda tail: any(check(event) for event in tail.events), doing=doing)
        return next(event for event in reversed(self.tails[run].events) if check(event))

    def wait_until(self, check: Callable[[Tail], bool], *, doing: str) -> None:
        """Work on until the events of the run satisfy `check`."""
        run, job = self._running()
        self.until(run, job, check, doing=doing)

    def work_for(self, seconds: float) -> None:
        """Let time pass, with replacements coming."""
        run, job = self._running()
        until = time.time() + seconds
        self.until(run, job, lambda tail: time.time() >= until, doing="waiting")

    def arm(self, fault: str, *, rank: int) -> Event:
        """Ask a rank for a fault from inside, and wait until it has obeyed."""
        run, job = self._running()
        armed = time.time() - 1
        job.arm(self.cluster, run=run, fault=fault, rank=rank)
        job.release(self.cluster, run=run)  # a rank that waits at its step obeys nothing
        return self.wait_for(lambda event: event.kind == "fault" and event.t >= armed, doing=f"before {fault}")

    def training_pods(self) -> list[Pod]:
        """The pods whose ranks train right now, those of the highest ranks first."""
        run, _ = self._running()
        pods = [pod for pod in reversed(self.cluster.training_pods()) if self.cluster.find(pod, "RayTrainWorker")]
        ranks = self._ranks(run)
        if ranks:
            order = list(dict.fromkeys(str(ranks[rank]["node"]) for rank in sorted(ranks, key=int, reverse=True)))
            pods = sorted((pod for pod in pods if pod.ip in order), key=lambda pod: order.index(pod.ip))
        if not pods:
            raise LocalError(
                "no pod trains", expected="a pod with a worker of the run", fix="see the run's log", code=1
            )
        return pods

    def training_pod(self) -> Pod:
        """A pod that trains right now."""
        return self.training_pods()[0]

    def spare_pods(self) -> list[Pod]:
        """Pods that could train and do not."""
        training = {pod.name for pod in self.training_pods()}
        return [pod for pod in self.cluster.training_pods() if pod.name not in training]

    def kill_worker(self, pod: Pod, *, number: signal.Signals = signal.SIGKILL) -> None:
        """A signal to one process of a pod that trains, not to a spare or a standby beside it."""
        ranks = self._ranks(self._running()[0])
        inner = [int(held["pid"]) for held in ranks.values() if held["node"] == pod.ip]
        self.cluster.kill_worker(pod, inner=inner or None, number=number)

    def _ranks(self, run: str) -> dict[str, dict[str, Any]]:
        """Who holds each rank, in a run with spares."""
        event = self.tails[run].last("generation")
        return dict(event.values["ranks"]) if event else {}

    def _running(self) -> tuple[str, Job]:
        if self.under_way is None:
            raise LocalError("no run is active", expected="one", fix="see the run's log", code=1)
        return self.under_way

    def driver(self) -> int:
        """The driver's process: the innermost one that names the script and the run; no supervisor, no standby."""
        run, _ = self._running()
        for pod in self.cluster.alive_pods():
            pids = [
                pid
                for pid in self.cluster.find(pod, f"--name {run} ")
                if DRIVER in (line := isolation.command_line(pid))
                and not line.startswith("/bin/sh")
                and SUPERVISOR not in line
                and isolation.process_name(pid) != STANDBY
            ]
            if pids:
                return pids[-1]
        raise LocalError(f"{run}: no driver process", expected="one", fix="see the run's log", code=1)

    def close(self) -> None:
        """End everything that was started."""
        self.watcher.ended.set()
        self.watcher.join(timeout=20)
        survivors = self.cluster.stop()
        if survivors:
            raise LocalError(
                f"still running after the rehearsal: processes {survivors}",
                expected="none",
                fix="end them by id",
                code=1,
            )


def last_line(message: str) -> str:
    """The end of what a process or an API said."""
    return ([line.strip() for line in message.splitlines() if line.strip()] or ["no message"])[-1][:300]
