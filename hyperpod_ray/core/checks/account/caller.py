"""Rules about who is asking: bootstrap stack, permissions, service-linked roles."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, unknown, warning
from hyperpod_ray.core.service_limits import partition_of

QUALIFIER = "hnb659fds"
BOOTSTRAP_VERSION = 6
"""What the default stack synthesizer demands: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html"""
NEEDED = (
    "cloudformation:DescribeStacks", "cloudformation:DescribeStackEvents", "cloudformation:GetTemplate",
    "sagemaker:DescribeCluster", "sagemaker:ListClusterNodes",
    "sagemaker:ListClusterEvents",
    "sagemaker:DescribeClusterEvent", "sagemaker:DescribeClusterNode", "eks:DescribeCluster", "fsx:DescribeFileSystems",
    "logs:FilterLogEvents", "sagemaker:BatchRebootClusterNodes", "sagemaker:BatchReplaceClusterNodes",
    "sagemaker:BatchDeleteClusterNodes",
    "ssm:StartSession",
    "servicequotas:ListServiceQuotas", "pricing:GetProducts",
)  # fmt: skip
"""What the commands of `ops` call; the deployment itself uses the roles of the bootstrap stack."""
ROLES = {"eks.amazonaws.com": "AWSServiceRoleForAmazonEKS", "fsx.amazonaws.com": "AWSServiceRoleForAmazonFSx"}


@rule("account", "region", needs="account", title="bootstrap")
def region_is_bootstrapped(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """The Region has the CDK's bootstrap stack in a version that the deployment accepts, with its bucket.

    https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html
    """
    settings = plan.settings
    command = f"npx cdk bootstrap aws://{settings.account}/{settings.region}"
    answer = found(account, "ssm", "get_parameter", Name=f"/cdk-bootstrap/{QUALIFIER}/version")
    if answer is None:
        yield error(
            "region",
            what=f"{settings.region} is not bootstrapped",
            expected="the CDK's bootstrap stack there",
            fix=command,
        )
        return
    text = str(answer["Parameter"]["Value"])
    if not text.isdigit() or int(text) < BOOTSTRAP_VERSION:
        yield error(
            "region", what=f"bootstrap version {text}", expected=f"version {BOOTSTRAP_VERSION} or newer", fix=command
        )
        return
    yield fine("region", what=f"version {text}")


@rule("account", "region", needs="account", title="permissions")
def caller_may(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """The caller may do what the commands do, and assume the role that deploys, as IAM simulates it."""
    identity = str(account.call("sts", "get_caller_identity")["Arn"])
    number, region = plan.settings.account, plan.settings.region
    if identity.endswith(":root"):
        yield warning(
            "account",
            what="the caller is the account's root user, which may do everything",
            expected="a role",
            fix="use a role",
        )
        return
    identity_type, _, name = identity.rpartition(":")[2].partition("/")
    source = identity
    if identity_type == "assumed-role":
        source = account.call("iam", "get_role", RoleName=name.partition("/")[0])["Role"]["Arn"]
    elif identity_type != "user":
        yield unknown(
            "account",
            what=f"the caller is {identity_type}, which IAM does not simulate",
            expected="a user or a role",
            fix="call with a role to have its permissions checked",
        )
        return
    needed = [action for action in NEEDED if plan.eks_cluster_name or not action.startswith("eks:")]
    denied = _denied(account, source, needed, "*")
    deploy = f"arn:{partition_of(region)}:iam::{number}:role/cdk-{QUALIFIER}-deploy-role-{number}-{region}"
    findings = []
    if denied:
        findings.append(
            error(
                "account",
                what=f"not allowed: {', '.join(denied)}",
                expected="these permissions, which the commands need",
                fix="ask for these permissions",
            )
        )
    if _denied(account, source, ["sts:AssumeRole"], deploy):
        findings.append(
            error(
                "account",
                what="the caller may not assume the deployment's role",
                expected="sts:AssumeRole on it",
                fix=f"ask for sts:AssumeRole on {deploy}",
            )
        )
    yield from findings or [
        fine("account", what=f"{len(needed) + 1} actions simulated for {source.rpartition(':')[2]}")
    ]


def _denied(account: Account, source: str, actions: list[str], resource: str) -> list[str]:
    answer = account.call(
        "iam", "simulate_principal_policy", PolicySourceArn=source, ActionNames=actions, ResourceArns=[resource]
    )
    return [result["EvalActionName"] for result in answer["EvaluationResults"] if result["EvalDecision"] != "allowed"]
