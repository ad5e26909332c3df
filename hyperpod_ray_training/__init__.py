"""Training that survives: resume, checkpoints that count only when complete, drain notices, timeouts from one place.

Importing this package is cheap: torch and ray load on first use of the names that need them, so that `k8s/` can render
the same settings without either.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hyperpod_ray_training.errors import InputError, Unrecoverable
from hyperpod_ray_training.settings import Settings

if TYPE_CHECKING:
    from hyperpod_ray_training.exact import EpochBatches
    from hyperpod_ray_training.order import batch_of, share_of
    from hyperpod_ray_training.resumable import Resumable, ensure_process_group
    from hyperpod_ray_training.rows import Rows
    from hyperpod_ray_training.run import Run, add_arguments, main_of, run_from
    from hyperpod_ray_training.stateful import Values

__version__ = "0.3.0"

__all__ = [
    "EpochBatches",
    "InputError",
    "Resumable",
    "Rows",
    "Run",
    "Settings",
    "Unrecoverable",
    "Values",
    "add_arguments",
    "batch_of",
    "ensure_process_group",
    "main_of",
    "run_from",
    "share_of",
]

_LAZY = {
    "Values": "hyperpod_ray_training.stateful",
    "EpochBatches": "hyperpod_ray_training.exact",
    "Rows": "hyperpod_ray_training.rows",
    "Resumable": "hyperpod_ray_training.resumable",
    "ensure_process_group": "hyperpod_ray_training.resumable",
    "Run": "hyperpod_ray_training.run",
    "add_arguments": "hyperpod_ray_training.run",
    "main_of": "hyperpod_ray_training.run",
    "run_from": "hyperpod_ray_training.run",
    "batch_of": "hyperpod_ray_training.order",
    "share_of": "hyperpod_ray_training.order",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
