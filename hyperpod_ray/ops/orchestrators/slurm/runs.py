"""Runs of an environment on Slurm: their folders, read on a node that mounts them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.journal.run_state import State
from hyperpod_ray.ops.orchestrators.run_files import Opened
from hyperpod_ray.ops.orchestrators.run_list import Run, Source, of_states
from hyperpod_ray.ops.orchestrators.slurm import run_folders
from hyperpod_ray.ops.orchestrators.slurm.instead import refused_command
from hyperpod_ray.ops.reach.clients import SlurmTarget


class SlurmRuns:
    """Runs of one environment."""

    def __init__(self, target: SlurmTarget) -> None:
        self.target = target

    def refuse(self, source: Source) -> None:
        """Refuse the address of a dashboard."""
        if source.address:
            raise OpsError(
                f"--address: {source.address}",
                expected="an environment on EKS: Slurm has no Jobs API",
                fix="remove it",
                code=BAD_USE,
            )

    def listed(
        self, source: Source, *, state: str, progress: bool, names: Sequence[str]
    ) -> tuple[list[Run], dict[str, State]]:
        """Runs by their folders; they are read to be listed, so that `progress` changes nothing."""
        del progress
        states = run_folders.read(self.target, source.storage or run_folders.STORAGE)
        return of_states(states, state=state, names=names, environment=self.target.name)

    def tail(self, run: Run, source: Source, *, lines: int) -> list[str] | None:
        """No command shows the log: sbatch writes it into the folder it was given in."""
        del run, source, lines
        return None

    def log(self, name: str, *, following: bool, source: Source) -> int:
        """Refused, with what to use in its place."""
        raise refused_command(self.target, "runs logs")

    def stop(self, name: str, *, yes: bool, source: Source, limit_s: float) -> int:
        """Refused, with what to use in its place."""
        raise refused_command(self.target, "runs stop")

    def files(self, folder: str, patterns: Sequence[str], source: Source) -> AbstractContextManager[Opened]:
        """Refused, with what to use in its place."""
        raise refused_command(self.target, "runs pull")
