"""VPC endpoints of a network without a way out, each with a policy for what is called through it and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from constructs import Construct
from hyperpod_ray.constructs.access import BucketAccess

_SERVICES = ec2.InterfaceVpcEndpointAwsService
SERVICES = {
    "aps-workspaces": ("Prometheus", _SERVICES.PROMETHEUS_WORKSPACES),
    "codeartifact.api": ("CodeArtifactApi", _SERVICES.CODEARTIFACT_API),
    "codeartifact.repositories": ("CodeArtifactRepositories", _SERVICES.CODEARTIFACT_REPOSITORIES),
    "ec2": ("Ec2", _SERVICES.EC2),
    "ecr.api": ("EcrApi", _SERVICES.ECR),
    "ecr.dkr": ("EcrDocker", _SERVICES.ECR_DOCKER),
    "eks": ("Eks", _SERVICES.EKS),
    "eks-auth": ("EksAuth", _SERVICES.EKS_AUTH),
    "fsx": ("Fsx", _SERVICES.FSX),
    "lambda": ("Lambda", _SERVICES.LAMBDA_),
    "logs": ("Logs", _SERVICES.CLOUDWATCH_LOGS),
    "monitoring": ("Monitoring", _SERVICES.CLOUDWATCH_MONITORING),
    "secretsmanager": ("SecretsManager", _SERVICES.SECRETS_MANAGER),
    "sagemaker.api": ("SageMaker", _SERVICES.SAGEMAKER_API),
    "ssm": ("Ssm", _SERVICES.SSM),
    "ssmmessages": ("SsmMessages", _SERVICES.SSM_MESSAGES),
    "ec2messages": ("Ec2Messages", _SERVICES.EC2_MESSAGES),
    "sts": ("Sts", _SERVICES.STS),
}
"""VPC endpoint service (without `com.amazonaws.REGION.`) to construct id and the library's name for it."""
_READ = ["s3:GetBucketLocation", "s3:GetObject", "s3:ListBucket"]
_WRITE = [
    "s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListBucketMultipartUploads", "s3:ListMultipartUploadParts",
    "s3:PutObject",
]  # fmt: skip
GATEWAY = "s3"
"""The one service that has a gateway endpoint here."""


@dataclass(frozen=True, kw_only=True)
class EndpointCall:
    """AWS actions that something calls from inside the VPC.

    Args:
        endpoint: VPC endpoint service, without `com.amazonaws.REGION.`.
        actions: IAM actions.
        resource: What they act on; `service` for an identity of the service, which no principal of the account has.
    """

    endpoint: str
    actions: Sequence[str]
    resource: str


def interface_services(calls: Sequence[EndpointCall]) -> list[str]:
    """Endpoint services that the calls need, in a fixed order. KeyError for one that this module does not know."""
    needed = {call.endpoint for call in calls} - {GATEWAY}
    unknown = needed - set(SERVICES)
    if unknown:
        raise KeyError(f"no VPC endpoint is known for {', '.join(sorted(unknown))}; add it to SERVICES")
    return [service for service in SERVICES if service in needed]


def interface_policy(scope: Construct, service: str, calls: Sequence[EndpointCall]) -> list[iam.PolicyStatement]:
    """Statements of an interface endpoint's policy: the actions of the calls, by principals of this account.

    Credentials of another account that reach a node are then of no use for taking data away. STS has no principal's
    account when a role is taken by a token, so its statement names this account's roles instead; Systems Manager's
    agent on HyperPod nodes runs under an identity of the service.
    """
    stack = Stack.of(scope)
    service_calls = [call for call in calls if call.endpoint == service]
    actions = sorted({action for call in service_calls for action in call.actions})
    if service == "sts":
        roles = f"arn:{stack.partition}:iam::{stack.account}:role/*"
        taking = [action for action in actions if action.startswith("sts:Assume")]
        return [
            _allow(taking, [roles]),
            _allow(sorted(set(actions) - set(taking)), ["*"], condition=_account("Principal", stack)),
        ]
    services = {action for call in service_calls if call.resource == "service" for action in call.actions}
    scoped = {action for call in service_calls if call.resource != "service" for action in call.actions}
    statements = [_allow(sorted(services), ["*"])] if services else []
    return statements + ([_allow(sorted(scoped), ["*"], condition=_account("Principal", stack))] if scoped else [])


def gateway_policy(scope: Construct, *, access: Sequence[BucketAccess] = ()) -> list[iam.PolicyStatement]:
    """Statements of the S3 gateway endpoint's policy.

    This account's buckets for this account's principals; what `ray.access` names, also of other accounts; image layers
    of Amazon ECR (read) and CloudFormation's answers from custom resources (write), by URLs that the services sign.
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html#ecr-minimum-s3-perms
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/vpc-interface-endpoints.html

    Args:
        access: Buckets that Ray's pods may use; `ray.access.s3`.
    """
    stack = Stack.of(scope)
    arn = f"arn:{stack.partition}:s3:::"
    both = {"StringEquals": {"aws:PrincipalAccount": stack.account, "aws:ResourceAccount": stack.account}}
    statements = [
        _allow(["s3:*"], ["*"], condition=both, sid="OwnBuckets"),
        _allow(["s3:GetObject"], [f"{arn}prod-{stack.region}-starport-layer-bucket/*"], sid="ImageLayers"),
        _allow(
            ["s3:PutObject"],
            [f"{arn}cloudformation-custom-resource-response-{stack.region.replace('-', '')}/*"],
            sid="AnswersToCloudFormation",
        ),
    ]
    for mode, actions in (("read", _READ), ("write", [*_READ, *_WRITE])):
        resources = [
            resource
            for grant in access
            if grant.mode == mode
            for resource in (f"{arn}{grant.bucket}", f"{arn}{grant.bucket}/{grant.prefix}*")
        ]
        if resources:
            statements.append(
                _allow(actions, resources, condition=_account("Principal", stack), sid=f"RayMay{mode.capitalize()}")
            )
    return statements


def _account(of: str, stack: Stack) -> dict[str, dict[str, str]]:
    return {"StringEquals": {f"aws:{of}Account": stack.account}}


def _allow(
    actions: Sequence[str],
    resources: Sequence[str],
    *,
    condition: dict[str, dict[str, str]] | None = None,
    sid: str | None = None,
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=sid,
        principals=[iam.AnyPrincipal()],
        actions=list(actions),
        resources=list(resources),
        conditions=condition,
    )
