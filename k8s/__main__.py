"""`python -m k8s …`: manifests as files, a RayJob as YAML, and the charts."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    """Run the command line with the project's own Node.js, which jsii starts, in front."""
    node = Path(sys.executable).parent / "node"
    if node.exists():
        os.environ["PATH"] = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    from k8s.cli import run  # noqa: PLC0415  (importing cdk8s starts Node)

    return run(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
