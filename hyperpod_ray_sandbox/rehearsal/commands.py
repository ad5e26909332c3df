"""The rehearsal commands: start Ray from the environment's manifest, inject faults or kill at random, report."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from hyperpod_ray_sandbox.rehearsal import two_teams
from hyperpod_ray_sandbox.rehearsal.options import Options
from hyperpod_ray_sandbox.rehearsal.runner import run
from hyperpod_ray_sandbox.rehearsal.soak import soak as run_soak
from hyperpod_ray_sandbox.rehearsal.terminal import Show, summary
from hyperpod_ray_sandbox.rehearsal.web import page


def rehearse(
    env: str, *, options: Options, out: Path | None = None, as_json: bool = False, web_port: int | None = None
) -> bool:
    """Rehearse and show the report.

    Args:
        env: An environment's name, or the path of a RayCluster manifest.
        options: Faults, job and times.
        out: Folder of report and picture. Default: `.rehearsal/TIME`.
        as_json: Write the report as JSON to stdout, and everything else to stderr.
        web_port: Serve a live page on this port of 127.0.0.1; 0 takes any. Default: no page.

    Returns:
        Whether everything survived.

    Raises:
        LocalError: bad input, or the rehearsal could not be carried through.
    """
    console = Console(stderr=as_json)
    with ended_by_sigterm(), Show(console) as show:
        watched = None if web_port is None else functools.partial(page, environment=env, port=web_port)
        report = run(
            env, faults=options.faults, job=options.job, out=out, options=options, listener=show, watched=watched
        )
    summary(report, log=lambda renderable: _log(console, renderable))
    if as_json:
        sys.stdout.write(report.to_json() + "\n")
    return report.survived


def teams(env: str, *, out: Path | None = None, as_json: bool = False) -> bool:
    """Let two teams share this machine and show what happened.

    Args:
        env: An environment's name, or the path of a RayCluster manifest.
        out: Folder of the report. Default: `.rehearsal/teams-TIME`.
        as_json: Write the report as JSON to stdout, and everything else to stderr.

    Returns:
        Whether the preempted job resumed, and every loss is that of an undisturbed run.

    Raises:
        LocalError: bad input, or the rehearsal could not be carried through.
    """
    console = Console(stderr=as_json)
    with ended_by_sigterm():
        report = two_teams.rehearse(env, note=lambda line: _log(console, line), out=out)
    for line in two_teams.sentences(report):
        _log(console, line)
    if as_json:
        sys.stdout.write(report.to_json() + "\n")
    return report.survived


def soak(env: str, *, kills: int, seed: int, options: Options, out: Path | None = None) -> bool:
    """Kill at random moments; whether no checkpoint was lost and the job succeeded.

    Args:
        env: An environment's name, or the path of a RayCluster manifest.
        kills: How many kills.
        seed: The same seed plans the same kills.
        options: Job and times.
        out: Folder of the log. Default: `.rehearsal/soak-TIME`.

    Raises:
        LocalError: bad input, or the rehearsal could not be carried through.
    """
    with ended_by_sigterm():
        return run_soak(env, kills=kills, seed=seed, options=options, out=out, console=Console()) == 0


def _log(console: Console, renderable: Any) -> None:
    console.print(renderable, markup=False, highlight=False, soft_wrap=isinstance(renderable, str))


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """`timeout` and CI end a process by SIGTERM: the cluster stops then too."""
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
