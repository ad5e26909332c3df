"""Names of the faults that a rehearsal injects: the sandbox implements them, and the command names them in its help."""

from __future__ import annotations

NAMES = (
    "worker", "freeze-worker", "node", "freeze", "hang", "gpu-error", "hung-job", "drain", "elastic", "driver", "head",
    "two-at-once", "during-recovery", "flap", "spares-exhausted", "spareless", "coordinator", "writer",
    "disk-full", "read-only", "slow-storage", "clock-jump",
)  # fmt: skip
"""In the order of the help."""
