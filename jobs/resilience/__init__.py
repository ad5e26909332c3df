"""Training that survives: resume, checkpoints that count only when complete, drain notices, timeouts from one place.

Importing this package is cheap: torch and ray load on first use of the names that need them, so that `k8s/` can render
the same settings without either.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jobs.resilience.errors import InputError, Unrecoverable
from jobs.resilience.settings import Settings

if TYPE_CHECKING:
    from jobs.resilience.order import batch_of, share_of
    from jobs.resilience.resumable import Resumable
    from jobs.resilience.run import Run, add_arguments, main_of, run_from

__all__ = [
    "InputError",
    "Resumable",
    "Run",
    "Settings",
    "Unrecoverable",
    "add_arguments",
    "batch_of",
    "main_of",
    "run_from",
    "share_of",
]

_LAZY = {
    "Resumable": "jobs.resilience.resumable",
    "Run": "jobs.resilience.run",
    "add_arguments": "jobs.resilience.run",
    "main_of": "jobs.resilience.run",
    "run_from": "jobs.resilience.run",
    "batch_of": "jobs.resilience.order",
    "share_of": "jobs.resilience.order",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
