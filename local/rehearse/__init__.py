"""Recovery rehearsed on one machine: the environment's RayCluster as processes, real training, real kills.

from local.rehearse import run
report = run("local", faults=["node"])
"""

from local.rehearse.report import Report
from local.rehearse.runner import FAULTS, Options, run

__all__ = ["FAULTS", "Options", "Report", "run"]
