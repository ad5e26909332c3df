"""What a rehearsal's `report.json` says about a lost node."""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray.planner import PlanError, reading
from hyperpod_ray.planner.outlook import Rehearsed


def read(path: Path) -> Rehearsed:
    """Detection and restart after the loss of a node.

    Raises:
        PlanError: the file is no report, or holds no lost node that was recovered from.
    """
    fix = "give the report.json that it wrote"
    raw = reading.json_object(path, option="--rehearsal", fix=fix)
    try:
        lost = [fault for fault in raw["faults"] if fault["fault"] == "node" and fault["survived"]]
        times = [(fault["detected_after_s"], fault["resumed_after_s"]) for fault in lost]
    except (KeyError, TypeError) as error:
        raise PlanError(
            f"--rehearsal {path}: no report of a rehearsal ({error})", expected="a report of a rehearsal", fix=fix
        ) from None
    for detected, resumed in times:
        name = f"--rehearsal {path}: "
        at = reading.number(detected, name=f"{name}detected_after_s", low=0, high=86_400, fix=fix)
        reading.number(resumed, name=f"{name}resumed_after_s", low=at, high=86_400, fix=fix)
    if not times:
        raise PlanError(
            f"--rehearsal {path}: no lost node that was recovered from",
            expected="one",
            fix="rehearse with --faults node",
        )
    detect = max(delay for delay, _ in times)
    return Rehearsed(detect=detect, start=max(ended - begin for begin, ended in times), source=str(path))
