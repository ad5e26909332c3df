"""Submission of a job to an environment on EKS."""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray.core.job_file import JobFile
from hyperpod_ray.ops.jobs import submit
from hyperpod_ray.ops.reach.clients import Target


class EksJobs:
    """Jobs of one environment."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def submit(self, file: JobFile, *, runtime_env: Path | None, submission_id: str, address: str, wait: bool) -> int:
        """To Ray's Jobs API, or as a RayJob with a RayCluster of its own."""
        return submit.run(
            self.target,
            file,
            runtime_env=runtime_env,
            submission_id=submission_id,
            address=address,
            wait=wait,
        )

    def example(self) -> str:
        """A command line that submits a job."""
        return f"hyperpod-ray submit {self.target.name} -- python train.py"
