"""Two teams on one machine: A borrows, B asks for its own, A is preempted, B runs, A resumes with equal losses.

    python -m rehearsal.two_teams MANIFEST

Real Ray clusters on loopback train; each job has one of its own, as each RayJob has. Who is admitted decides
`rehearsal.admission`, a stand-in for Kueue. To preempt is what KubeRay does for it: every pod is deleted at once,
the head's too (`preStop`, SIGTERM, SIGKILL after the grace period). A job that is admitted again gets a new cluster and
the same command.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import yaml

from rehearsal.admission import Decision, Queue, Workload, decide
from rehearsal.events import Event, Tail, steps
from rehearsal.job import Job, Undisturbed
from rehearsal.ray_hosts.cluster import Cluster
from rehearsal.ray_hosts.errors import LocalError

NODES_EACH = 1.0
"""What each team is sure of; A asks for both."""
STEPS, INTERVAL, DELAY_S = 16, 4, 0.4
PREEMPT_AT = 6
"""Step of A at which B submits: between two checkpoints."""
DRAIN_S = 6
PATIENCE_S = 600.0


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
        again = " again" if ("preempted", name) in self.happened else ""
        self._note("admitted", name, f"{again.strip() or 'for the first time'}: a RayCluster of its own")
        self.running[name] = self.start(workload)

    def _note(self, what: str, name: str, more: str) -> None:
        self.happened.append((what, name))
        self.note(f"{what:>9} {name}: {more}")


def play(story: Story, *, wait: Callable[[Callable[[], bool], str], None]) -> None:
    """A borrows B's idle node; B submits; A goes, B runs to its end, A runs to its end."""
    story.submit("a", nodes=2 * NODES_EACH)
    story.settle()
    first = story.running["a"]
    wait(lambda: first.step() >= PREEMPT_AT, f"step {PREEMPT_AT} of a")
    story.submit("b", nodes=NODES_EACH)
    story.settle()
    story.finish("b", wait=wait)
    story.settle()
    story.finish("a", wait=wait)


def patient(ready: Callable[[], bool], what: str) -> None:
    """Look until it is so."""
    end = time.monotonic() + PATIENCE_S
    while not ready():
        if time.monotonic() > end:
            raise LocalError(
                f"{what} did not come within {PATIENCE_S:g} s",
                expected="a job that trains",
                fix="see the logs below .local/ray",
                code=1,
            )
        time.sleep(0.1)


class RayRun:
    """A job in a real Ray cluster of its own, on loopback; the files outlive the cluster."""

    def __init__(self, job: Job, *, manifest: Mapping[str, Any], name: str, nodes: int, attempt: int) -> None:
        env = {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(DRAIN_S)}
        self.cluster = Cluster.start(manifest=manifest, project=job.project, name=name, max_pods=nodes, env=env)
        self.submission, self.tail = f"{name}-{attempt}", Tail(self.cluster.fsx / name / "events.jsonl")
        self.tail.read()
        job.submit(self.cluster, run=name, submission=self.submission)

    def step(self) -> int:
        """The newest step."""
        self.tail.read()
        return self.tail.step

    def done(self) -> bool:
        """Whether the job succeeded; LocalError where it failed."""
        _, answer = self.cluster.dashboard.request(f"/api/jobs/{self.submission}")
        status = (answer or {}).get("status", "")
        if status in ("FAILED", "STOPPED"):
            said = str(answer.get("message") or "").strip().splitlines()
            raise LocalError(
                f"{self.submission}: {status}: {said[-1:]}", expected="SUCCEEDED", fix="see its log", code=1
            )
        return bool(status == "SUCCEEDED")

    def preempt(self) -> None:
        """Delete every pod at once, as the deletion of a RayCluster does, and wait until they are gone."""
        pods = self.cluster.alive_pods()
        for pod in pods:
            self.cluster.delete(pod)
        end = time.monotonic() + PATIENCE_S
        while any(pod.alive for pod in pods) and time.monotonic() < end:
            self.cluster.expire()
            time.sleep(0.1)
        self.end()

    def end(self) -> None:
        """End what is left of the cluster; the shared folder stays."""
        self.tail.read()
        self.cluster.stop()


def compared(events: Sequence[Event], truth: Sequence[Event]) -> tuple[int, int]:
    """Steps whose last loss is that of the undisturbed run to the last bit, and all steps of that run."""
    mine = {event.step: event.loss for event in steps(list(events))}
    wanted = {event.step: event.loss for event in steps(list(truth))}
    return sum(mine.get(step) == loss for step, loss in wanted.items()), len(wanted)


def main(manifest: Path, *, project: Path) -> int:
    """Play the story; exit code 1 where a loss differs."""
    given = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    tag = f"{time.time_ns() % 1_000_000:06d}"
    started: dict[str, int] = {}
    ended: dict[str, RayRun] = {}

    def job(nodes: int) -> Job:
        return Job(
            name="finetune", project=project, steps=STEPS, interval=INTERVAL, step_delay_s=DELAY_S, workers=str(nodes)
        )

    def start(workload: Workload) -> RayRun:
        nodes, name = int(workload.asks["node"]), f"team-{workload.name}-{tag}"
        started[name] = started.get(name, 0) + 1
        ended[workload.name] = RayRun(job(nodes), manifest=given, name=name, nodes=nodes, attempt=started[name])
        return ended[workload.name]

    story = Story(start=start, note=print)
    try:
        play(story, wait=patient)
    finally:
        for run in story.running.values():
            if isinstance(run, RayRun):
                run.end()
    wrong = 0
    for name, nodes in (("a", 2), ("b", 1)):
        run = ended[name]
        twin = Undisturbed(job(nodes), bin_folder=run.cluster.bin, storage=run.cluster.folder / "twin")
        try:
            same, total = compared(run.tail.events, twin.events(timeout_s=PATIENCE_S))
        finally:
            twin.stop()
        saves = [event.step for event in run.tail.events if event.kind == "restore"]
        print(f"     team {name}: {same} of {total} losses equal, resumed from {saves or 'nothing'}")
        wrong += total - same + (not total)
    print(json.dumps({"happened": story.happened, "differ": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), project=Path(__file__).resolve().parents[1]))
