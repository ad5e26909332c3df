"""Many kills at random moments in one run, the middle of a checkpoint included.

`plan` draws all kills from the seed before anything starts; the log (`soak.jsonl`) holds the plan and what came of
each, so that a failure can be run again with `--soak N --seed S`. The plan is repeatable; the machine's own
timing is not.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from hyperpod_ray_sandbox.rehearsal.job import Job, Undisturbed
from hyperpod_ray_sandbox.rehearsal.lengths import WARM_SECONDS
from hyperpod_ray_sandbox.rehearsal.loopback_run import Scene
from hyperpod_ray_sandbox.rehearsal.options import FINAL, OUT, PROJECT, Options
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import Manifest
from hyperpod_ray_sandbox.rehearsal.ray_hosts.source import manifest_of
from hyperpod_ray_sandbox.rehearsal.report import Injected, compare, measure
from hyperpod_ray_sandbox.rehearsal.terminal import Show
from hyperpod_ray_training.history import Event

# what is killed, and how often; the middle of a checkpoint three ways (see hyperpod_ray_training/faults.py)
KINDS = {"worker": 6, "node": 2, "gpu-error": 2, "die-before-shard": 3, "die-after-shard": 3, "die-before-metadata": 3}


@dataclass(frozen=True, kw_only=True)
class Kill:
    """One planned kill.

    Args:
        number: from 1.
        kind: worker or node (from outside), gpu-error (an exception of a rank), or a moment inside a save.
        rank: which rank (inside a save) or which of the training pods (from outside).
        steps: after how many steps since the last resume.
        seconds: how long after that step; what puts a kill anywhere in a step or a save.
    """

    number: int
    kind: str
    rank: int
    steps: int
    seconds: float


def plan(*, kills: int, seed: int, interval: int, size: int) -> list[Kill]:
    """The kills of a seed; the same arguments give the same plan."""
    if kills < 1:
        raise LocalError(f"--kills: {kills}", expected="1 or more", fix="correct the option")
    dice = random.Random(seed)  # noqa: S311  # a plan, not a secret
    out = []
    for number in range(1, kills + 1):
        kill_type = dice.choices(list(KINDS), weights=list(KINDS.values()))[0]
        rank = 0 if kill_type == "die-before-metadata" else dice.randrange(size)
        out.append(
            Kill(
                number=number,
                kind=kill_type,
                rank=rank,
                steps=dice.randint(1, interval + interval // 2),
                seconds=round(dice.random(), 3),
            )
        )
    return out


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a kill.

    Args:
        kill: as planned.
        step: newest step when it hit.
        saved_step: newest step whose checkpoint had been announced before; 0 for none.
        restored_step: what the next attempt resumed from; 0 for a start from nothing.
        recovery_s: seconds to the next step.
        lost_checkpoint: resumed from an older one than announced.
    """

    kill: Kill
    t: float
    step: int
    saved_step: int
    restored_step: int
    recovery_s: float | None

    @property
    def lost_checkpoint(self) -> bool:
        """An announced checkpoint was not used."""
        return self.restored_step < self.saved_step


def judge(kill: Kill, *, t: float, events: Sequence[Event]) -> Outcome:
    """Hold what was restored after a kill against what had been saved before it."""
    report = measure(Injected(fault=kill.kind, t=t, step=0, target="", run=""), events, until=float("inf"))
    before = [event for event in events if event.t <= t]
    return Outcome(
        kill=kill,
        t=t,
        step=max((event.step or 0 for event in before if event.kind == "step"), default=0),
        saved_step=max((event.step or 0 for event in before if event.kind == "save"), default=0),
        restored_step=report.checkpoint_step or 0,
        recovery_s=report.recovery_s,
    )


def soak(
    environment: str,
    *,
    kills: int,
    seed: int,
    options: Options,
    out: Path | None,
    console: Console,
    manifest: Manifest | None = None,
) -> int:
    """Run it; 0 if no checkpoint was lost or half-loaded and the job ended SUCCEEDED by itself, else 1."""
    plan(kills=kills, seed=seed, interval=options.interval, size=1)  # refuse bad input before anything starts
    manifest = manifest or manifest_of(environment, project=PROJECT)
    folder = out or PROJECT / OUT / datetime.now(tz=UTC).strftime("soak-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    with Show(console) as show, (folder / "soak.jsonl").open("w", encoding="utf-8") as log:

        def write(record_type: str, **values: Any) -> None:
            log.write(json.dumps({"t": round(time.time(), 3), "kind": record_type, **values}) + "\n")
            log.flush()

        scene = Scene(manifest=manifest, options=options, listener=show, project=PROJECT)
        try:
            size = scene.size
            kill_plan = plan(kills=kills, seed=seed, interval=options.interval, size=size)
            write("plan", seed=seed, kills=[asdict(kill) for kill in kill_plan], options=asdict(options))
            job = scene.job(steps=length(kills, options), workers=str(size))
            undisturbed = Undisturbed(job, bin_folder=scene.cluster.bin, storage=scene.cluster.fsx)
            try:
                outcomes = _kill_all(scene, job, kill_plan, write=write)
                truth = undisturbed.events(timeout_s=1800)
            finally:
                undisturbed.stop()
            run = next(iter(scene.tails))
            events = scene.tails[run].events
        finally:
            scene.close()
    verdict = compare(
        name=run,
        status=scene.watcher.status,
        submissions=scene.submissions[run],
        events=events,
        undisturbed=truth,
        elastic=False,
    )
    lost = [outcome for outcome in outcomes if outcome.lost_checkpoint]
    times = sorted(outcome.recovery_s or 0 for outcome in outcomes) or [0.0]
    slow, median = times[-1], statistics.median(times)
    from_memory = sum(event.kind == "restore" and event.values.get("path") == "memory" for event in events)
    passed = (
        verdict.status == "SUCCEEDED"
        and verdict.equal
        and not verdict.steps_different
        and not lost
        and verdict.submissions == 1
    )
    summary = {
        "schema_version": 1, "seed": seed, "kills": len(outcomes),
        "inside_a_save": sum(o.kill.kind.startswith("die") for o in outcomes),
        "lost_checkpoints": len(lost), "steps_compared": verdict.steps_compared,
        "steps_different": verdict.steps_different,
        "status": verdict.status, "submissions": verdict.submissions, "slowest_recovery_s": slow,
        "median_recovery_s": median, "restored_from_memory": from_memory, "spare_nodes": options.spares, "good": passed,
    }  # fmt: skip
    with (folder / "soak.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps({"t": round(time.time(), 3), "kind": "summary", **summary}) + "\n")
    console.print(
        f"{len(outcomes)} kills ({summary['inside_a_save']} inside a save), seed {seed}: "
        f"{len(lost)} checkpoints lost, "
        f"{verdict.steps_different} of {verdict.steps_compared} steps off the undisturbed run, {verdict.status}, "
        f"recovery: median {median:.1f} s, slowest {slow:.1f} s, {from_memory} from memory; "
        f"log {folder / 'soak.jsonl'}",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    return 0 if passed else 1


def length(kills: int, options: Options) -> int:
    """Steps of a run that cannot end before the last kill.

    The next kill waits for a warm spare, or for the standbys, and the run continues to train; several spares start
    side by side.
    """
    waits = int(WARM_SECONDS / options.step_delay_s / max(1, options.spares))
    return options.interval * (kills + 3) + kills * waits


def _kill_all(scene: Scene, job: Job, kills: Sequence[Kill], *, write: Any) -> list[Outcome]:
    run = f"{scene.options.job}-soak-{scene.tag}"
    scene.submit(job, run)
    scene.under_way = run, job
    outcomes = []
    since = 0.0
    for kill in kills:
        t = _kill(scene, job, run, kill, since=since)
        scene.note(f"kill {kill.number} of {len(kills)}: {kill.kind}, rank {kill.rank}")

        def again(tail: Any, t: float = t) -> bool:
            restart = next((e for e in tail.events if e.t > t and e.kind == "start" and e.worker), None)
            return restart is not None and any(e.kind == "step" and e.t > restart.t for e in tail.events)

        scene.until(run, job, again, doing=f"recovering from kill {kill.number}")
        outcome = judge(kill, t=t, events=scene.tails[run].events)
        outcomes.append(outcome)
        write("kill", **{k: v for k, v in asdict(outcome).items() if k != "t"}, at=t, lost=outcome.lost_checkpoint)
        since = next(e.t for e in scene.tails[run].events if e.t > t and e.kind == "start" and e.worker)
    scene.until(run, job, lambda tail: scene.watcher.status in FINAL, doing="finishing")
    scene.pump(run, job, doing="finishing")
    return outcomes


def _kill(scene: Scene, job: Job, run: str, kill: Kill, *, since: float) -> float:
    """Wait for the moment, do it, and give the time it happened."""

    def due(tail: Any) -> bool:
        done = sum(e.kind == "step" and e.t > since for e in tail.events)
        if done < kill.steps or not scene.replacement.complete:
            return False
        return scene.warm_spares(tail) > 0 if scene.options.spares else scene.standbys_complete(tail)

    scene.until(run, job, due, doing=f"before kill {kill.number}")
    cluster = scene.cluster
    armed = time.time()
    if kill.kind.startswith("die") or kill.kind == "gpu-error":
        job.arm(cluster, run=run, fault=kill.kind, rank=kill.rank)
        scene.until(
            run,
            job,
            lambda tail: any(e.kind == "fault" and e.t >= armed - 1 for e in tail.events),
            doing=f"kill {kill.number} in a save",
        )
        return next(e.t for e in scene.tails[run].events if e.kind == "fault" and e.t >= armed - 1)
    time.sleep(kill.seconds)
    pods = scene.training_pods()
    pod = pods[kill.rank % len(pods)]
    t = time.time()
    if kill.kind == "node":
        cluster.kill(pod)
    else:
        scene.kill_worker(pod)
    return t
