"""What two settings must say to each other: the rules that CloudFormation lets through and a service rejects later.

Each rule is a small function with its source in the docstring. It names the top-level sections it reads and runs when
those are valid; it says nothing about what a rule before it has to say (an unknown group name is reported once).
"""

from __future__ import annotations

from core.checks import access, eks, groups, image, names, network, operator, pods, protection, ray, reach, storage
from core.findings import RULES, Finding
from core.plan import Plan

__all__ = [
    "access",
    "eks",
    "groups",
    "image",
    "names",
    "network",
    "operator",
    "pods",
    "protection",
    "ray",
    "reach",
    "run",
    "storage",
]


def run(plan: Plan, *, valid: frozenset[str]) -> list[Finding]:
    """Findings of every rule whose sections are all in `valid`."""
    return [finding for rule in RULES if rule.reads <= valid for finding in rule.check(plan)]
