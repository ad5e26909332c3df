"""A rehearsal: start the cluster, train, break it in every way asked for, and compare with an undisturbed run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hyperpod_ray_sandbox.rehearsal.faults import Fault, faults_named
from hyperpod_ray_sandbox.rehearsal.job import Job, Undisturbed
from hyperpod_ray_sandbox.rehearsal.lengths import held_after, may_hold, run_lengths
from hyperpod_ray_sandbox.rehearsal.loopback_run import NotRecoveredError, Scene, last_line
from hyperpod_ray_sandbox.rehearsal.options import FINAL, OUT, PROJECT, Listener, Options, Silent
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.machine import rehearsal_bin
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import Manifest
from hyperpod_ray_sandbox.rehearsal.ray_hosts.source import manifest_of
from hyperpod_ray_sandbox.rehearsal.report import FaultReport, Injected, Report, compare, measure, timeline
from hyperpod_ray_training.history import Event, Tail


class Rehearsal:
    """Faults one after another, and the report; `run` is the way in.

    Args:
        environment: its name, for the report.
        scene: the cluster.
    """

    def __init__(self, *, environment: str, scene: Scene) -> None:
        self.environment, self.scene, self.options = environment, scene, scene.options
        self.reports: list[FaultReport] = []
        self.injected: list[Injected] = []
        self.windows: dict[str, list[tuple[float, float]]] = {}
        self.status: dict[str, str] = {}
        self.may_hold = may_hold(faults_named(self.options.faults))

    def between_checkpoints(self, tail: Tail, *, after: float) -> bool:
        """Whether a new checkpoint counts, and work has been done since, at full size."""
        newest, save = tail.last("step"), tail.last("save")
        if newest is None or save is None or save.t < after or newest.step is None or save.step is None:
            return False
        into = newest.step - save.step
        return self.options.interval * 0.4 <= into < self.options.interval * 0.9 and self._at_full_size(tail)

    def _at_full_size(self, tail: Tail) -> bool:
        newest = tail.last("step")
        return newest is not None and newest.values.get("world") == self.scene.size

    def complete(self, tail: Tail, fault: Fault) -> bool:
        """Whether all is there that the fault needs: nodes, and those who stand by."""
        scene = self.scene
        if fault.needs_spares:
            spares, pods = self.options.spares * self.options.ranks_per_node, scene.cluster.state.pods
            if scene.warm_spares(tail) < spares or not scene.replacement.complete:
                return False
        else:
            pods = [pod for pod in scene.cluster.alive_pods() if not pod.frozen]
        return scene.standbys_complete(tail) and all(scene.watcher.nodes.get(pod.ip) == "ALIVE" for pod in pods)

    def disturbed(self, *, run: str, job: Job, faults: Sequence[Fault]) -> None:
        """Submit the run and inject the faults one after another.

        Where one is not survived, that is noted and the rest continue with a run of a new name.
        """
        scene = self.scene
        scene.submit(job, run)
        scene.under_way = run, job
        after = 0.0
        for number, fault in enumerate(faults):
            self._until_settled(run, job, faults[number:], after=after)
            injected = self.inject(fault, run=run)
            self._hold_before_end(run, job, faults[number + 1 :])
            self.injected.append(injected)
            scene.note(f"FAULT {fault.name}: {injected.target} at step {injected.step}")
            resubmitted, survived, submitted = False, True, scene.submissions[run]
            try:
                resubmitted = self._until_recovered(run, job, fault, injected)
            except NotRecoveredError as error:
                scene.note(str(error))
                survived = False
            after = time.time()
            self.windows.setdefault(run, []).append((injected.t, after))
            report = measure(
                injected,
                scene.tails[run].events,
                until=after,
                observations=scene.watcher.seen,
                heads=scene.watcher.heads,
                resubmitted=resubmitted or scene.submissions[run] > submitted,
                recovered=survived,
            )
            self.reports.append(report)
            scene.listener.fault(report)
            if not survived:
                self.status[run] = "NOT RECOVERED"
                scene.give_up()
                if rest := faults[number + 1 :]:
                    self.disturbed(run=f"{run}-{len(rest)}", job=job, faults=rest)
                return
        scene.until(run, job, lambda tail: scene.watcher.status in FINAL, doing="finishing")
        scene.pump(run, job, doing="finishing")
        self.status[run] = scene.watcher.status
        scene.note(f"{run}: {scene.watcher.status}")

    def _until_settled(self, run: str, job: Job, faults: Sequence[Fault], *, after: float) -> None:
        """Until a good moment for the first of the faults. The ranks wait at a step for what is not complete yet."""
        scene, fault, held, guarded = self.scene, faults[0], False, False

        def check(tail: Tail) -> bool:
            nonlocal held, guarded
            guarded = guarded or self._hold_before_end(run, job, faults)
            at_end = guarded and tail.step >= self._held_after(job, faults) and self._at_full_size(tail)
            if not (held or at_end or self.between_checkpoints(tail, after=after)):
                return False
            if self.complete(tail, fault):
                return True
            if guarded and not held:
                job.hold(scene.cluster, run=run)
                held = True
            return False

        try:
            scene.until(run, job, check, doing=f"before {fault.name}")
        except BaseException:
            job.release(scene.cluster, run=run)
            raise
        if held:
            self._hold_before_end(run, job, faults)

    def _held_after(self, job: Job, faults: Sequence[Fault]) -> int:
        backend = bool(self.scene.cluster.state.backend)
        return held_after(self.options, faults, steps=job.steps, fault_tolerant=backend)

    def _hold_before_end(self, run: str, job: Job, faults: Sequence[Fault]) -> bool:
        """Let the ranks wait before the run ends, as long as faults are to come; whether they may wait now.

        Without a coordinator, ranks that wait look as if they hang.
        """
        if not faults:
            job.release(self.scene.cluster, run=run)
        may_wait = self.may_hold and self.scene.tails[run].last("generation") is not None
        if faults and may_wait:
            job.hold(self.scene.cluster, run=run, after=self._held_after(job, faults))
        return may_wait

    def _until_recovered(self, run: str, job: Job, fault: Fault, injected: Injected) -> bool:
        return self.scene.until(
            run,
            job,
            lambda tail: fault.recovered(self.scene, tail, injected),
            doing=f"recovering from {fault.name}",
            resubmit=fault.resubmits,
        )

    def inject(self, fault: Fault, *, run: str) -> Injected:
        """Do it and note when, at which step and to what."""
        tail = self.scene.tails[run]
        t, target = fault.inject(self.scene)
        tail.read()
        before = [event.step for event in tail.events if event.kind == "step" and event.t <= t and event.step]
        return Injected(fault=fault.name, t=t, step=before[-1] if before else 0, target=target, run=run)

    def all(self) -> Report:
        """Every run of the rehearsal, and the report."""
        options, scene, size = self.options, self.scene, self.scene.size
        faults = faults_named(options.faults)
        for fault in faults:
            fault.needs(nodes=scene.nodes, spares=options.spares)
        fixed, changing = [f for f in faults if not f.elastic], [f for f in faults if f.elastic]
        steps, longest = run_lengths(options, faults, fault_tolerant=bool(scene.cluster.state.backend))
        main = scene.job(steps=steps, workers=str(size))
        elastic = replace(scene.job(steps=longest, workers=f"1:{size}"), dropout=False)
        twins: dict[str, Undisturbed] = {}
        if options.undisturbed:
            if fixed:
                twins["fixed"] = scene.undisturbed(scene.job(steps=longest, workers=str(size)))
            if changing:
                twins["elastic"] = scene.undisturbed(replace(elastic, workers=str(size)), run="undisturbed-elastic")
        try:
            if fixed:
                self.disturbed(run=f"{options.job}-{scene.tag}", job=main, faults=fixed)
            if changing:
                self.disturbed(run=f"{options.job}-elastic-{scene.tag}", job=elastic, faults=changing)
            patience = max(300.0, self.options.fault_timeout_s)
            truths = {name: twin.events(timeout_s=patience) for name, twin in twins.items()}
        finally:
            for twin in twins.values():
                twin.stop()
        return self._report(truths, steps=steps)

    def _report(self, truths: Mapping[str, Sequence[Event]], *, steps: int) -> Report:
        options, scene = self.options, self.scene
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
                "ranks": scene.size,
                "ranks_per_node": options.ranks_per_node,
                "spare_nodes": options.spares,
            },
            cluster={
                "name": scene.cluster.state.name,
                "isolation": scene.cluster.state.mode,
                "fault_tolerance": scene.cluster.state.backend,
                "driver_off_the_head": scene.cluster.plan.driver_resource is not None,
                "token_auth": scene.cluster.plan.token_auth,
                "rule": scene.cluster.plan.rule,
                "groups": [{"name": g.group, "wanted": g.wanted, "pods": g.pods} for g in scene.cluster.plan.groups],
                "not_honoured": list(scene.cluster.plan.not_honoured),
            },
            faults=self.reports,
            runs=[
                compare(
                    name=run,
                    status=self.status.get(run, "UNKNOWN"),
                    submissions=scene.submissions[run],
                    events=tail.events,
                    undisturbed=truths.get("elastic" if "-elastic-" in run else "fixed", []),
                    elastic="-elastic-" in run,
                    windows=self.windows.get(run, []),
                )
                for run, tail in scene.tails.items()
            ],
            timeline=timeline(
                {run: tail.events for run, tail in scene.tails.items()},
                undisturbed=truth,
                injected=self.injected,
                start=scene.start,
            ),
            started_t=round(scene.start, 3),
            seconds=round(time.time() - scene.start, 1),
            machine={"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
            log=scene.log,
        )


def draw(report_file: Path, *, bin_folder: Path) -> dict[str, str]:
    """The timeline as SVG and PNG beside the report; drawn by the rehearsal environment, which has matplotlib."""
    done = subprocess.run(
        [str(bin_folder / "python"), "-m", "hyperpod_ray_sandbox.rehearsal.picture", str(report_file)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalError(
            f"the picture could not be drawn: {last_line(done.stderr)}",
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
    watched: Callable[[Scene], AbstractContextManager[None]] | None = None,
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
        watched: entered with the cluster before the first run, left after the last one.

    Raises:
        LocalError: bad input (`code` 2), or the rehearsal could not be carried through (`code` 1).
    """
    base = options or Options()
    chosen = Options(**{**base.__dict__, "faults": tuple(faults), "job": job})
    bin_folder = rehearsal_bin(project=project)
    if not any(bin_folder.parent.glob("lib/python*/site-packages/matplotlib")):  # now, not after minutes of training
        raise LocalError(
            "no matplotlib in the rehearsal environment",
            expected="it, for the picture",
            fix="recreate it: make rehearsal-env",
        )
    from hyperpod_ray_sandbox.rehearsal import job_agent

    with ExitStack() as open_:
        beside = open_.enter_context(ThreadPoolExecutor(1))  # draws while the cluster ends
        hung = any(fault.watched for fault in faults_named(chosen.faults))
        if hung:
            chosen = job_agent.with_rules(chosen, Path(open_.enter_context(TemporaryDirectory(prefix="rules-"))))
        scene = Scene(
            manifest=manifest or manifest_of(environment, project=project),
            options=chosen,
            listener=listener or Silent(),
            project=project,
        )
        open_.callback(scene.close)
        if hung:
            open_.enter_context(job_agent.agents(scene))
        if watched:
            open_.enter_context(watched(scene))
        report = Rehearsal(environment=environment, scene=scene).all()
        folder = out or project / OUT / datetime.fromtimestamp(scene.start, tz=UTC).strftime("%Y%m%d-%H%M%S")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "report.json"
        file.write_text(report.to_json(), encoding="utf-8")
        drawing = beside.submit(draw, file, bin_folder=bin_folder)
    report.files.update({"json": str(file), **drawing.result()})
    file.write_text(report.to_json(), encoding="utf-8")
    return report
