"""Runs a job's command, and prints into its log from time to time what its run folder says.

On a cluster of a job's own, the log is what its owner can read whenever they like: while the job runs, when its
cluster is gone, and without a right to any other cluster. A report is the line of `runs.py` with fewer points.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NoReturn

from . import notice, runs
from .history import History

EVERY_S, MOST_S, SHARE = 60.0, 600.0, 0.01
"""Seconds between two reports: a hundredth of the run's time, so that a long run's log stays readable."""
CHECKPOINTS = 20


def run(words: list[str], folder: str, address: str = "") -> NoReturn:
    """Run a command, and end as it ends.

    Args:
        words: The command.
        folder: Its run folder, for reports; empty for none.
        address: Where its end is posted; empty for nowhere.
    """
    begun = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # Ray sends them to the command too, whose end counts
    child = subprocess.Popen(words)
    if folder:
        threading.Thread(target=_report, args=(folder,), daemon=True).start()
    code = child.wait()
    if folder:
        publish(folder)
    if address:
        notice.post(address, notice.text(code, time.monotonic() - begun))
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)  # SIGKILL's cannot be set, and is this already
        os.kill(os.getpid(), -code)
    sys.stdout.flush()
    os._exit(code)


def _report(folder: str) -> None:
    begun, previous = time.monotonic(), ""
    while True:
        time.sleep(min(MOST_S, max(EVERY_S, SHARE * (time.monotonic() - begun))))
        previous = publish(folder, previous=previous)


def publish(folder: str, *, previous: str = "") -> str:
    """Print a report where there is something new. What cannot be read is no reason to end a job."""
    with contextlib.suppress(Exception):
        run_data = runs.read(folder)
        fresh = json.dumps([run_data["progress"], run_data["checkpoints"]])
        if run_data["found"] and fresh != previous:
            sys.stdout.write(f"{runs.MARK}{json.dumps([shortened(run_data)])}\n")
            sys.stdout.flush()
        return fresh
    return previous


def shortened(run_data: dict[str, Any]) -> dict[str, Any]:
    """A report of some kilobytes."""
    history = History.kept(run_data["history"])
    history.shorten()
    return {**run_data, "history": history.summary(), "checkpoints": run_data["checkpoints"][:CHECKPOINTS]}
