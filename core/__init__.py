"""What an environment is: settings, their file, their cross-checks, and the figures that follow from them."""

from core.loader import EnvironmentFile, EnvironmentFileError, Problem, load, names
from core.model import Environment
from core.plan import Plan

__all__ = ["Environment", "EnvironmentFile", "EnvironmentFileError", "Plan", "Problem", "load", "names"]
