"""What an environment is: settings, their file, their cross-checks, and the figures that follow from them."""

from environments.loader import EnvironmentFile, EnvironmentFileError, Problem, load, names
from environments.model import Environment
from environments.plan import Plan

__all__ = ["Environment", "EnvironmentFile", "EnvironmentFileError", "Plan", "Problem", "load", "names"]
