"""How many steps a rehearsal takes."""

from __future__ import annotations

from collections.abc import Sequence

from hyperpod_ray_sandbox.rehearsal.faults import Fault
from hyperpod_ray_sandbox.rehearsal.options import Options

WARM_SECONDS = 12  # from a node's replacement to a warm spare: Ray's worker starts, imports and rehearses


def run_lengths(options: Options, faults: Sequence[Fault], *, fault_tolerant: bool) -> tuple[int, int]:
    """Steps of the run whose size is fixed, and of the run whose size changes.

    Each fault costs one new checkpoint. A fault that does not interrupt training needs further steps. The next fault
    waits until a replaced node is a warm spare, and training continues in that time.
    """
    fixed, changing = [f for f in faults if not f.elastic], [f for f in faults if f.elastic]
    steps = options.interval * (len(faults) + 3)
    steps += sum(f.extra_steps(options, fault_tolerant=fault_tolerant) for f in fixed)
    if options.spares and fixed:
        steps += (len(fixed) - 1) * int(WARM_SECONDS / options.step_delay_s)
    return steps, steps + sum(f.extra_steps(options, fault_tolerant=fault_tolerant) for f in changing)
