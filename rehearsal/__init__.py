"""Recovery rehearsed on one machine: the environment's RayCluster as processes, real training, real kills.

from rehearsal import run
report = run("local", faults=["node"])
"""

from rehearsal.faults import FAULTS
from rehearsal.options import Options
from rehearsal.report import Report
from rehearsal.runner import run

__all__ = ["FAULTS", "Options", "Report", "run"]
