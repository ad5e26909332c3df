"""A run's own measured speed, from what it writes about itself: `progress.json` or `events.jsonl`.

`progress.json` has the median of the newest steps: the speed of steps alone. `events.jsonl` has every step with its
time: over a day or more that is the speed of a whole run, with its restarts, saves and evaluation in it.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from hyperpod_ray.planner import PlanError, reading
from hyperpod_ray.planner.job import Job
from hyperpod_ray.planner.ranges import DAY

FIX = "give progress.json or events.jsonl of a run of this job, with its --batch-tokens"
LONGEST_LINE = 1_000_000
NEWEST = 1000
"""Steps whose median is the speed of steps alone."""
WHOLE = DAY
"""A record so long counts as a whole run: restarts, saves and evaluation are in it."""


@dataclass(kw_only=True)
class _Record:
    """Steps of one journal, in constant memory."""

    first: float = math.nan
    last: float = math.nan
    begun: int = -1
    reached: int = -1
    """The largest step: steps that were done again count once."""
    gpu_seconds: float = 0.0
    world: int = 0
    steps: int = 0
    pace: deque[float] = field(default_factory=lambda: deque(maxlen=NEWEST))
    """GPU seconds of one step, of the newest ones."""
    previous: int = -1

    def add(self, at: float, step: int, world: int) -> None:
        """One more step."""
        if self.steps:
            passed = at - self.last
            if passed < 0:
                return  # a clock that went back
            self.gpu_seconds += passed * world
            if step > self.previous and world == self.world:
                self.pace.append(passed * world / (step - self.previous))
        else:
            self.first, self.begun = at, step
        self.last, self.world, self.previous = at, world, step
        self.reached = max(self.reached, step)
        self.steps += 1


def measured(job: Job, path: Path) -> Job:
    """The job with the speed that a run of it had.

    Raises:
        PlanError: the file is none of a run, or has too few steps.
    """
    if path.suffix == ".jsonl":
        speed, words, whole_run = _events(path, job.batch_tokens)
    else:
        speed, words = _progress(path, job.batch_tokens)
        whole_run = False
    speed = reading.number(speed, name=f"--from-run {path}: tokens per second", low=1e-3, high=1e7, fix=FIX)
    return replace(job, tokens_per_second=speed, measured=words, whole=whole_run)


def _progress(path: Path, batch: float) -> tuple[float, str]:
    raw = reading.json_object(path, option="--from-run", fix=FIX)
    step, world = raw.get("step_s"), raw.get("world_size")
    seconds = reading.number(step, name=f"--from-run {path}: step_s", low=1e-4, high=1e6, fix=FIX)
    ranks = reading.number(world, name=f"--from-run {path}: world_size", low=1, high=1e6, fix=FIX, integer=True)
    words = f"measured: {seconds:.4g} s a step of {batch:,.0f} tokens on {ranks:.0f} GPUs ({path.name})"
    return batch / (seconds * ranks), words


def _events(path: Path, batch: float) -> tuple[float, str, bool]:
    record = _Record()
    for event in _lines(path):
        at, step, world = event.get("t"), event.get("step"), event.get("world")
        if event.get("kind") != "step" or not isinstance(at, int | float) or not 0 < at < 1e11:
            continue
        if isinstance(step, int) and isinstance(world, int) and 0 < world <= 10**6 and 0 <= step <= 10**12:
            record.add(float(at), step, world)
    passed = record.last - record.first
    gained = record.reached - record.begun
    if gained < 1 or not record.pace or record.gpu_seconds <= 0:
        raise PlanError(
            f"--from-run {path}: {record.steps} steps with a time",
            expected="two steps or more, with t, step and world",
            fix=FIX,
        )
    if passed >= WHOLE:
        speed = batch * gained / record.gpu_seconds
        words = f"measured over {passed / DAY:.1f} days: {gained:,} steps, everything in them ({path.name})"
        return speed, words, True
    speed = batch / statistics.median(record.pace)
    words = f"measured: the median of {len(record.pace)} steps on {record.world} GPUs ({path.name})"
    return speed, words, False


def _lines(path: Path) -> Iterator[dict[str, object]]:
    """Objects of a file of lines; a line that is none is passed over, as a torn last one is."""
    try:
        with reading.opened(path) as stream:
            while line := stream.readline(LONGEST_LINE):
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(value, dict):
                    yield value
    except OSError as error:
        raise PlanError(f"--from-run {path}: {error.strerror}", expected="a file of a run", fix=FIX) from None
