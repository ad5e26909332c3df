"""Runs in a list: what started each, and where runs are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from hyperpod_ray.core.findings import meant
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.journal.run_state import State


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where runs are looked for. Default: the environment's RayCluster, through a port forward."""

    address: str = ""
    """A dashboard that is reachable already."""
    here: tuple[Path, ...] = ()
    """Folders of runs on this machine."""
    storage: str = ""
    """Folder of runs on the nodes of Slurm. Default: where `jobs/slurm` puts them."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job, as the Jobs API has it."""

    id: str
    state: str
    """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED; UNKNOWN of a folder that does not say it."""
    command: str
    started: datetime | None
    ended: datetime | None
    message: str
    exit_code: int | None
    """Of the job's driver; None while it runs."""
    variables: tuple[str, ...]
    """Names of its environment variables. Their values are nobody's business here."""
    working_dir: str
    name: str = ""
    """The training run's name; empty where the job names none."""
    folder: str = ""
    """The training run's folder."""
    own_cluster: bool = False
    """Whether it has a RayCluster of its own, which is then `cluster`."""
    cluster: str = ""
    namespace: str = ""
    """Of that RayCluster: the environment's, or a team's."""
    waits: str = ""
    """Why it has not begun; empty where it has."""

    @property
    def seconds(self) -> float | None:
        """How long it has run; None before its start."""
        return ((self.ended or output.now()) - self.started).total_seconds() if self.started else None


def newest(run: Run) -> float:
    """What is not started yet comes first."""
    return run.started.timestamp() if run.started else float("inf")


def pick(found: Sequence[Run], name: str, *, environment: str) -> Run:
    """The run with this ID, or the newest with this name.

    Raises:
        OpsError: there is none; with the closest name, where one is close.
    """
    fits = [run for run in found if run.id == name] or [run for run in found if run.name == name]
    if not fits:
        no_run(found, name, environment=environment)
    return fits[0]


def no_run(found: Sequence[Run], name: str, *, environment: str) -> NoReturn:
    """Refuse the name of a run that there is not, with the closest one."""
    known = list(dict.fromkeys(word for run in found for word in (run.id, run.name) if word))
    close = meant(name, known)
    raise OpsError(
        f"no run '{name}'" + (f"; {close}" if close else ""),
        expected=f"one of {', '.join(run.id for run in found[:5])}" if found else "a run; there is none",
        fix=f"hyperpod-ray runs list {environment}",
        code=BAD_USE,
    )


STATES = {"done": "SUCCEEDED", "failed": "FAILED", "unknown": "UNKNOWN"}
"""The state of a run by what its folder says; one that starts, saves or recovers is RUNNING."""


def of_folder(state: State) -> Run:
    """A run of a folder alone: what started it is not known."""
    training = state.training
    ended = training.state in ("done", "failed")
    return Run(
        id=training.name,
        state=STATES.get(training.state, "RUNNING"),
        command="",
        started=training.started,
        ended=training.state_since if ended else None,
        message="",
        exit_code=None,
        variables=(),
        working_dir="",
        name=training.name,
        folder=state.folder,
    )


def as_data(run: Run) -> dict[str, Any]:
    """A run for JSON."""
    data: dict[str, Any] = output.plain(run)
    return {**data, "seconds": None if run.seconds is None else round(run.seconds, 1)}


def of_states(
    states: Sequence[State], *, state: str, names: Sequence[str], environment: str
) -> tuple[list[Run], dict[str, State]]:
    """Runs that are known by their folders alone, newest first or as `names` has them."""
    runs = [of_folder(folder) for folder in states]
    chosen = [pick(runs, name, environment=environment) for name in names]
    listed = chosen or sorted(runs, key=newest, reverse=True)
    return [run for run in listed if state in ("", run.state.lower())], {folder.folder: folder for folder in states}
