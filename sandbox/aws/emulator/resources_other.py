"""The remaining gaps of MiniStack's CloudFormation: OIDC providers, budgets, bucket tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.aws.emulator.cloudformation import Created, Registry, ResourceType, stack_name
from sandbox.aws.emulator.context import Context
from sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]


def other_types(context: Context) -> list[ResourceType]:
    """Return IAM::OIDCProvider and Budgets::Budget."""
    return [_oidc_provider(context), _budget(context)]


def keep_bucket_tags(registry: Registry, context: Context) -> None:
    """Store the tags of buckets, which MiniStack drops: CDK's auto-delete function acts only on tagged buckets."""
    store, provisioners = context.hooks.s3._bucket_tags, context.hooks.provisioners

    def tagging(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(logical_id: str, properties: Json, stack: str, *rest: Any) -> Any:
            name, attributes = original(logical_id, properties, stack, *rest)
            if properties.get("Tags"):
                store[name] = provisioners._tag_map(properties["Tags"])
            return name, attributes

        return create

    registry.wrap("AWS::S3::Bucket", "create", tagging)


def _oidc_provider(context: Context) -> ResourceType:
    iam = context.hooks.iam

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        parameters = {"Url": [properties["Url"]]}
        for member, name in (("ClientIdList", "ClientIDList"), ("ThumbprintList", "ThumbprintList")):
            for i, value in enumerate(properties.get(member, []), 1):
                parameters[f"{name}.member.{i}"] = [value]
        status, _, body = iam._create_oidc_provider(parameters)
        text = body.decode()
        if status >= 400:
            raise ServiceError("InvalidInput", text)
        arn = text.partition("<OpenIDConnectProviderArn>")[2].partition("<")[0]
        return arn, {"Arn": arn}

    def update(arn: str, _old: Json, _new: Json, _stack: str) -> Created:
        return arn, {"Arn": arn}

    return ResourceType(
        type="AWS::IAM::OIDCProvider",
        create=create,
        update=update,
        delete=lambda arn, _properties: iam._oidc_providers.pop(arn, None),
        replacing=("Url",),
    )


def _budget(context: Context) -> ResourceType:
    budgets = context.hooks.budgets

    def create(logical_id: str, properties: Json, stack: str) -> Created:
        budget = dict(properties["Budget"])
        budget.setdefault("BudgetName", stack_name(logical_id, stack, context, 100))
        budget["BudgetLimit"] = {k: str(v) for k, v in budget.get("BudgetLimit", {}).items()}
        subscribers = properties.get("NotificationsWithSubscribers", [])
        status, _, body = budgets._create_budget(
            {"AccountId": context.hooks.account(), "Budget": budget, "NotificationsWithSubscribers": subscribers}
        )
        if status >= 400:
            raise ServiceError("InvalidParameterException", str(body))
        return budget["BudgetName"], {"Id": budget["BudgetName"]}

    return ResourceType(
        type="AWS::Budgets::Budget",
        create=create,
        delete=lambda name, _properties: budgets._budgets.pop(name, None),
        replacing=("Budget", "NotificationsWithSubscribers"),
    )


def give_administrator(registry: Registry) -> None:
    """The execution role of `cdk bootstrap` without `--cloudformation-execution-policies` is an administrator.

    MiniStack takes the empty list of that parameter for one policy without a name.
    """

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(logical_id: str, properties: Json, stack: str) -> Any:
            if properties.get("ManagedPolicyArns") == [""]:
                administrator = ["arn:aws:iam::aws:policy/AdministratorAccess"]
                properties = {**properties, "ManagedPolicyArns": administrator}
            return original(logical_id, properties, stack)

        return create

    registry.wrap("AWS::IAM::Role", "create", wrapper)
