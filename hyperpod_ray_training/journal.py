"""What a run writes about itself: `progress.json` and `events.jsonl`.

The first says where it stands and is replaced atomically; the second says what happened.

`progress.json`: version, name, state (starting, restoring, running, saving, paused, draining, recovering, done,
failed) and state_t, t (unix seconds of this writing), started_t (driver) and begun_t (workers), last_step and
last_step_t, step_s (median of the newest steps), best_step_s (the best that it has been) and pauses_s (the longest
between two steps), where the loop notes parts of its steps also last_part_t, part_s and part_pauses_s,
copy_every_steps (with spares: steps from one copy in memory to the next),
last_checkpoint_step, last_checkpoint_t and last_checkpoint_path, total_steps, world_size, device, attempt, metrics,
last_error. Watch the *age* of the last step and checkpoint: after a head failover a dead job can read RUNNING for
minutes. `hyperpod-ray status` does, by `hyperpod_ray_training.publish`.

`events.jsonl`: one JSON object a line with t, kind and what the kind needs (step, loss, world, rank, node, path,
seconds …). `hyperpod_ray_training.history` lists the kinds and adds them up; what a run's events add up to is `history`
of `progress.json`, so that nobody has to read a long file twice, and a run on object storage has its totals too.

Neither may ever stop a training run: on a full disk they are skipped, and the first failure is reported on stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperpod_ray_training.history import KINDS, Event, History, whole
from hyperpod_ray_training.room import advice

if TYPE_CHECKING:  # `hyperpod_ray_training.supervise` imports this module, and has no use for file systems
    from hyperpod_ray_training.folder import RunFolder

PROGRESS = "progress.json"
EVENTS = "events.jsonl"
_PROGRESS_EVERY_S = 1.0
_wall_clock = time.time  # bound here: the fault `clock-jump` shifts `time.time` and its journal must not move with it
_PROGRESS_EVERY_REMOTE_S = 15.0
_HISTORY_EVERY_S = 10.0
_CATCH_UP_BYTES = 1 << 20
"""Of `events.jsonl`, read at once between two steps: some ten milliseconds, after an earlier version wrote the run."""


def log(text: str) -> None:
    """The one place that prints: a line on stderr, which is the job's driver log."""
    sys.stderr.write(f"[resilience] {text}\n")
    sys.stderr.flush()


class Journal:
    """Writes progress and events of one run; a silent one (`enabled=False`) for the ranks that do not.

    On object storage `events.jsonl` is not written (objects cannot be appended to) and progress at most every 15 s.
    """

    def __init__(self, folder: RunFolder, *, name: str, enabled: bool = True) -> None:
        self.folder = folder
        self.enabled = enabled
        self.complained = False
        self.written_t = 0.0
        self.every_s = _PROGRESS_EVERY_S if folder.local else _PROGRESS_EVERY_REMOTE_S
        self.progress: dict[str, Any] = {"version": 1, "name": name}
        if enabled:
            self.progress |= self._read()
        self.history = History.kept(self.progress.get("history"))
        self.added_t, self.unwritten = 0.0, list[Event]()

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.folder.fs.cat_file(self.folder.at(PROGRESS)))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def event(self, event_kind: str, *, always: bool = False, **fields: Any) -> None:
        """Append one line; `always` also from ranks that otherwise stay silent (faults, errors)."""
        if event_kind not in KINDS:
            raise ValueError(f"event kind: got {event_kind!r}, allowed: {', '.join(sorted(KINDS))}")
        if not (self.enabled or always):
            return
        if not self.folder.local:
            self.unwritten.append(Event(_wall_clock(), event_kind, whole(fields.pop("step", None)), fields))
            return
        line = json.dumps({"t": round(_wall_clock(), 3), "kind": event_kind, **fields}, default=str) + "\n"
        try:
            # one write to a file opened for appending: lines of several processes do not mix
            handle = os.open(self.folder.at(EVENTS), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)
        except OSError as error:
            self._complain(EVENTS, error)

    def update(self, *, at_once: bool = False, **fields: Any) -> None:
        """Change fields of the progress file; written at most once a second unless `at_once`."""
        if "state" in fields and fields["state"] != self.progress.get("state"):
            fields["state_t"] = round(_wall_clock(), 3)
        self.progress |= fields
        if not self.enabled or (not at_once and time.time() - self.written_t < self.every_s):
            return
        self.written_t = time.time()
        self.progress["t"] = round(self.written_t, 3)
        self._add_up(at_once=at_once)
        content = json.dumps(self.progress, default=str, indent=1).encode()
        try:
            if not self.folder.local:
                self.folder.fs.pipe_file(self.folder.at(PROGRESS), content)
                return
            temporary = Path(self.folder.at(f".{PROGRESS}.{os.getpid()}"))
            try:
                temporary.write_bytes(content)
                temporary.replace(self.folder.at(PROGRESS))
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            self._complain(PROGRESS, error)

    def _add_up(self, *, at_once: bool) -> None:
        """Bring `history` up to date; compact, because it is written with every step's progress."""
        if not at_once and abs(time.time() - self.added_t) < _HISTORY_EVERY_S:
            return
        self.added_t = time.time()
        try:
            written = History.kept(self.progress.get("history"))
            if written.newer_than(self.history):  # another process of this run has read on
                self.history = written
            while self.unwritten:
                self.history.feed(self.unwritten.pop(0))
            if self.folder.local:
                self.history.take_up(self.folder.at(EVENTS), most_bytes=_CATCH_UP_BYTES)
            self.progress["history"] = json.dumps(self.history.summary(), separators=(",", ":"), default=str)
        except Exception as error:
            self._complain("history", OSError(f"{type(error).__name__}: {error}"))

    def _complain(self, file: str, error: OSError) -> None:
        if not self.complained:
            self.complained = True
            said = f"{self.folder.at(file)}: not written ({error.strerror or error}); training continues without it"
            log(f"{said}. To make room, {hint}" if (hint := advice(error, self.folder.path)) else said)
