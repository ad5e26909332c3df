"""How long training stands still and how much of it is lost, beside baselines measured in the same session.

    .venv/bin/python benchmarks/recovery.py [--runs 5] [--ranks-per-node 2] [--faults worker,node,…] [--json FILE]

Columns: a warm spare, no spare (as shipped: a standby on each node, and the others keep their processes), a restart of
all (no standby either: from the checkpoint), Ray's defaults (the same job; every tuned setting put back to what Ray
2.60 and torch ship with), and the AWS article's way (a checkpoint per epoch,
no `get_checkpoint()`, Ray's defaults). Each cell is the median of `--runs` faults of a kind, with the least and the
most. "not within N s" means that the benchmark stopped waiting, not that it would never come back. `--goals` holds the
first column against the goals of the project.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from hyperpod_ray_sandbox.rehearsal import Options, Report, run  # noqa: E402
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError  # noqa: E402
from hyperpod_ray_sandbox.rehearsal.report import FaultReport  # noqa: E402
from hyperpod_ray_sandbox.rehearsal.terminal import Show  # noqa: E402

# what Ray 2.60.0 (ray_config_def.h, ray/train/v2/_internal/constants.py) and torch 2.13 do when nobody says otherwise
RAY_DEFAULT_NODE = {
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "3000",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_raylet_liveness_self_check_interval_ms": "60000",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "2",
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "600",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "60",
    "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": "1000000",  # no limit; unset would let the manifest's value through
    "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "5",
}
RAY_DEFAULT_JOB = {
    **{key: value for key, value in RAY_DEFAULT_NODE.items() if "TRAIN" in key},
    "RESILIENCE_PROCESS_GROUP_TIMEOUT_S": "1800",
    "RESILIENCE_STANDBY_WORKERS": "0",
}


@dataclass(frozen=True, kw_only=True)
class Way:
    """One column."""

    title: str
    pod_env: dict[str, str] = field(default_factory=dict)
    job_env: dict[str, str] = field(default_factory=dict)
    job_folder: Path | None = None
    undisturbed: bool = True
    spares: int = 0


WAYS = (
    Way(title="a warm spare", spares=1),
    Way(title="no spare"),
    Way(title="a restart of all", job_env={"RESILIENCE_STANDBY_WORKERS": "0"}),
    Way(title="Ray's defaults", pod_env=RAY_DEFAULT_NODE, job_env=RAY_DEFAULT_JOB),
    Way(
        title="the AWS article's way",
        pod_env=RAY_DEFAULT_NODE,
        job_env=RAY_DEFAULT_JOB,
        job_folder=PROJECT / "benchmarks" / "article_way",
        undisturbed=False,
    ),
)


# seconds of the median, on a machine with nothing else to do; elastic is the shrink, without a spare
GOALS_WITHOUT_A_SPARE = {"worker": 2.0, "freeze-worker": 3.0, "hang": 5.0}
GOALS = {
    "worker": 0.7,
    "node": 1.0,
    "freeze": 2.2,
    "hang": 4.0,
    "drain": 1.5,
    "driver": 15.0,
    "head": 20.0,
    "elastic": 2.0,
}


def cell(faults: Sequence[FaultReport], *, waited_s: float) -> str:
    """Seconds and lost steps of the faults of one kind in one way: median, and from least to most."""
    if not faults:
        return "not measured"
    if lost := sum(not fault.survived for fault in faults):
        return f"not within {waited_s:g} s" + (f" ({lost} of {len(faults)})" if len(faults) > 1 else "")
    if not any(fault.interrupted for fault in faults):
        return "no interruption"
    seconds = sorted(fault.recovery_s or 0.0 for fault in faults)
    text = f"{statistics.median(seconds):.1f} s"
    if len(seconds) > 1:
        text += f" ({seconds[0]:.1f} to {seconds[-1]:.1f})"
    return f"{text}, {statistics.median_low(fault.steps_lost for fault in faults)} steps"


def missed(name: str, faults: Sequence[FaultReport], goals: Mapping[str, float]) -> str | None:
    """What of a goal is not reached; None where it is, or there is none."""
    goal = goals.get(name)
    if goal is None or not faults:
        return None
    if not all(fault.survived for fault in faults):
        return f"{name}: not survived"
    median = statistics.median(fault.recovery_s or 0.0 for fault in faults)
    return f"{name}: {median:.1f} s, goal {goal:g} s" if median > goal else None


def main(argv: list[str]) -> int:
    """Measure every way and print the table; 0 if this project's column has no "not within"."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="local", help="environment or manifest (local)")
    parser.add_argument("--faults", default="worker,node,freeze,hang,drain")
    parser.add_argument("--wait", type=float, default=120, help="seconds to wait for a new step after a fault (120)")
    parser.add_argument("--runs", type=int, default=1, help="faults of each kind (1)")
    parser.add_argument("--ways", default=",".join(way.title for way in WAYS), help="columns, by their titles (all)")
    parser.add_argument("--ranks-per-node", type=int, default=1, help="training processes of each of two nodes (1)")
    parser.add_argument("--goals", action="store_true", help="exit code 3 where the first column misses a goal")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    console = Console()
    faults = options.faults.split(",")
    ways = [way for way in WAYS if way.title in options.ways.split(",")]
    if not ways or options.runs < 1:
        parser.error(
            f"--ways: got {options.ways!r}, allowed: {', '.join(way.title for way in WAYS)}; --runs: 1 or more"
        )
    reports: dict[str, Report] = {}
    try:
        for way in ways:
            console.rule(way.title)
            settings = Options(
                fault_timeout_s=options.wait,
                pod_env=way.pod_env,
                job_env=way.job_env,
                job_folder=way.job_folder,
                undisturbed=way.undisturbed,
                spares=way.spares,
                ranks_per_node=options.ranks_per_node,
            )
            repeated = [name for name in faults for _ in range(options.runs)]
            with Show(console) as show:
                reports[way.title] = run(options.env, faults=repeated, options=settings, listener=show)
    except LocalError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.code
    table = Table(title="seconds without a new step and steps to be done again, by fault", title_justify="left")
    table.add_column("fault")
    for title in reports:
        table.add_column(title)
    found: dict[str, dict[str, Any]] = {}
    for name in faults:
        cells = []
        for title, report in reports.items():
            of_kind = [one for one in report.faults if one.fault == name]
            cells.append(cell(of_kind, waited_s=options.wait))
            found.setdefault(name, {})[title] = [fault.__dict__ for fault in of_kind]
        table.add_row(name, *cells)
    console.print(table)
    first = reports[ways[0].title]
    console.print(
        f"{first.settings['ranks']} ranks, checkpoint every {first.settings['interval_steps']} steps, "
        f"{options.runs} of each; {first.machine}",
        highlight=False,
    )
    for title, report in reports.items():
        equal = sum(one.steps_compared - one.steps_different for one in report.runs)
        console.print(
            f"{title}: {equal} of {sum(one.steps_compared for one in report.runs)} losses equal", highlight=False
        )
    if options.json:
        options.json.write_text(json.dumps({"schema_version": 2, "faults": found, "machine": first.machine}, indent=1))
    goals = GOALS if ways[0].spares else GOALS_WITHOUT_A_SPARE
    misses = [
        text for name in faults if (text := missed(name, [one for one in first.faults if one.fault == name], goals))
    ]
    if unasked := sum(one.unexplained_restarts for one in first.runs):
        misses.append(f"{unasked} restarts from a checkpoint that no fault explains, goal 0")
    for text in misses:
        console.print(f"goal missed: {text}", highlight=False)
    if not all(fault.survived for fault in first.faults):
        return 1
    return 3 if options.goals and misses else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
