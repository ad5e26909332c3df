"""The rule base: what CloudFormation lets through and a service rejects later, or what does not work then.

Each rule is a small function with its source in the docstring. It names the top-level sections it reads and runs when
those are valid; it says nothing about what a rule before it has to say (an unknown group name is reported once). It
also names what it needs: the file, the repository around it, or the AWS account (`hyperpod_ray.core.findings.Level`).
"""

from __future__ import annotations

import importlib

from hyperpod_ray.core.checks import (
    access,
    eks,
    groups,
    hangs,
    image,
    image_build,
    lists,
    mails,
    metrics,
    names,
    network,
    operator,
    pods,
    protection,
    proxy,
    ray,
    reach,
    records,
    repository,
    slurm,
    slurm_access,
    storage,
    team_access,
    team_files,
    teams,
    tracking,
    training,
    versions,
)
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.findings import RULES, Finding, Rule

__all__ = [
    "access",
    "account_rules",
    "eks",
    "groups",
    "hangs",
    "image",
    "image_build",
    "lists",
    "mails",
    "metrics",
    "names",
    "network",
    "operator",
    "pods",
    "protection",
    "proxy",
    "ray",
    "reach",
    "records",
    "repository",
    "run",
    "slurm",
    "slurm_access",
    "storage",
    "team_access",
    "team_files",
    "teams",
    "tracking",
    "training",
    "versions",
]


def account_rules() -> list[Rule]:
    """The rules that need the account, in the order of their modules; imported here, as most commands ask none."""
    importlib.import_module(f"{__name__}.account")
    return [rule for rule in RULES if rule.needs == "account"]


def run(plan: CommonPlan, *, valid: frozenset[str], evidence: Evidence | None = None) -> list[Finding]:
    """Findings of every rule of stage `load` whose sections are all in `valid` and whose evidence is at hand.

    A rule may presuppose what another one refuses. Where it then fails, the other one has said what is wrong.
    """
    at_hand = evidence or Evidence()
    concerned = (rule for rule in RULES if rule.stage == "load" and rule.concerns(plan))
    runnable = [rule for rule in concerned if rule.reads(plan.settings.orchestrator) <= valid and rule.runs(at_hand)]
    findings: list[Finding] = []
    failures: list[Exception] = []
    for rule in runnable:
        try:
            findings += rule(plan, at_hand)
        except ProjectError:
            raise
        except Exception as failure:
            failures.append(failure)
    refused = (
        any(finding.severity == "error" for finding in findings) or not set(type(plan.settings).model_fields) <= valid
    )
    if failures and not (refused and FORGIVING):
        raise failures[0]
    return findings


FORGIVING = True
"""Whether a file that is refused anyway hides the failure of a rule; tests look for such failures without it."""
