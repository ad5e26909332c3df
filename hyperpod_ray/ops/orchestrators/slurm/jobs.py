"""Submission of a job to an environment on Slurm: sbatch on a login node does it."""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray.core.job_file import JobFile
from hyperpod_ray.ops.orchestrators.slurm.instead import refused_command
from hyperpod_ray.ops.reach.clients import SlurmTarget


class SlurmJobs:
    """Jobs of one environment."""

    def __init__(self, target: SlurmTarget) -> None:
        self.target = target

    def submit(self, file: JobFile, *, runtime_env: Path | None, submission_id: str, address: str, wait: bool) -> int:
        """Refused, with what to use in its place."""
        raise refused_command(self.target, "submit")

    def example(self) -> str:
        """A command line that submits a job."""
        return "sbatch jobs/slurm/train.sbatch finetune --name NAME, on a login node"
