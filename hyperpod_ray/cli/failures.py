"""How a command ends: its exit codes, and a failure as JSON."""

from __future__ import annotations

from hyperpod_ray.core.secret_words import masked
from hyperpod_ray.ops.errors import OpsError

EXIT_CODES = (
    (0, "success"),
    (1, "error: the command failed"),
    (2, "bad usage or an invalid environment file; nothing was done"),
    (3, "the condition is false: not healthy, a check failed, a review stops a deploy, a generated file is stale"),
    (4, "timeout; what the command waited for continues"),
    (130, "interrupted by Ctrl-C"),
)


def failure(error: OpsError) -> dict[str, dict[str, str | int]]:
    """What a JSON document says of a failure."""
    what, expected, fix = masked(error.what), masked(error.expected), masked(error.fix)
    return {"error": {"what": what, "expected": expected, "fix": fix, "code": error.code}}
