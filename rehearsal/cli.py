"""`python -m rehearsal rehearse ENV`: start Ray from the environment's manifest, inject faults, report."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from rehearsal.ray_hosts.errors import LocalError
from rehearsal.report import NOT_SHOWN
from rehearsal.runner import FAULTS, Options, run
from rehearsal.show import Show, summary
from rehearsal.soak import soak


def parser() -> argparse.ArgumentParser:
    """The command line."""
    base = Options()
    out = argparse.ArgumentParser(
        prog="python -m rehearsal rehearse",
        description=__doc__,
        epilog="Exit code: 0 everything survived, 1 not, 2 bad input. Not shown here: " + "; ".join(NOT_SHOWN) + ".",
    )
    out.add_argument("env", help="environment name (local, dev, …) or the path of a RayCluster manifest")
    out.add_argument(
        "--faults", default=",".join(base.faults), help=f"comma-separated, of {','.join(FAULTS)} (%(default)s)"
    )
    out.add_argument("--job", default=base.job, help="folder in jobs/ (%(default)s)")
    out.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the report there; - is stdout, everything else then stderr",
    )
    out.add_argument("--out", type=Path, metavar="DIR", help="report and picture go there (.rehearsal/TIME)")
    out.add_argument("--interval", type=int, default=base.interval, help="steps between two checkpoints (%(default)s)")
    out.add_argument(
        "--step-delay", type=float, default=base.step_delay_s, help="seconds each step is slowed down by (%(default)s)"
    )
    out.add_argument("--replace-after", type=float, default=base.replace_after_s, metavar="S",
                     help="from a lost machine to its replacement (minutes on HyperPod; %(default)s)")  # fmt: skip
    out.add_argument(
        "--drain", type=int, default=base.drain_s, metavar="S", help="seconds a drained pod has (%(default)s)"
    )
    out.add_argument("--soak", type=int, metavar="N", help="kill N times at random moments instead of --faults")
    out.add_argument("--seed", type=int, default=0, help="of --soak: the same seed plans the same kills (%(default)s)")
    return out


def main(argv: list[str]) -> int:
    """Rehearse; 0 all survived, 1 not, 2 bad input."""
    try:
        given = parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    to_stdout = given.json is not None and str(given.json) == "-"
    console = Console(stderr=to_stdout)
    old = signal.signal(signal.SIGTERM, _interrupt)  # `timeout` and CI end us that way: stop the cluster then too
    try:
        options = Options(
            faults=tuple(part.strip() for part in given.faults.split(",") if part.strip()),
            job=given.job,
            interval=given.interval,
            step_delay_s=given.step_delay,
            replace_after_s=given.replace_after,
            drain_s=given.drain,
        )
        if given.soak is not None:
            return soak(given.env, kills=given.soak, seed=given.seed, options=options, out=given.out, console=console)
        with Show(console) as show:
            report = run(
                given.env, faults=options.faults, job=options.job, out=given.out, options=options, listener=show
            )
        summary(report, say=lambda item: _say(console, item))
        if to_stdout:
            sys.stdout.write(report.to_json() + "\n")
        elif given.json is not None:
            given.json.write_text(report.to_json(), encoding="utf-8")
    except LocalError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.code
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; everything that was started has been ended\n")
        return 130
    finally:
        signal.signal(signal.SIGTERM, old)
    return 0 if report.survived else 1


def _say(console: Console, item: Any) -> None:
    console.print(item, markup=False, highlight=False, soft_wrap=isinstance(item, str))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
