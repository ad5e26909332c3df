"""The rules: each module looks at one kind of change and says what it does."""

from __future__ import annotations

from hyperpod_ray.review.effects import (
    alarms,
    eks,
    general,
    hyperpod,
    kubernetes,
    rights,
    slurm,
    storage,
    team_files,
    teams,
)

RULES = (
    general.find,
    hyperpod.find,
    storage.find,
    eks.find,
    kubernetes.find,
    teams.find,
    team_files.find,
    slurm.find,
    alarms.find,
    rights.find,
)
"""In the order of the report's rows of equal effect."""
