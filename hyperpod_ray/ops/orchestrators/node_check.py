"""What `nodes check` asks of an orchestrator: to measure nodes with the programs of `hyperpod_ray/ops/acceptance/`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray.core import names

PROGRAMS = Path(__file__).parents[1] / "acceptance"
MARK = "HYPERPOD-RAY-CHECK "
"""Begins the line with the answer; the probes have the same, a test compares."""
MORE_SECONDS = 600.0
"""What a test may take beside its matrix work: start, memory, files, the fabric."""
STORAGE_MIB = 4096


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is measured, and how long."""

    nodes: tuple[str, ...] = ()
    """Only these. Default: all that are free."""
    seconds: float = 60.0
    """Of matrix work."""
    storage: str = ""
    """Folder of the shared file system. Default: a new one below its mount path. `none`: no file is written."""
    storage_mib: int = STORAGE_MIB
    address: str = ""
    """Ray's dashboard that is reachable already."""
    python: str = "python3"
    """On Slurm: the Python with torch."""

    @property
    def folder(self) -> str:
        """Where files are written; empty: nowhere."""
        if self.storage == "none":
            return ""
        base = self.storage.rstrip("/") or names.MOUNT_PATH
        return f"{base}/.nodes-check-{secrets.token_hex(4)}"

    def content(self, **more: Any) -> dict[str, Any]:
        """For a probe."""
        return {
            "seconds": self.seconds, "storage": self.folder, "storage_mib": self.storage_mib,
            "limit": self.seconds + MORE_SECONDS, **more,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the programs answered."""

    answer: Mapping[str, Any]
    """`answers` of the nodes that were measured, the hosts that are `busy`, and `error` where nothing started."""
    hosts: Mapping[str, str]
    """Instance IDs by the names that the answers have."""


def program(name: str) -> str:
    """The text of a program."""
    return (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
