"""Termination protection of stacks: where a command takes it off."""

from __future__ import annotations

from collections.abc import Iterable

from hyperpod_ray.ops import output
from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.reach.clients import AnyTarget


def lift(target: AnyTarget, stacks: Iterable[Stack]) -> None:
    """Take the protection of those stacks off that exist and have it."""
    for stack in stacks:
        if stack.status and stack.protected:
            target.aws.call(
                "cloudformation",
                "update_termination_protection",
                StackName=stack.name,
                EnableTerminationProtection=False,
            )
            output.log(f"termination protection of {stack.name} is off")
