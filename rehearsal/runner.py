"""A rehearsal: start the cluster, train, break it in every way asked for, and compare with an undisturbed run."""

from __future__ import annotations

import contextlib
import copy
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from rehearsal.events import Event, Tail
from rehearsal.faults import Fault, faults_named
from rehearsal.job import DRIVER, SUPERVISOR, Job, Undisturbed
from rehearsal.ray_hosts import isolation
from rehearsal.ray_hosts.cluster import Cluster, Pod, rehearsal_bin
from rehearsal.ray_hosts.errors import LocalError
from rehearsal.ray_hosts.manifest import Manifest
from rehearsal.ray_hosts.source import manifest_of
from rehearsal.replacement import Replacement
from rehearsal.report import FaultReport, Injected, Observation, Report, compare, measure, timeline

PROJECT = Path(__file__).resolve().parents[1]
OUT = Path(".rehearsal")
WARM_SECONDS = 12  # from a node's replacement to a warm spare: Ray's worker starts, imports and rehearses
FINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class NotRecoveredError(LocalError):
    """What the rehearsal waited for did not come within `fault_timeout_s`."""


class Listener(Protocol):
    """Whoever shows a rehearsal's progress."""

    def line(self, t: float, text: str) -> None:
        """Something happened, `t` seconds after the start."""

    def progress(self, *, run: str, step: int, steps: int, loss: float | None, doing: str) -> None:
        """Where the run is."""

    def fault(self, report: FaultReport) -> None:
        """A fault is over."""


class Silent:
    """Shows nothing."""

    def line(self, t: float, text: str) -> None:
        """Nothing."""

    def progress(self, *, run: str, step: int, steps: int, loss: float | None, doing: str) -> None:
        """Nothing."""

    def fault(self, report: FaultReport) -> None:
        """Nothing."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be set for a rehearsal.

    Args:
        faults: names, in this order; see `rehearsal.faults.FAULTS`.
        job: folder in `jobs/`.
        job_folder: a folder with a `train.py` of the same arguments, instead of `jobs/JOB` (a baseline's).
        interval: steps between two checkpoints.
        step_delay_s: seconds each step is slowed down by.
        replace_after_s: seconds from a lost machine to its replacement's start (minutes on HyperPod).
        elastic_gap_s: for `elastic`: seconds of work at the smaller size before the lost machine's replacement starts.
        drain_s: seconds from SIGTERM to the end of a drained pod (`RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S`; the
            environment's is longer).
        fault_timeout_s: most seconds to wait for the job's first steps, and for a new step after a fault.
        max_pods: most pods of one worker group.
        spares: nodes that stand by, beyond those that train; 0 rehearses a run without spares.
        ranks_per_node: training processes of a node.
        pod_env: set on every pod on top of the manifest's (a baseline without the tuned settings, for example).
        job_env: set on driver and workers.
        job_arguments: further arguments of the job.
        undisturbed: hold the losses against an undisturbed run; off only for baselines that cannot agree with one.
    """

    faults: tuple[str, ...] = ("worker", "node", "freeze")
    job: str = "finetune"
    job_folder: Path | None = None
    interval: int = 10
    step_delay_s: float = 0.15
    replace_after_s: float = 2.0
    elastic_gap_s: float = 3.0
    drain_s: int = 12
    fault_timeout_s: float = 240.0
    max_pods: int = 2
    spares: int = 0
    ranks_per_node: int = 1
    pod_env: dict[str, str] = field(default_factory=dict)
    job_env: dict[str, str] = field(default_factory=dict)
    job_arguments: tuple[str, ...] = ()
    undisturbed: bool = True

    def __post_init__(self) -> None:
        faults_named(self.faults)
        for name, seconds in (("step-delay", self.step_delay_s), ("fault-timeout", self.fault_timeout_s)):
            if not seconds > 0:
                raise LocalError(f"--{name}: {seconds:g}", expected="more than 0", fix="correct the option")
        if self.interval < 4:
            raise LocalError(
                f"--interval: {self.interval}",
                expected="4 or more: a fault must fit between two checkpoints",
                fix="correct the option",
            )
        for name, value, least in (("spares", self.spares, 0), ("ranks-per-node", self.ranks_per_node, 1)):
            if value < least:
                raise LocalError(f"--{name}: {value}", expected=f"{least} or more", fix="correct the option")


class Watcher(threading.Thread):
    """Looks at the head every half second, off the main thread because a dead head answers nothing for seconds."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True, name="rehearse-watcher")
        self.cluster = cluster
        self.submission: str | None = None
        self.nodes: dict[str, str] = {}
        self.status, self.message = "", ""
        self.status_t = 0.0
        self.seen: list[Observation] = []
        self.ended = threading.Event()

    def follow(self, submission: str) -> None:
        """Watch this job from now on."""
        self.submission, self.status, self.status_t = submission, "", 0.0

    def run(self) -> None:
        """Until `ended` is set."""
        while not self.ended.wait(0.4):
            dashboard = self.cluster.dashboard
            nodes = dashboard.nodes()
            now = time.time()
            for ip, state in nodes.items():
                if state == "DEAD" and self.nodes.get(ip) == "ALIVE":
                    self.seen.append(Observation(t=now, what="Ray's head: node dead"))
            self.nodes = nodes or self.nodes
            if submission := self.submission:
                status, message = dashboard.job(submission)
                if submission == self.submission:
                    if status != self.status and status in {"FAILED", "UNREACHABLE", "UNKNOWN"}:
                        self.seen.append(Observation(t=time.time(), what=f"Jobs API: {status.lower()}"))
                    self.status, self.message, self.status_t = status, message, time.time()


class Rehearsal:
    """One rehearsal under way; `run` is the way in."""

    def __init__(
        self,
        *,
        environment: str,
        manifest: Manifest,
        options: Options,
        listener: Listener,
        project: Path,
        name: str | None = None,
    ) -> None:
        self.environment, self.options, self.listener, self.project = environment, options, listener, project
        self.start = time.time()
        self.log: list[list[Any]] = []
        self.reports: list[FaultReport] = []
        self.injected: list[Injected] = []
        self.windows: dict[str, list[tuple[float, float]]] = {}
        self.tails: dict[str, Tail] = {}
        self.submissions: dict[str, int] = {}
        self.status: dict[str, str] = {}
        self.tag = secrets.token_hex(2)
        self.cluster = Cluster.start(
            manifest=with_spare_pods(manifest, most=options.max_pods, spares=options.spares),
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
            env=self.options.job_env,
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
        last = tail.last("step")
        self.listener.progress(run=run, step=tail.step, steps=job.steps, loss=last.loss if last else None, doing=doing)
        return fresh

    def until(self, run: str, job: Job, check: Callable[[Tail], bool], *, doing: str, resubmit: bool = False) -> bool:
        """Turn until `check`; True where the job had to be submitted again. LocalError after `fault_timeout_s`."""
        deadline, again = time.time() + self.options.fault_timeout_s, False
        while True:
            self.pump(run, job, doing=doing)
            if check(self.tails[run]):
                return again
            status = self.watcher.status
            if resubmit and status in {"FAILED", "UNKNOWN"} and self.replacement.complete:
                again = True
                self.note(f"{run}: Jobs API says {status.lower()}; submitted again, as documented")
                self.submit(job, run)
            elif status in {"FAILED", "STOPPED"}:
                raise LocalError(
                    f"{run}: {status.lower()} while {doing}: {_last(self.watcher.message)}",
                    expected="a running job",
                    fix="see the run's log",
                    code=1,
                )
            elif status == "SUCCEEDED" and doing != "finishing":
                raise LocalError(
                    f"{run}: ended while {doing}",
                    expected="a run longer than its faults",
                    fix="add --steps, or rehearse fewer faults",
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

    def settled(self, tail: Tail, *, after: float, size: int) -> bool:
        """A good moment for the next fault: all pods run, a new checkpoint counts, and work has been done since."""
        last, save = tail.last("step"), tail.last("save")
        if last is None or save is None or save.t < after or last.step is None or save.step is None:
            return False
        into = last.step - save.step
        wanted = self.options.spares * self.options.ranks_per_node
        if wanted and int(last.values.get("world", 0)) == size and self.warm_spares(tail) < wanted:
            return False
        nodes = [self.watcher.nodes.get(pod.ip) for pod in self.cluster.state.pods]
        return (
            self.options.interval * 0.4 <= into < self.options.interval * 0.9
            and last.values.get("world") == size
            and self.replacement.complete
            and all(state == "ALIVE" for state in nodes)
        )

    def warm_spares(self, tail: Tail) -> int:
        """How many spares could take a rank at once, as the coordinator last said."""
        told = next((event for event in reversed(tail.events) if "warm_spares" in event.values), None)
        return int(told.values["warm_spares"]) if told else 0

    def disturbed(self, *, run: str, job: Job, faults: Sequence[Fault]) -> None:
        """Submit the run and inject the faults one after another.

        Where one is not survived, that is noted and the rest continue with a run of a new name.
        """
        self.submit(job, run)
        self.under_way = run, job
        after = 0.0
        for number, fault in enumerate(faults):
            self._until_settled(run, job, fault, after=after)
            injected = self.inject(fault, run=run)
            self.injected.append(injected)
            self.note(f"FAULT {fault.name}: {injected.target} at step {injected.step}")
            again, survived, submitted = False, True, self.submissions[run]
            try:
                again = self._until_recovered(run, job, fault, injected)
            except NotRecoveredError as error:
                self.note(str(error))
                survived = False
            after = time.time()
            self.windows.setdefault(run, []).append((injected.t, after))
            report = measure(
                injected,
                self.tails[run].events,
                until=after,
                observations=self.watcher.seen,
                resubmitted=again or self.submissions[run] > submitted,
                recovered=survived,
            )
            self.reports.append(report)
            self.listener.fault(report)
            if not survived:
                self.give_up(run)
                if rest := faults[number + 1 :]:
                    self.disturbed(run=f"{run}-{len(rest)}", job=job, faults=rest)
                return
        self.until(run, job, lambda tail: self.watcher.status in FINAL, doing="finishing")
        self.pump(run, job, doing="finishing")
        self.status[run] = self.watcher.status
        self.note(f"{run}: {self.watcher.status}")

    def _until_settled(self, run: str, job: Job, fault: Fault, *, after: float) -> None:
        self.until(run, job, lambda tail: self.settled(tail, after=after, size=self.size), doing=f"before {fault.name}")

    def _until_recovered(self, run: str, job: Job, fault: Fault, injected: Injected) -> bool:
        return self.until(
            run,
            job,
            lambda tail: fault.recovered(self, tail, injected),
            doing=f"recovering from {fault.name}",
            resubmit=fault.resubmits,
        )

    def give_up(self, run: str) -> None:
        """End a run that does not come back, and make the cluster whole for the next one."""
        self.status[run] = "NOT RECOVERED"
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

    def inject(self, fault: Fault, *, run: str) -> Injected:
        """Do it and note when, at which step and to what."""
        tail = self.tails[run]
        t, target = fault.inject(self)
        tail.read()
        before = [event.step for event in tail.events if event.kind == "step" and event.t <= t and event.step]
        return Injected(fault=fault.name, t=t, step=before[-1] if before else 0, target=target, run=run)

    def wait_for(self, check: Callable[[Event], bool], *, doing: str) -> Event:
        """Work on until the run has written such an event."""
        run, job = self._running()
        self.until(run, job, lambda tail: any(check(event) for event in tail.events), doing=doing)
        return next(event for event in reversed(self.tails[run].events) if check(event))

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

    def kill_worker(self, pod: Pod) -> None:
        """SIGKILL one process of a pod that trains, not a spare beside it."""
        ranks = self._ranks(self._running()[0])
        inner = [int(held["pid"]) for held in ranks.values() if held["node"] == pod.ip]
        self.cluster.kill_worker(pod, inner=inner or None)

    def _ranks(self, run: str) -> dict[str, dict[str, Any]]:
        """Who holds each rank, in a run with spares."""
        event = self.tails[run].last("generation")
        return dict(event.values["ranks"]) if event else {}

    def _running(self) -> tuple[str, Job]:
        if self.under_way is None:
            raise LocalError("no run is active", expected="one", fix="see the run's log", code=1)
        return self.under_way

    def driver(self) -> int:
        """The driver's process: the innermost one that names the script and the run, not its supervisor."""
        run, _ = self._running()
        for pod in self.cluster.alive_pods():
            found = [
                pid
                for pid in self.cluster.find(pod, f"--name {run} ")
                if DRIVER in (line := isolation.command_line(pid))
                and not line.startswith("/bin/sh")
                and SUPERVISOR not in line
            ]
            if found:
                return found[-1]
        raise LocalError(f"{run}: no driver process", expected="one", fix="see the run's log", code=1)

    # --- all of it ------------------------------------------------------------------------------------------------

    def all(self) -> Report:
        """Every run of the rehearsal, and the report."""
        options, size = self.options, self.size
        faults = faults_named(options.faults)
        for fault in faults:
            fault.needs(nodes=self.nodes, spares=options.spares)
        fixed, changing = [f for f in faults if not f.elastic], [f for f in faults if f.elastic]
        steps, longest = run_lengths(options, faults, fault_tolerant=bool(self.cluster.state.backend))
        main = self.job(steps=steps, workers=str(size))
        elastic = replace(self.job(steps=longest, workers=f"1:{size}"), dropout=False)
        twins: dict[str, Undisturbed] = {}
        if options.undisturbed:
            if fixed:
                twins["fixed"] = self.undisturbed(self.job(steps=longest, workers=str(size)))
            if changing:
                twins["elastic"] = self.undisturbed(replace(elastic, workers=str(size)), run="undisturbed-elastic")
        try:
            if fixed:
                self.disturbed(run=f"{options.job}-{self.tag}", job=main, faults=fixed)
            if changing:
                self.disturbed(run=f"{options.job}-elastic-{self.tag}", job=elastic, faults=changing)
            truths = {name: twin.events() for name, twin in twins.items()}
        finally:
            for twin in twins.values():
                twin.stop()
        truth = truths.get("fixed") or truths.get("elastic", [])
        return Report(
            environment=self.environment,
            job=options.job,
            settings={
                "faults": list(options.faults),
                "interval_steps": options.interval,
                "steps": steps,
                "step_delay_s": options.step_delay_s,
                "replace_after_s": options.replace_after_s,
                "drain_s": options.drain_s,
                "elastic_gap_s": options.elastic_gap_s,
                "ranks": size,
                "ranks_per_node": options.ranks_per_node,
                "spare_nodes": options.spares,
            },
            cluster={
                "name": self.cluster.state.name,
                "isolation": self.cluster.state.mode,
                "fault_tolerance": self.cluster.state.backend,
                "driver_off_the_head": self.cluster.plan.driver_resource is not None,
                "token_auth": self.cluster.plan.token_auth,
                "rule": self.cluster.plan.rule,
                "groups": [{"name": g.group, "wanted": g.wanted, "pods": g.pods} for g in self.cluster.plan.groups],
                "not_honoured": list(self.cluster.plan.not_honoured),
            },
            faults=self.reports,
            runs=[
                compare(
                    name=run,
                    status=self.status.get(run, "UNKNOWN"),
                    submissions=self.submissions[run],
                    events=tail.events,
                    undisturbed=truths.get("elastic" if "-elastic-" in run else "fixed", []),
                    elastic="-elastic-" in run,
                    windows=self.windows.get(run, []),
                )
                for run, tail in self.tails.items()
            ],
            timeline=timeline(
                {run: tail.events for run, tail in self.tails.items()},
                undisturbed=truth,
                injected=self.injected,
                start=self.start,
            ),
            started_t=round(self.start, 3),
            seconds=round(time.time() - self.start, 1),
            machine={"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
            log=self.log,
        )

    def close(self) -> None:
        """End everything that was started."""
        self.watcher.ended.set()
        self.watcher.join(timeout=20)
        left = self.cluster.stop()
        if left:
            raise LocalError(
                f"still running after the rehearsal: processes {left}", expected="none", fix="end them by id", code=1
            )


def run_lengths(options: Options, faults: Sequence[Fault], *, fault_tolerant: bool) -> tuple[int, int]:
    """Steps of the run whose size is fixed, and of the run whose size changes.

    Each fault costs one new checkpoint. A fault that does not interrupt training needs further steps. The next fault
    waits until a replaced node is a warm spare, and training continues in that time.
    """
    fixed, changing = [f for f in faults if not f.elastic], [f for f in faults if f.elastic]
    steps = options.interval * (len(faults) + 3)
    steps += sum(f.extra_steps(options, fault_tolerant=fault_tolerant) for f in fixed)
    if options.spares and fixed:
        steps += (len(fixed) - 1) * int(WARM_SECONDS / options.step_delay_s)
    return steps, steps + sum(f.extra_steps(options, fault_tolerant=fault_tolerant) for f in changing)


def with_spare_pods(manifest: Manifest, *, most: int, spares: int) -> Manifest:
    """The manifest with `spares` more pods in its first group that has any; the others keep at most `most`."""
    if not spares:
        return manifest
    out: dict[str, Any] = copy.deepcopy(dict(manifest))
    group = next((g for g in out["spec"]["workerGroupSpecs"] if int(g.get("replicas") or 0)), None)
    if group is None:
        raise LocalError(
            "--spares: no worker group with a pod", expected="one", fix="set replicas of a worker group to 1 or more"
        )
    group["replicas"] = min(int(group["replicas"]) * int(group.pop("numOfHosts", None) or 1), most) + spares
    return out


def _last(message: str) -> str:
    return ([line.strip() for line in message.splitlines() if line.strip()] or ["no message"])[-1][:300]


def draw(report_file: Path, *, bin_folder: Path) -> dict[str, str]:
    """The timeline as SVG and PNG beside the report; drawn by the rehearsal environment, which has matplotlib."""
    done = subprocess.run(
        [str(bin_folder / "python"), "-m", "rehearsal.picture", str(report_file)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalError(
            f"the picture could not be drawn: {_last(done.stderr)}",
            expected="exit code 0",
            fix="make rehearsal-env",
            code=1,
        )
    return {path.suffix[1:]: str(path) for path in map(Path, done.stdout.split())}


def run(
    environment: str,
    *,
    faults: Sequence[str] = ("worker", "node", "freeze"),
    job: str = "finetune",
    out: Path | None = None,
    options: Options | None = None,
    listener: Listener | None = None,
    manifest: Manifest | None = None,
    project: Path = PROJECT,
) -> Report:
    """Rehearse an environment's recovery on this machine: real Ray processes, real kills, nothing deployed.

    Args:
        environment: an environment's name (`local`, `dev`, …) or the path of a RayCluster manifest.
        faults: what to inject, in order; see `FAULTS`.
        job: folder in `jobs/`.
        out: folder for `report.json`, `timeline.svg` and `timeline.png`. Default: `.rehearsal/TIME`.
        options: everything else; its `faults` and `job` give way to the arguments.
        listener: shows progress. Default: none.
        manifest: a RayCluster to use instead of the environment's.
        project: the project's folder.

    Raises:
        LocalError: bad input (`code` 2), or the rehearsal could not be carried through (`code` 1).
    """
    base = options or Options()
    wanted = Options(**{**base.__dict__, "faults": tuple(faults), "job": job})
    bin_folder = rehearsal_bin(project=project)
    if not any(bin_folder.parent.glob("lib/python*/site-packages/matplotlib")):  # now, not after minutes of training
        raise LocalError(
            "no matplotlib in the rehearsal environment",
            expected="it, for the picture",
            fix="recreate it: make rehearsal-env",
        )
    rehearsal = Rehearsal(
        environment=environment,
        manifest=manifest or manifest_of(environment, project=project),
        options=wanted,
        listener=listener or Silent(),
        project=project,
    )
    try:
        report = rehearsal.all()
    finally:
        rehearsal.close()
    folder = out or project / OUT / datetime.fromtimestamp(rehearsal.start, tz=UTC).strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "report.json"
    file.write_text(report.to_json(), encoding="utf-8")
    report.files.update({"json": str(file), **draw(file, bin_folder=bin_folder)})
    file.write_text(report.to_json(), encoding="utf-8")
    return report
