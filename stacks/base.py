"""What every stack of an environment has in common."""

from __future__ import annotations

import aws_cdk as cdk

from constructs import Construct
from hyperpod_ray.core.common_plan import CommonPlan


class EnvironmentStack(cdk.Stack):
    """A stack with a description, and protected from deletion where the environment is."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: CommonPlan, description: str) -> None:
        # before the base class's constructor, which may ask for them
        self._zone_ids = list(plan.settings.network.availability_zone_ids)
        super().__init__(
            scope,
            construct_id,
            description=f"{plan.name}: {description}",
            termination_protection=plan.settings.protected,
        )

    @property
    def availability_zones(self) -> list[str]:
        """The environment's own zones: the default would look them up in the account, and synth asks no account."""
        return self._zone_ids

    def output(self, name: str, value: str, description: str) -> None:
        """An output that you need after the deployment."""
        cdk.CfnOutput(self, name, value=value, description=description)
