"""What is deployed, as one side of a review: the templates that CloudFormation has of an environment's stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyperpod_ray.review.assembly import EnvironmentAssembly, Stack


@dataclass(frozen=True, kw_only=True)
class DeployedStack:
    """One stack of the account."""

    name: str
    """Physical name, for example `prod-HyperPod`."""
    template: dict[str, Any]
    """As it was submitted."""
    protected: bool = False
    """Whether termination protection is on."""


def deployed(head: EnvironmentAssembly, stacks: Sequence[DeployedStack]) -> EnvironmentAssembly | None:
    """The environment as it is deployed, comparable with the assembly that is to be deployed.

    Args:
        head: The assembly that is to be deployed.
        stacks: The environment's stacks in the account, also those that the assembly no longer has.

    Returns:
        The deployed side, or None when no stack exists: the environment is new.
    """
    if not stacks:
        return None
    by_name = {stack.name: stack for stack in head.stacks.values()}
    comparable: dict[str, Stack] = {}
    for deployed_stack in stacks:
        synthesized = by_name.get(deployed_stack.name) or _gone(deployed_stack, head)
        as_deployed = replace(synthesized, template=deployed_stack.template, protected=deployed_stack.protected)
        comparable[as_deployed.id] = as_deployed
    return EnvironmentAssembly(name=head.name, folder=head.folder, stacks=comparable)


def _gone(stack: DeployedStack, head: EnvironmentAssembly) -> Stack:
    """A stack that the assembly no longer has; account and Region are those of the others."""
    remaining = next(iter(head.stacks.values()), None)
    return Stack(
        id=stack.name,
        name=stack.name,
        path=stack.name.replace("-", "/", 1),
        folder=head.folder,
        template=stack.template,
        account=remaining.account if remaining else "",
        region=remaining.region if remaining else "",
        protected=stack.protected,
    )
