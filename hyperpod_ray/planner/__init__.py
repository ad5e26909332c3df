"""What to buy, how to run it, when it ends: one environment and one training job, answered with sources.

Closed forms need nothing beside the standard library and pydantic, so that checks and reviews can use them; the
simulation needs numpy and the pictures matplotlib, both in the part `plan` of the installation. The planner asks nobody
and invents nothing: a figure without a source is refused, and so is a question that no public figure answers.
"""

from __future__ import annotations

from hyperpod_ray.core.errors import ProjectError

__all__ = ["PlanError"]


class PlanError(ProjectError):
    """The planner cannot answer."""
