from __future__ import annotations

from hyperpod_ray.core.checks.account import deployment
from hyperpod_ray_sandbox.aws.emulator import execution
from tests.stacks.assembled import Assembly


def test_preflight_simulates_what_the_stacks_create(assembly: Assembly) -> None:
    """By the table of handlers with which the sandbox judges CloudFormation's role."""
    kinds = {
        resource["Type"] for template in assembly.templates.values() for resource in template["Resources"].values()
    }
    created = {execution.ACTIONS[kind][0] for kind in kinds & set(execution.ACTIONS)} | {"iam:PassRole"}
    assert set(deployment.CREATES) <= created
