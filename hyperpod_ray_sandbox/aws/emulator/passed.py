"""What a stack's role needs beside the handler's own action: to pass the roles it names, and to use the keys it names.

Both have a resource that is known before the step, so that resource and conditions of the role's policies count:
`iam:PassRole` on the role with `iam:PassedToService`
(https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html), `kms:DescribeKey` and `kms:CreateGrant`
on the key with `kms:ViaService` and `kms:GrantIsForAWSResource`
(https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html,
https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
# type: the service that the role is for, then where the role is; `*` stands for every item of a list
ROLES: dict[str, tuple[tuple[str, str], ...]] = {
    "AWS::Chatbot::MicrosoftTeamsChannelConfiguration": (("chatbot.amazonaws.com", "IamRoleArn"),),
    "AWS::Chatbot::SlackChannelConfiguration": (("chatbot.amazonaws.com", "IamRoleArn"),),
    "AWS::CodeBuild::Project": (("codebuild.amazonaws.com", "ServiceRole"),),
    "AWS::EC2::FlowLog": (("vpc-flow-logs.amazonaws.com", "DeliverLogsPermissionArn"),),
    "AWS::EKS::Addon": (("eks.amazonaws.com", "ServiceAccountRoleArn"),),
    "AWS::EKS::Cluster": (("eks.amazonaws.com", "RoleArn"),),
    "AWS::EKS::PodIdentityAssociation": (("pods.eks.amazonaws.com", "RoleArn"),),
    "AWS::Events::Rule": (("events.amazonaws.com", "Targets/*/RoleArn"),),
    "AWS::Lambda::Function": (("lambda.amazonaws.com", "Role"),),
    "AWS::SageMaker::Cluster": (
        ("sagemaker.amazonaws.com", "InstanceGroups/*/ExecutionRole"),
        ("sagemaker.amazonaws.com", "ClusterRole"),
    ),
    "AWS::SageMaker::MlflowApp": (("sagemaker.amazonaws.com", "RoleArn"),),
    "AWS::StepFunctions::StateMachine": (("states.amazonaws.com", "RoleArn"),),
}
KEYS: dict[str, tuple[str, str]] = {
    "AWS::EKS::Cluster": ("eks", "EncryptionConfig/*/Provider/KeyArn"),
    "AWS::FSx::FileSystem": ("fsx", "KmsKeyId"),
}
USES = ("kms:DescribeKey", "kms:CreateGrant")


@dataclass(frozen=True, kw_only=True)
class Need:
    """One request of which the resource is known."""

    action: str
    resource: str
    keys: Json = field(default_factory=dict)


def needs(resource_type: str, properties: Json, *, region: str) -> Iterator[Need]:
    """What a role needs to make or change a resource, as far as its properties name roles and keys by ARN."""
    for service, path in ROLES.get(resource_type, ()):
        for arn in dict.fromkeys(_found(properties, path.split("/"))):
            if ":iam:" in arn and ":role/" in arn:
                yield Need(action="iam:PassRole", resource=arn, keys={"iam:PassedToService": service})
    if resource_type in KEYS:
        service, path = KEYS[resource_type]
        keys = {"kms:ViaService": f"{service}.{region}.amazonaws.com", "kms:GrantIsForAWSResource": "true"}
        for arn in dict.fromkeys(_found(properties, path.split("/"))):
            if ":kms:" in arn:
                yield from (Need(action=action, resource=arn, keys=keys) for action in USES)


def _found(value: Any, path: list[str]) -> Iterator[str]:
    """Every text at a path."""
    if not path:
        if isinstance(value, str) and value.startswith("arn:"):
            yield value
        return
    step, *rest = path
    if step == "*":
        for member in value if isinstance(value, list) else []:
            yield from _found(member, rest)
    elif isinstance(value, dict) and step in value:
        yield from _found(value[step], rest)
