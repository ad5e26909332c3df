"""A rehearsal as the page of `status --web`: its runs, pods and what happened, from the files that the runs write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hyperpod_ray.ops import output
from hyperpod_ray.ops.in_ray.history import History, mapping
from hyperpod_ray.ops.journal.record import Record, moment, record_of
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.web.serve import paths
from hyperpod_ray.ops.web.server import Server
from hyperpod_ray.ops.web.view import GroupLine, Happening, NodeLine, RunLine, Tone, View
from hyperpod_ray.ops.web.watch import Watch
from hyperpod_ray_sandbox.rehearsal.loopback_run import Scene
from hyperpod_ray_sandbox.rehearsal.report import NOT_SHOWN

EVERY_SECONDS = 1.0
NO_ENVIRONMENT = "A rehearsal has no AWS: stacks, storage and cost of the environment are not part of it."


@contextlib.contextmanager
def page(scene: Scene, *, environment: str, port: int) -> Iterator[None]:
    """Serve the page while the rehearsal runs; prints its address on stderr.

    Args:
        scene: The rehearsal's cluster and runs.
        environment: Its name.
        port: Port on 127.0.0.1; 0 takes any.
    """
    watch = Watch(lambda: view(scene, environment=environment), every=EVERY_SECONDS, environment=environment)
    served = paths(watch, environment=environment, every=EVERY_SECONDS)
    with Server(served, port=port, busy=f"hyperpod-ray local rehearse {environment} --web --port 0") as server, watch:
        output.log(f"watch it at {server.url} until it ends")
        yield


def view(scene: Scene, *, environment: str) -> View:
    """What the page shows of a rehearsal at this moment."""
    records = [_record(Path(scene.cluster.fsx) / name, name) for name in scene.submissions]
    broken = any(row.resumed_t is None for record in records for row in record.interruptions)
    ended = bool(records) and all(record.ended for record in records)
    headline, tone = _state(broken=broken, ended=ended, begun=any(record.steps for record in records))
    states = {pod.ip: scene.watcher.nodes.get(pod.ip, "not in Ray yet") for pod in scene.cluster.state.pods}
    return View(
        environment=environment,
        subject=f"rehearsal of job {scene.options.job} on this machine, Ray on loopback, no AWS account",
        at=now(),
        headline=headline,
        tone=tone,
        runs=tuple(RunLine(name=row.name, state=row.state or "starting", tone=tone, record=row) for row in records),
        groups=tuple(_groups(scene, states)),
        nodes=tuple(
            NodeLine(id=pod.name, group=pod.group, state=states[pod.ip], fault=pod.ip,
                     tone="good" if states[pod.ip] == "ALIVE" else "bad" if states[pod.ip] == "DEAD" else "busy")
            for pod in scene.cluster.state.pods
        ),
        events=tuple(
            Happening(time=moment(scene.start + t), where="rehearsal", what=text,
                      level="Error" if text.startswith("FAULT") else "Info")
            for t, text in reversed(list(scene.log))
        ),
        not_shown=(NO_ENVIRONMENT, *NOT_SHOWN),
        relative=True,
    )  # fmt: skip


def _state(*, broken: bool, ended: bool, begun: bool) -> tuple[str, Tone]:
    if not begun:
        return "Starting", "none"
    if broken:
        return "Recovering", "busy"
    return ("Done" if ended else "Training"), "good"


def _record(folder: Path, name: str) -> Record:
    """A run's files as they are now; one that does not exist yet is empty."""
    try:
        progress = mapping((folder / "progress.json").read_text("utf-8", errors="replace"))
    except OSError:
        progress = {}
    history = History.kept(progress.pop("history", None))
    history.take_up(folder / "events.jsonl", to_the_end=True)
    return record_of(history, progress, name=name, now=now().timestamp())


def _groups(scene: Scene, states: dict[str, str]) -> Iterator[GroupLine]:
    for group in scene.cluster.plan.groups:
        pods = [pod for pod in scene.cluster.state.pods if pod.group == group.group]
        alive = sum(states[pod.ip] == "ALIVE" for pod in pods)
        yield GroupLine(name=group.group, type="this machine", asked=group.pods, ready=alive,
                        recovering=max(0, group.pods - alive))  # fmt: skip
