"""The next driver: a process that has imported Ray and torch already and waits for its turn.

`hyperpod_ray_training.supervise` keeps one beside the driver and lets it go when a signal kills the driver. The
imports are several seconds of what a lost driver costs.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

MODULES = ("ray.train.torch", "hyperpod_ray_training.resumable", "hyperpod_ray_training.spares.driver")
"""What a driver imports. A module that is missing is left to the script, which may not need it."""
GO, TAKEN = b"go\n", b"taken\n"
"""What the supervisor writes to this process's stdin, a socket, and what this process answers there."""
NAME = "driver-standby"
"""What the process calls itself while it waits (`ps -o comm`)."""


def main(arguments: Sequence[str]) -> int:
    """Import, wait for one line on stdin, and run the script as `python SCRIPT ARGUMENTS` does; 0 where none comes."""
    before = _rename(NAME)
    for module in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    if sys.stdin.buffer.readline() != GO:
        return 0
    os.write(sys.stdin.fileno(), TAKEN)
    _rename(before)
    script = arguments[0]
    sys.argv = list(arguments)
    sys.path[0] = str(Path(script).resolve().parent)  # `python -m` put the working directory there
    runpy.run_path(script, run_name="__main__")
    return 0


def _rename(name: str) -> str:
    """Give this process another name where the system has names; the one before."""
    file = Path("/proc/self/comm")
    with contextlib.suppress(OSError):
        before = file.read_text(encoding="utf-8").strip()
        file.write_text(name, encoding="utf-8")
        return before
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
