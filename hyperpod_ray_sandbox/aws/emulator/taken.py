"""A physical name that is taken: CloudFormation creates no second resource of it, and touches the first one never.

MiniStack refuses it for buckets, EKS clusters, topics and others. Of the types here it takes up what is there.
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-resource-name.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.cloudformation import Registry
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]


def stores(context: Context) -> Mapping[str, tuple[str, Any]]:
    """Property with the name, and what there is by name, of each type that MiniStack does not refuse itself."""
    hooks = context.hooks
    return {
        "AWS::ECR::Repository": ("RepositoryName", hooks.ecr._repositories),
        "AWS::IAM::Role": ("RoleName", hooks.iam._roles),
        "AWS::Logs::LogGroup": ("LogGroupName", hooks.cloudwatch_logs._log_groups),
        "AWS::Logs::ResourcePolicy": ("PolicyName", hooks.cloudwatch_logs._resource_policies),
    }


def refuse_taken_names(registry: Registry, context: Context) -> None:
    """Fail the creation of a resource whose custom name something of the account has."""
    for resource_type, (name, store) in stores(context).items():
        registry.wrap(resource_type, "create", _refusing(resource_type, name, store))


def _refusing(type_: str, name: str, store: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(logical_id: str, properties: Json, stack: str, *rest: Any) -> Any:
            value = properties.get(name)
            if value and value in store:
                identifier = json.dumps({f"/properties/{name}": value}, separators=(",", ":"))
                raise ServiceError(
                    "AlreadyExists",
                    f"Resource handler returned message: \"Resource of type '{type_}' with identifier '{identifier}' "
                    'already exists." (HandlerErrorCode: AlreadyExists)',
                )
            return original(logical_id, properties, stack, *rest)

        return create

    return wrapper
