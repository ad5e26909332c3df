"""The rules: each module looks at one kind of change and says what it does."""

from __future__ import annotations

from hyperpod_ray.review.effects import eks, general, hyperpod, kubernetes, slurm, storage, teams

RULES = (general.find, hyperpod.find, storage.find, eks.find, kubernetes.find, teams.find, slurm.find)
"""In the order of the report's rows of equal effect."""
