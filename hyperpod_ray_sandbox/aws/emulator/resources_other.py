"""The remaining gaps of MiniStack's CloudFormation: OIDC providers, budgets, bucket tags."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.cloudformation import Created, Registry, ResourceType, stack_name
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]


def other_types(context: Context) -> list[ResourceType]:
    """Return IAM::OIDCProvider, Budgets::Budget, APS::Workspace and APS::RuleGroupsNamespace."""
    return [_oidc_provider(context), _budget(context), _prometheus(context), _prometheus_rules(context)]


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
        for i, tag in enumerate(properties.get("Tags", []), 1):
            parameters |= {f"Tags.member.{i}.{part}": [tag[part]] for part in ("Key", "Value")}
        status, _, body = iam._create_oidc_provider(parameters)
        text = body.decode()
        if status >= 400:
            raise ServiceError("InvalidInput", text)
        arn = text.partition("<OpenIDConnectProviderArn>")[2].partition("<")[0]
        return arn, {"Arn": arn}

    def update(arn: str, _old: Json, new: Json, _stack: str) -> Created:
        iam._oidc_providers[arn].update(
            ClientIDList=list(new.get("ClientIdList", [])),
            ThumbprintList=list(new.get("ThumbprintList", [])),
            Tags=list(new.get("Tags", [])),
        )
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


def _prometheus(context: Context) -> ResourceType:
    """A workspace that is there and keeps no sample."""

    def create(_logical_id: str, _properties: Json, _stack: str) -> Created:
        workspace = f"ws-{uuid.uuid4()}"
        arn = context.hooks.arn("aps", f"workspace/{workspace}")
        endpoint = f"https://aps-workspaces.{context.hooks.region()}.amazonaws.com/workspaces/{workspace}/"
        return arn, {"Arn": arn, "WorkspaceId": workspace, "PrometheusEndpoint": endpoint}

    def update(arn: str, _old: Json, _new: Json, _stack: str) -> Created:
        workspace = arn.rpartition("/")[2]
        endpoint = f"https://aps-workspaces.{context.hooks.region()}.amazonaws.com/workspaces/{workspace}/"
        return arn, {"Arn": arn, "WorkspaceId": workspace, "PrometheusEndpoint": endpoint}

    return ResourceType(
        type="AWS::APS::Workspace",
        create=create,
        update=update,
        delete=lambda _arn, _properties: None,
        replacing=("KmsKeyArn",),
    )


def _prometheus_rules(context: Context) -> ResourceType:
    """Rules that nothing evaluates."""

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        workspace = str(properties["Workspace"]).rpartition("/")[2]
        arn = context.hooks.arn("aps", f"rulegroupsnamespace/{workspace}/{properties['Name']}")
        return arn, {"Arn": arn}

    return ResourceType(
        type="AWS::APS::RuleGroupsNamespace",
        create=create,
        update=lambda arn, _old, _new, _stack: (arn, {"Arn": arn}),
        delete=lambda _arn, _properties: None,
        replacing=("Workspace", "Name"),
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
