"""What a rehearsal's `report.json` says about a lost node."""

from __future__ import annotations

import json
from pathlib import Path

from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner.outlook import Rehearsed


def read(path: Path) -> Rehearsed:
    """Detection and restart after the loss of a node.

    Raises:
        PlanError: the file is no report, or holds no lost node that was recovered from.
    """
    try:
        faults = json.loads(path.read_text(encoding="utf-8"))["faults"]
        lost = [one for one in faults if one["fault"] == "node" and one["survived"]]
        times = [(float(one["detected_after_s"]), float(one["resumed_after_s"])) for one in lost]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanError(
            f"--rehearsal {path}: no report of a rehearsal ({error})",
            expected="a report of a rehearsal",
            fix="give the report.json that it wrote",
        ) from None
    if not times:
        raise PlanError(
            f"--rehearsal {path}: no lost node that was recovered from",
            expected="one",
            fix="rehearse with --faults node",
        )
    detect = max(one for one, _ in times)
    return Rehearsed(detect=detect, start=max(end - begin for begin, end in times), source=str(path))
