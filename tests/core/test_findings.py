from __future__ import annotations

import inspect

from hyperpod_ray import core
from hyperpod_ray.core.findings import RULES, Finding
from hyperpod_ray.core.slurm_model import SlurmEnvironment
from hyperpod_ray.ops import preflight
from hyperpod_ray.ops.orchestrators.check import Check
from tests.core.slurm_files_helpers import CASES


def test_a_finding_keeps_its_parts_in_its_row() -> None:
    finding = Finding(path=("region",), what="x: 1", severity="error", expected="2", fix="write 2")
    row = preflight._outcome(finding).named("rule")
    assert row == Check(check="rule", result="failed", what="x: 1", expected="2", fix="write 2")


def test_every_rule_of_slurm_has_a_case() -> None:
    assert {rule.check.__name__ for rule in RULES if rule.orchestrator == "slurm" and rule.needs != "account"} == {
        case.rule for case in CASES
    }


def test_rules_of_both_take_what_both_have() -> None:
    """A rule that runs for Slurm, and whose argument is a plan of EKS, would read what is not there."""
    sections = set(SlurmEnvironment.model_fields)
    for rule in RULES:
        if rule.orchestrator != "eks" and rule.shared <= sections and rule.stage == "load":
            first = next(iter(inspect.signature(rule.check).parameters.values()))
            assert first.annotation == ("SlurmPlan" if rule.orchestrator else "CommonPlan"), rule.check.__name__


def test_no_rule_of_slurm_runs_for_eks() -> None:
    slurm = [rule for rule in RULES if rule.orchestrator == "slurm"]
    plan = core.load("dev").plan
    assert slurm
    assert not [rule for rule in slurm if rule.concerns(plan)]
