"""Checks of who is asking: credentials, permissions, bootstrap, service-linked roles."""

from __future__ import annotations

from core.service_limits import partition_of
from ops.clients import Target, absent
from ops.errors import OpsError
from ops.preflight.check import Outcome, failed, ok, skipped, unknown, warning

QUALIFIER = "hnb659fds"
BOOTSTRAP_VERSION = 6
"""What the default stack synthesizer demands: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html"""
NEEDED = (
    "cloudformation:DescribeStacks", "cloudformation:DescribeStackEvents", "cloudformation:GetTemplate",
    "sagemaker:DescribeCluster", "sagemaker:ListClusterNodes",
    "sagemaker:ListClusterEvents",
    "sagemaker:DescribeClusterEvent", "sagemaker:DescribeClusterNode", "eks:DescribeCluster", "fsx:DescribeFileSystems",
    "logs:FilterLogEvents", "sagemaker:BatchRebootClusterNodes", "sagemaker:BatchReplaceClusterNodes",
    "ssm:StartSession",
    "servicequotas:ListServiceQuotas", "pricing:GetProducts",
)  # fmt: skip
"""What the commands of `ops` call; the deployment itself uses the roles of the bootstrap stack."""
ROLES = {"eks.amazonaws.com": "AWSServiceRoleForAmazonEKS", "fsx.amazonaws.com": "AWSServiceRoleForAmazonFSx"}


def credentials(target: Target) -> list[Outcome]:
    """There are credentials, and they belong to the environment's account."""
    try:
        arn = target.aws.require_account()
    except OpsError as error:
        return [failed(error.message, error.next)]
    return [ok(f"{target.plan.settings.account} as {arn.rpartition(':')[2]}")]


def bootstrap(target: Target) -> list[Outcome]:
    """The region has the bootstrap stack in a version that the deployment accepts."""
    settings = target.plan.settings
    command = f"npx cdk bootstrap aws://{settings.account}/{settings.region}"
    try:
        answer = target.aws.call("ssm", "get_parameter", Name=f"/cdk-bootstrap/{QUALIFIER}/version")
    except Exception as error:
        if absent(error):
            return [failed(f"{settings.region} is not bootstrapped", command)]
        raise
    version = int(answer["Parameter"]["Value"])
    if version < BOOTSTRAP_VERSION:
        return [failed(f"bootstrap version {version}, at least {BOOTSTRAP_VERSION} is needed", command)]
    return [ok(f"version {version}")]


def permissions(target: Target) -> list[Outcome]:
    """What IAM says of the caller: the commands' own calls, and assuming the roles that deploy."""
    identity = str(target.aws.call("sts", "get_caller_identity")["Arn"])
    account = target.plan.settings.account
    if identity.endswith(":root"):
        return [warning("this is the account's root user, which may do everything", "use a role")]
    kind, _, name = identity.rpartition(":")[2].partition("/")
    source = identity
    if kind == "assumed-role":
        source = target.aws.call("iam", "get_role", RoleName=name.partition("/")[0])["Role"]["Arn"]
    elif kind != "user":
        return [unknown(f"IAM simulates users and roles, this is {kind}")]
    denied = _denied(target, source, list(NEEDED), "*")
    partition = partition_of(target.plan.settings.region)
    region = target.plan.settings.region
    deploy = f"arn:{partition}:iam::{account}:role/cdk-{QUALIFIER}-deploy-role-{account}-{region}"
    found = []
    if denied:
        found.append(failed(f"not allowed: {', '.join(denied)}", "ask for these permissions"))
    if _denied(target, source, ["sts:AssumeRole"], deploy):
        found.append(failed("the deployment's role may not be assumed", f"ask for sts:AssumeRole on {deploy}"))
    return found or [ok(f"{len(NEEDED) + 1} actions simulated for {source.rpartition(':')[2]}")]


def _denied(target: Target, source: str, actions: list[str], resource: str) -> list[str]:
    answer = target.aws.call(
        "iam", "simulate_principal_policy", PolicySourceArn=source, ActionNames=actions, ResourceArns=[resource]
    )
    return [item["EvalActionName"] for item in answer["EvaluationResults"] if item["EvalDecision"] != "allowed"]


def service_linked_roles(target: Target) -> list[Outcome]:
    """The roles that EKS and FSx make for themselves at first use, where the caller may create them."""
    missing = []
    for service, role in ROLES.items():
        if service.startswith("fsx") and target.plan.new_file_system is None:
            continue
        try:
            target.aws.call("iam", "get_role", RoleName=role)
        except Exception as error:
            if not absent(error):
                raise
            missing.append((service, role))
    if not missing:
        return [ok("there")]
    commands = "; ".join(f"aws iam create-service-linked-role --aws-service-name {service}" for service, _ in missing)
    roles = ", ".join(role for _, role in missing)
    text = f"not there yet: {roles}; made at first use by whoever may iam:CreateServiceLinkedRole"
    return [warning(text, commands)] if missing else [skipped("none is needed")]
