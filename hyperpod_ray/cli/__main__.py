"""The command's start: what is imported first can be interrupted, too."""

from __future__ import annotations

import gc
import sys


def start() -> None:
    """Entry point of the installed command."""
    # most of a short command's objects are classes that stay: looking for garbage among them takes a tenth of its time
    gc.set_threshold(100_000, 20, 100)
    try:
        from hyperpod_ray.cli.main import script
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None
    script()


if __name__ == "__main__":
    start()
