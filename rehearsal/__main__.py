"""`python -m rehearsal …`: the embedded AWS (`aws`), the Ray cluster made from the manifest (`ray`) and `rehearse`."""

from __future__ import annotations

import importlib
import sys

# name -> module with a `main(argv) -> exit code`; imported only when asked for, so that each starts fast
COMMANDS = {
    "aws": "sandbox.aws.cli",
    "ray": "rehearsal.ray_hosts.cli",
    "rehearse": "rehearsal.cli",
    "demo": "rehearsal.demo",
}


def main(argv: list[str]) -> int:
    """Hand the rest of the command line to the command named first; exit code 2 on an unknown name."""
    if not argv or argv[0] not in COMMANDS:
        sys.stderr.write(f"usage: python -m rehearsal {{{','.join(COMMANDS)}}} …\n")
        return 0 if argv[:1] in (["-h"], ["--help"]) else 2
    entry = importlib.import_module(COMMANDS[argv[0]]).main
    return int(entry(argv[1:]) or 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
