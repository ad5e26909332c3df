"""What functions inside the VPC get: the company's proxy."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_


def use_proxy(stack: Stack, variables: Mapping[str, str]) -> None:
    """Set the proxy's variables on every function of a stack that runs inside a VPC; others do not reach the proxy.

    Args:
        stack: The stack.
        variables: Names and values. None of them: nothing changes.
    """
    for resource in stack.node.find_all() if variables else ():
        if isinstance(resource, lambda_.CfnFunction) and resource.vpc_config is not None:
            for name, value in variables.items():
                resource.add_property_override(f"Environment.Variables.{name}", value)
