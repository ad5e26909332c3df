"""Settings of the controllers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """What the controllers need to know; `time_scale` is seconds here per second in real life."""

    aws_endpoint: str = ""
    region: str = "us-west-2"
    eks_cluster: str = ""
    poll_seconds: float = 1.0
    time_scale: float = 0.05
    static_nodes: Path | None = None
    entrypoints: tuple[str, ...] = ()
    """The program that runs entrypoints of RayJobs; empty where this machine has no Ray."""
    runs: Path = Path("rayjobs")
    """Where each of their runs has a folder."""
