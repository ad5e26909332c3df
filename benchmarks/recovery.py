"""How long training stands still and how much of it is lost, beside two baselines measured in the same session.

    .venv/bin/python benchmarks/recovery.py [--faults worker,node,freeze,hang,drain] [--json FILE]

Columns: this project (the manifest's and the library's settings), Ray's defaults (the same job; every tuned setting put
back to what Ray 2.60 and torch ship with), and the AWS article's way (a checkpoint per epoch, no `get_checkpoint()`,
Ray's defaults). "not within N s" means that the benchmark stopped waiting, not that it would never come back.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from rehearsal import Options, Report, run  # noqa: E402
from rehearsal.ray_hosts.errors import LocalError  # noqa: E402
from rehearsal.report import FaultReport  # noqa: E402
from rehearsal.show import Show  # noqa: E402

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
}


@dataclass(frozen=True, kw_only=True)
class Way:
    """One column."""

    title: str
    pod_env: dict[str, str] = field(default_factory=dict)
    job_env: dict[str, str] = field(default_factory=dict)
    job_folder: Path | None = None
    undisturbed: bool = True


WAYS = (
    Way(title="this project"),
    Way(title="Ray's defaults", pod_env=RAY_DEFAULT_NODE, job_env=RAY_DEFAULT_JOB),
    Way(
        title="the AWS article's way",
        pod_env=RAY_DEFAULT_NODE,
        job_env=RAY_DEFAULT_JOB,
        job_folder=PROJECT / "benchmarks" / "article_way",
        undisturbed=False,
    ),
)


def cell(fault: FaultReport | None, *, waited_s: float) -> str:
    """Seconds and lost steps of one fault in one way."""
    if fault is None:
        return "not measured"
    if not fault.survived:
        return f"not within {waited_s:g} s"
    if not fault.interrupted:
        return "no interruption"
    return f"{fault.recovery_s:.1f} s, {fault.steps_lost} steps"


def main(argv: list[str]) -> int:
    """Measure every way and print the table; 0 if this project's column has no "not within"."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="local", help="environment or manifest (local)")
    parser.add_argument("--faults", default="worker,node,freeze,hang,drain")
    parser.add_argument("--wait", type=float, default=120, help="seconds to wait for a new step after a fault (120)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    console = Console()
    faults = options.faults.split(",")
    reports: dict[str, Report] = {}
    try:
        for way in WAYS:
            console.rule(way.title)
            settings = Options(
                fault_timeout_s=options.wait,
                pod_env=way.pod_env,
                job_env=way.job_env,
                job_folder=way.job_folder,
                undisturbed=way.undisturbed,
            )
            with Show(console) as show:
                reports[way.title] = run(options.env, faults=faults, options=settings, listener=show)
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
            fault = next((one for one in report.faults if one.fault == name), None)
            cells.append(cell(fault, waited_s=options.wait))
            found.setdefault(name, {})[title] = None if fault is None else fault.__dict__
        table.add_row(name, *cells)
    console.print(table)
    first = reports[WAYS[0].title]
    console.print(f"checkpoint every {first.settings['interval_steps']} steps; {first.machine}", highlight=False)
    if options.json:
        options.json.write_text(json.dumps({"schema_version": 1, "faults": found, "machine": first.machine}, indent=1))
    return 0 if all(fault.survived for fault in first.faults) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
