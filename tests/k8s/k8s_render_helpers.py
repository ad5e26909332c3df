"""What `test_k8s_render.py`, `test_manifests.py`, `test_charts.py` share."""

from __future__ import annotations

from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
