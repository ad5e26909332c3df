"""Two teams on one machine: A borrows, B asks for its own, A is preempted, B runs, A resumes with equal losses.

Real Ray clusters on loopback train; each job has one of its own, as each RayJob has. Who is admitted decides
`hyperpod_ray_sandbox.rehearsal.admission`, a stand-in for Kueue. To preempt is what KubeRay does for it: every pod is
deleted at once, the head's too (SIGTERM, SIGKILL after the grace period). A job that is admitted again gets a new
cluster and continues
from its newest checkpoint. The command is `hyperpod-ray local teams`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from hyperpod_ray_sandbox.rehearsal.admission import Decision, Queue, Workload, decide
from hyperpod_ray_sandbox.rehearsal.job import Job, Undisturbed
from hyperpod_ray_sandbox.rehearsal.options import OUT, PROJECT
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import Manifest
from hyperpod_ray_sandbox.rehearsal.ray_hosts.source import manifest_of
from hyperpod_ray_sandbox.rehearsal.report import RunReport, compare
from hyperpod_ray_training.history import Event, Tail

NODES_EACH = 1.0
"""What each team is sure of; A asks for both."""
NODES = {"a": 2 * NODES_EACH, "b": NODES_EACH}
STEPS, INTERVAL = {"a": 14, "b": 2}, 2
PREEMPT_AT = 3
"""Step of A at which B submits: between two checkpoints."""
PACE_S = 4.0
"""What each step of A takes longer before it is preempted: it cannot end while its pods have their notice."""
PATIENCE_S, ASK_EVERY_S = 600.0, 5.0


class Run(Protocol):
    """A job's cluster while it is admitted."""

    def step(self) -> int: ...  # noqa: D102
    def done(self) -> bool: ...  # noqa: D102
    def preempt(self) -> None: ...  # noqa: D102
    def end(self) -> None: ...  # noqa: D102


Start = Callable[[Workload], Run]


@dataclass
class Story:
    """Both teams' jobs, and what happened to them."""

    start: Start
    note: Callable[[str], None]
    queues: Sequence[Queue] = tuple(
        Queue(name=team, quota={"node": NODES_EACH}, borrowing={"node": NODES_EACH}) for team in ("a", "b")
    )
    workloads: dict[str, Workload] = field(default_factory=dict)
    running: dict[str, Run] = field(default_factory=dict)
    happened: list[tuple[str, str]] = field(default_factory=list)
    """What happened to whom: submitted, admitted, preempted, done."""

    def submit(self, name: str, *, nodes: float) -> None:
        """A team submits a job of its name."""
        order = float(len(self.workloads))
        self.workloads[name] = Workload(name=name, queue=name, asks={"node": nodes}, created=order)
        self._note("submitted", name, f"asks for {nodes:g} nodes, is sure of {NODES_EACH:g}")

    def settle(self) -> None:
        """Do what the stand-in decides, until it decides nothing."""
        while (decision := decide(self.queues, list(self.workloads.values()))) != Decision():
            for name in decision.preempt:
                run = self.running.pop(name)
                self._note("preempted", name, f"at step {run.step()}, for {decision.preemptor}: its pods get SIGTERM")
                run.preempt()
                self.workloads[name] = replace(self.workloads[name], admitted=None)
            for name in filter(None, (decision.admit, decision.preemptor)):
                self._admit(name)

    def finish(self, name: str, *, wait: Callable[[Callable[[], bool], str], None]) -> None:
        """Wait for the end of a job, and free its quota."""
        run = self.running[name]
        wait(run.done, f"end of {name}")
        del self.running[name], self.workloads[name]
        run.end()
        self._note("done", name, f"after {run.step()} steps")

    def _admit(self, name: str) -> None:
        workload = self.workloads[name] = replace(self.workloads[name], admitted=float(len(self.happened)))
        suffix = " again" if ("preempted", name) in self.happened else ""
        self._note("admitted", name, f"{suffix.strip() or 'for the first time'}: a RayCluster of its own")
        self.running[name] = self.start(workload)

    def _note(self, event: str, name: str, detail: str) -> None:
        self.happened.append((event, name))
        self.note(f"{event:>9} {name}: {detail}")


def borrow(story: Story) -> None:
    """A borrows B's idle node."""
    story.submit("a", nodes=NODES["a"])
    story.settle()


def play(story: Story, *, wait: Callable[[Callable[[], bool], str], None]) -> None:
    """B submits; A goes, B runs to its end, A runs to its end."""
    preempted_run = story.running["a"]
    wait(lambda: preempted_run.step() >= PREEMPT_AT, f"step {PREEMPT_AT} of a")
    story.submit("b", nodes=NODES["b"])
    story.settle()
    story.finish("b", wait=wait)
    story.settle()
    story.finish("a", wait=wait)


def patient(ready: Callable[[], bool], subject: str) -> None:
    """Look until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not ready():
        if time.monotonic() > deadline:
            raise LocalError(
                f"{subject} did not come within {PATIENCE_S:g} s",
                expected="a job that trains",
                fix="see the logs below .local/ray",
                code=1,
            )
        time.sleep(0.3)


class RayRun:
    """A job in a real Ray cluster of its own, on loopback; the files outlive the cluster."""

    def __init__(self, job: Job, *, manifest: Manifest, name: str, nodes: int, attempt: int) -> None:
        self.cluster = Cluster.start(manifest=manifest, project=job.project, name=name, max_pods=nodes)
        self.submission, self.tail = f"{name}-{attempt}", Tail(self.cluster.fsx / name / "events.jsonl")
        self.status, self.ask_at = "", 0.0
        try:
            self.tail.read()
            job.submit(self.cluster, run=name, submission=self.submission)
        except BaseException:
            self.cluster.stop()
            raise

    def step(self) -> int:
        """The newest step."""
        self.tail.read()
        return self.tail.step

    def done(self) -> bool:
        """Whether the job succeeded; LocalError where it failed."""
        self.tail.read()
        if self.tail.last("done") is None and time.monotonic() < self.ask_at:
            return False  # each look asks the job's dashboard, which takes processor time
        self.ask_at = time.monotonic() + ASK_EVERY_S
        _, answer = self.cluster.dashboard.request(f"/api/jobs/{self.submission}")
        self.status = str((answer or {}).get("status", ""))
        if self.status in ("FAILED", "STOPPED"):
            lines = str(answer.get("message") or "").strip().splitlines()
            raise LocalError(
                f"{self.submission}: {self.status}: {lines[-1:]}", expected="SUCCEEDED", fix="see its log", code=1
            )
        return self.status == "SUCCEEDED"

    def preempt(self) -> None:
        """Delete every pod at once, as the deletion of a RayCluster does.

        The grace period is the manifest's. What is left of it ends when the checkpoint of the notice is complete.
        """
        pods, at = self.cluster.alive_pods(), time.time()
        for pod in pods:
            self.cluster.delete(pod)

        def over() -> bool:
            self.cluster.expire()
            self.tail.read()
            return bool(last_checkpoints(self.tail.events, at=at)) or not any(pod.alive for pod in pods)

        patient(over, f"the last checkpoint of {self.submission}, or the end of its pods")
        self.end()

    def end(self) -> None:
        """End what is left of the cluster; the shared folder stays."""
        self.tail.read()
        self.cluster.stop()


@dataclass(frozen=True, kw_only=True)
class Preempted:
    """What a preemption did to a job.

    Args:
        step: The newest step when its pods got SIGTERM.
        last_step: The newest step that its first cluster made.
        noticed: Whether the training processes saw the notice.
        saved: Steps of the checkpoints that answered the notice.
        checkpoint: Step from which the job continued; 0 for none.
    """

    step: int
    last_step: int
    noticed: bool
    saved: tuple[int, ...]
    checkpoint: int

    @property
    def resumed(self) -> bool:
        """Whether the job had work left, and continued from its newest checkpoint."""
        newest = max(self.saved, default=INTERVAL)
        return newest <= self.checkpoint <= self.last_step < STEPS["a"]


def last_checkpoints(events: Sequence[Event], *, at: float) -> tuple[int, ...]:
    """Steps of the complete checkpoints that a notice caused, and not the interval."""
    saves = [event for event in events if event.kind == "save" and event.values.get("reason") in ("drain", "deadline")]
    return tuple(event.step or 0 for event in saves if event.t > at)


def preempted(events: Sequence[Event], *, at: float, step: int) -> Preempted:
    """What a job's events say about its preemption.

    Args:
        events: Of all its clusters.
        at: When its pods got SIGTERM, in unix seconds.
        step: Its newest step then.
    """
    restore = next((event for event in events if event.kind == "restore" and event.t > at), None)
    until = restore.t if restore is not None else float("inf")
    earlier = [event for event in events if event.t < until]
    return Preempted(
        step=step,
        last_step=max((event.step or 0 for event in earlier if event.kind == "step"), default=0),
        noticed=any(event.kind == "drain" and event.t > at for event in earlier),
        saved=last_checkpoints(earlier, at=at),
        checkpoint=(restore.step or 0) if restore is not None else 0,
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was seen of the two teams.

    Args:
        happened: What happened to whom, in order.
        preempted: A's preemption.
        run: A's run against its undisturbed twin.
        log: Seconds since the start, and what was noted.
    """

    happened: tuple[tuple[str, str], ...]
    preempted: Preempted
    run: RunReport
    log: tuple[tuple[float, str], ...]

    @property
    def survived(self) -> bool:
        """Whether A continued from a checkpoint, and every loss is that of the undisturbed run."""
        run = self.run
        same = run.equal and run.steps_compared >= STEPS["a"] and not run.steps_different
        return self.preempted.resumed and run.status == "SUCCEEDED" and same

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps({"survived": self.survived, **asdict(self)}, indent=1)


def rehearse(
    environment: str, *, note: Callable[[str], None], out: Path | None = None, project: Path = PROJECT
) -> Report:
    """Play the story with real Ray.

    Args:
        environment: An environment's name, or the path of a RayCluster manifest.
        note: Takes a line about what happens.
        out: Folder of `report.json`. Default: `.rehearsal/teams-TIME`.
        project: The project's folder.

    Raises:
        LocalError: bad input, or the rehearsal could not be carried through.
    """
    began, log = time.time(), list[tuple[float, str]]()
    tag = f"{time.time_ns() % 1_000_000:06d}"
    manifest = manifest_of(environment, project=project)
    spec = {key: value for key, value in manifest["spec"].items() if key != "gcsFaultToleranceOptions"}
    manifest = {**manifest, "spec": spec}  # as a team's job has it: its head has no store of its own
    runs: dict[str, list[RayRun]] = {"a": [], "b": []}
    notice: list[tuple[float, int]] = []

    def noted(text: str) -> None:
        log.append((round(time.time() - began, 1), text))
        note(text)

    def job(team: str, *, pace: float) -> Job:
        return Job(
            name="finetune", project=project, steps=STEPS[team], interval=INTERVAL, step_delay_s=pace,
            workers=f"{NODES[team]:g}",
        )  # fmt: skip

    class Noticed(RayRun):
        def preempt(self) -> None:
            notice.append((time.time(), self.step()))
            super().preempt()

    def start(workload: Workload) -> RayRun:
        team, repeated = workload.name, bool(runs[workload.name])
        pace = 0.0 if repeated or team != "a" else PACE_S
        name, nodes = f"team-{team}-{tag}", int(NODES[team])
        noticed_run = Noticed(
            job(team, pace=pace), manifest=manifest, name=name, nodes=nodes, attempt=len(runs[team]) + 1
        )
        runs[team].append(noticed_run)
        return noticed_run

    story, twin = Story(start=start, note=noted), None
    try:
        borrow(story)
        # at a low priority, while A's steps take their time
        cluster = runs["a"][0].cluster
        twin = Undisturbed(job("a", pace=0.0), bin_folder=cluster.bin, storage=cluster.folder / "twin")
        play(story, wait=patient)
        truth = twin.events(timeout_s=PATIENCE_S)
    finally:
        if twin is not None:
            twin.stop()
        for run in story.running.values():
            run.end()
    newest = runs["a"][-1]
    at, step = notice[0]
    report = Report(
        happened=tuple(story.happened),
        preempted=preempted(newest.tail.events, at=at, step=step),
        run=compare(
            name=newest.submission, status=newest.status, submissions=len(runs["a"]), events=newest.tail.events,
            undisturbed=truth, elastic=False,
        ),
        log=tuple(log),
    )  # fmt: skip
    folder = out or project / OUT / datetime.fromtimestamp(began, tz=UTC).strftime("teams-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(report.to_json(), encoding="utf-8")
    return report


def sentences(report: Report) -> list[str]:
    """What the report says, for people."""
    stop, run = report.preempted, report.run
    saved = f"last checkpoint of step {max(stop.saved)}" if stop.saved else "no last checkpoint"
    equal = run.steps_compared - run.steps_different
    return [
        f"team a: SIGTERM at step {stop.step}, {saved}, last step {stop.last_step}",
        f"team a: resumed from step {stop.checkpoint}, {stop.last_step - stop.checkpoint} steps done again",
        f"team a: {equal} of {run.steps_compared} losses equal to the undisturbed run's",
        "survived" if report.survived else "NOT survived",
        "not shown: Kueue itself. Who is admitted decides a stand-in with Kueue's rules for preemption in one cohort.",
    ]
