"""Recovery rehearsed on one machine: the environment's RayCluster as processes, real training, real kills.

from hyperpod_ray_sandbox.rehearsal import run
report = run("local", faults=["node"])
"""

from hyperpod_ray_sandbox.rehearsal.faults import FAULTS
from hyperpod_ray_sandbox.rehearsal.options import Options
from hyperpod_ray_sandbox.rehearsal.report import Report
from hyperpod_ray_sandbox.rehearsal.runner import run

__all__ = ["FAULTS", "Options", "Report", "run"]
