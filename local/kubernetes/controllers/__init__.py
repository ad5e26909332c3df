"""Small models of the controllers of a cluster: for rehearsal, each a documented rule, none of it Kubernetes' code."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.kubernetes.api import Api
from local.kubernetes.status import no_such_path


@dataclass(frozen=True)
class Settings:
    """What the controllers need to know; `time_scale` is seconds here per second in real life."""

    aws_endpoint: str = ""
    region: str = "us-west-2"
    eks_cluster: str = ""
    poll_seconds: float = 1.0
    time_scale: float = 0.05
    static_nodes: Path | None = None


class Controllers:
    """Runs all controllers."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self.api = api
        self.settings = settings

    def hook(self, method: str, path: str, body: Any) -> Any:
        """`/rehearsal/…` requests."""
        raise no_such_path()

    async def run(self) -> None:
        """Run until cancelled."""
        await asyncio.Event().wait()
