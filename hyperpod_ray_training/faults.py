"""Faults on request, for rehearsals and tests only: nothing here acts unless RESILIENCE_FAULT_HOOKS=1 is set.

A file in `<run>/faults/` triggers the fault once and is removed by the rank that obeys it:

- `hang-rank-N`: rank N stops at the start of a step and does not continue;
- `die-rank-N`: rank N is killed (SIGKILL) at the start of a step;
- `gpu-error-rank-N`: rank N raises what a GPU with an uncorrectable memory error does, at the start of a step;
- `die-before-shard-rank-N`: killed in the middle of a save, before its shard is written;
- `die-after-shard-rank-N`: killed in the middle of a save, after its shard is on disk;
- `die-before-metadata-rank-0`: killed when all shards are on disk and only the completeness mark is missing;
- `disk-full-rank-N`, `quota-full-rank-N`, `read-only-rank-N`: rank N's next shard meets a full disk, a full quota of
  its user, or a read-only file system;
- `slow-storage-rank-N`: rank N's next shard takes eight seconds longer;
- `clock-jump-rank-N`: rank N's wall clock jumps by an hour.

While the file `hold` is there, every rank waits at the start of a step, or once it has done as many steps as the file
says. No rank removes it.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

SWITCH = "RESILIENCE_FAULT_HOOKS"
FOLDER, HOLD = "faults", "hold"
HOLD_POLL_S = 0.05
SLOW_STORAGE_S, CLOCK_JUMP_S = 8.0, 3600.0


class FaultHooks:
    """Looks for this rank's fault files under `folder`; inert without the environment switch."""

    def __init__(self, *, folder: Path | None, rank: int, announce: Callable[..., None]) -> None:
        self.folder = folder if os.environ.get(SWITCH) == "1" else None
        self.rank = rank
        self.announce = announce

    def _take(self, name: str) -> bool:
        if self.folder is None:
            return False
        try:
            (self.folder / f"{name}-rank-{self.rank}").unlink()
        except OSError:
            return False
        self.announce("fault", rank=self.rank, fault=name)
        return True

    def holds(self, step: int) -> bool:
        """Whether ranks that have done so many steps wait."""
        if self.folder is None:
            return False
        try:
            return step >= int((self.folder / HOLD).read_text() or 0)
        except FileNotFoundError:
            return False

    def wait(self, step: int) -> None:
        """Return once nothing holds ranks that have done so many steps."""
        while self.holds(step):
            time.sleep(HOLD_POLL_S)

    def at_step(self) -> None:
        """Called at the start of a step."""
        if self._take("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._take("gpu-error"):
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
        if self._take("hang"):
            stuck = threading.Lock()
            with stuck:
                stuck.acquire()  # as a thread that waits for its device, or for a lock that nobody returns

        if self._take("clock-jump"):
            real = time.time
            time.time = lambda: real() + CLOCK_JUMP_S

    def at_shard(self) -> None:
        """Called where a shard is about to be written."""
        if self._take("slow-storage"):
            time.sleep(SLOW_STORAGE_S)
        for name, number in (("disk-full", errno.ENOSPC), ("quota-full", errno.EDQUOT), ("read-only", errno.EROFS)):
            if self._take(name):
                raise OSError(number, os.strerror(number))

    def in_save(self, moment: str) -> None:
        """Called inside a save; `moment` is before-shard, after-shard or before-metadata."""
        if self._take(f"die-{moment}"):
            os.kill(os.getpid(), signal.SIGKILL)
