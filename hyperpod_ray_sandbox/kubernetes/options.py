"""What a request asks besides its object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray_sandbox.kubernetes.authorization.users import Identity

Json = dict[str, Any]


@dataclass
class Options:
    """What a request asks besides its object."""

    dry_run: bool = False
    manager: str | None = None
    validation: str = "Warn"
    force: bool = False
    propagation: str = "Background"
    grace_seconds: int | None = None
    preconditions: Json = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    # None for the control plane's own components
    user: Identity | None = None
    # paths of fields that the client gave twice
    doubled: list[str] = field(default_factory=list)
