"""How many steps a rehearsal takes."""

from __future__ import annotations

from collections.abc import Sequence

from hyperpod_ray_sandbox.rehearsal.faults import Fault
from hyperpod_ray_sandbox.rehearsal.options import Options

WARM_SECONDS = 12  # from a fault to a warm spare, or a standby: Ray's worker starts, imports and perhaps rehearses


def may_hold(faults: Sequence[Fault]) -> bool:
    """Whether ranks may wait at a step for spares and standbys: not before an agent that ends a job without steps."""
    return not any(fault.watched for fault in faults)


def held_after(options: Options, faults: Sequence[Fault], *, steps: int, fault_tolerant: bool) -> int:
    """Steps after which the ranks of a run of `steps` wait for the first of these faults.

    On a busy machine a run could end before the fault comes. Each fault has steps left to recover in.
    """
    return steps - sum(
        max(1, options.interval // 2) + fault.extra_steps(options, fault_tolerant=fault_tolerant) for fault in faults
    )


def run_lengths(options: Options, faults: Sequence[Fault], *, fault_tolerant: bool) -> tuple[int, int]:
    """Steps of the run whose size is fixed, and of the run whose size changes.

    Each fault costs one new checkpoint. A fault that does not interrupt training needs further steps. The next fault
    waits until a replaced node is a warm spare and each node has a standby. Where the ranks may not wait for that at a
    step, training continues in that time, and an interval more.
    """
    fixed, changing = [f for f in faults if not f.elastic], [f for f in faults if f.elastic]
    steps = options.interval * (len(faults) + (2 if may_hold(faults) else 3))
    steps += sum(f.extra_steps(options, fault_tolerant=fault_tolerant) for f in fixed)
    if fixed and (options.spares or options.standbys) and not may_hold(faults):
        steps += len(fixed) * int(WARM_SECONDS / options.step_delay_s)
    return steps, steps + sum(f.extra_steps(options, fault_tolerant=fault_tolerant) for f in changing)
