"""What every stack of an environment has in common."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from environments.plan import Plan


class EnvironmentStack(cdk.Stack):
    """A stack with a description, and protected from deletion where the environment is."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, description: str) -> None:
        super().__init__(
            scope, construct_id, description=f"{plan.name}: {description}", termination_protection=plan.settings.protected
        )

    def say(self, name: str, value: str, description: str) -> None:
        """An output that a person needs."""
        cdk.CfnOutput(self, name, value=value, description=description)
