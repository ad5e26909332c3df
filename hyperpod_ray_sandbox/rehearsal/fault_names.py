"""Whether a rehearsal knows faults by their names."""

from __future__ import annotations

from collections.abc import Sequence

from hyperpod_ray_rules.faults import NAMES
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError


def require_known(names: Sequence[str]) -> None:
    """Refuse an unknown name, and no name at all.

    Raises:
        LocalError: with every name that is unknown.
    """
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        raise LocalError(
            f"--faults: {', '.join(unknown) or 'none'}",
            expected=f"some of {', '.join(NAMES)}",
            fix="correct the names",
        )
