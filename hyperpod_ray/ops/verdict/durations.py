"""How long things usually take, in minutes: public reports of AWS and its users, not measurements of this project."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, kw_only=True)
class Usual:
    """A usual span; past twice its upper end something is taken for stuck."""

    least: int
    most: int

    def by(self, start: datetime | None) -> datetime | None:
        """When it should be over."""
        return start + timedelta(minutes=self.most) if start else None

    def overdue(self, start: datetime | None, at: datetime) -> bool:
        """Whether it takes so long that waiting is no longer the advice."""
        return start is not None and at > start + timedelta(minutes=2 * self.most)

    def __str__(self) -> str:
        return f"{self.least}–{self.most} min"


DEPLOY = Usual(least=50, most=90)
CLUSTER = Usual(least=15, most=25)
NODE = Usual(least=10, most=25)
"""Launch to Ready of one node, without deep health checks."""
DEEP_CHECK = Usual(least=60, most=120)
REPLACEMENT = Usual(least=20, most=30)
"""Without the deep health checks that follow where they are on."""
REBOOT = Usual(least=1, most=10)
SOFTWARE = Usual(least=30, most=60)
FILE_SYSTEM = Usual(least=8, most=15)
FILE_SYSTEM_DELETION = Usual(least=3, most=15)
RAY = Usual(least=3, most=15)
"""Pods to ready, with an image of 15–20 GB to pull."""
