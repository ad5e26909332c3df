"""The command's start: what is imported first can be interrupted, too."""

from __future__ import annotations

import sys


def start() -> None:
    """Entry point of the installed command."""
    try:
        from hyperpod_ray.cli.main import script
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None
    script()


if __name__ == "__main__":
    start()
