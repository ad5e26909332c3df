"""Rules about what deploys: the bucket of the bootstrap stack, CloudFormation's role, service-linked roles."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import names
from hyperpod_ray.core.checks.account.caller import QUALIFIER, ROLES
from hyperpod_ray.core.checks.account.storage import bucket_region
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, unknown

CREATES = (
    "sagemaker:CreateCluster", "iam:CreateRole", "iam:PassRole", "iam:PutRolePolicy", "lambda:CreateFunction",
    "logs:CreateLogGroup", "s3:CreateBucket",
)  # fmt: skip
"""What the stacks of every environment create. A permission boundary or a control policy of the organization may deny
it to the role that deploys; a resource and a condition are judged in tests of the templates."""

GOVERNANCE = (
    "eks:CreateAddon", "eks:AssociateAccessPolicy", "sagemaker:CreateClusterSchedulerConfig",
    "sagemaker:CreateComputeQuota",
)  # fmt: skip
"""What teams need besides: the handlers of the quota give HyperPod's role its access to the cluster."""


@rule("account", "region", needs="account", title="bootstrap bucket")
def asset_bucket_exists(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """The bucket of the bootstrap stack is there: templates, charts and scripts are uploaded to it.

    https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html
    """
    settings = plan.settings
    bucket = f"cdk-{QUALIFIER}-assets-{settings.account}-{settings.region}"
    region = bucket_region(account, bucket)
    if region is None:
        yield error(
            "region",
            what=f"{bucket}: no such bucket, and the bootstrap stack says that it is there",
            expected="the bucket that the bootstrap stack creates",
            fix=f"delete the stack {names.BOOTSTRAP_STACK}, then npx cdk bootstrap aws://{settings.account}/{settings.region}",
        )
    elif not region:
        yield unknown(
            "region",
            what=f"{bucket} exists, and these credentials may not see it",
            expected="s3:ListBucket on it",
            fix="ask for the permission",
        )
    else:
        yield fine("region", what=bucket)


@rule("account", "region", "storage", "network", eks=("eks", "teams"), needs="account", title="deployment role")
def deployment_role_may_create(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """CloudFormation's role may create what the stacks create, as IAM simulates it with the organization's policies.

    https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
    """
    number, region = plan.settings.account, plan.settings.region
    name = f"cdk-{QUALIFIER}-cfn-exec-role-{number}-{region}"
    answer = found(account, "iam", "get_role", RoleName=name)
    if answer is None:
        yield error(
            "account",
            what=f"{name}: no such role",
            expected="the role that the bootstrap stack creates",
            fix=f"npx cdk bootstrap aws://{number}/{region}",
        )
        return
    actions = [*CREATES]
    actions += ["eks:CreateCluster"] if plan.new_eks is not None else []
    actions += ["fsx:CreateFileSystem"] if plan.new_storage else []
    actions += ["ec2:CreateVpc"] if plan.new_network is not None else []
    actions += [*GOVERNANCE] if plan.teams else []
    actions += ["sagemaker:CreateMlflowApp"] if plan.mlflow_app is not None else []
    denied, by = simulated(account, str(answer["Role"]["Arn"]), actions)
    if denied:
        yield error(
            "account",
            what=f"CloudFormation's role {name} is not allowed: {', '.join(denied)}{by}",
            expected="a role that may create what the stacks create",
            fix="bootstrap with --cloudformation-execution-policies that allow it, or ask for another control policy",
        )
        return
    missing = _missing_roles(plan, account)
    if missing and simulated(account, str(answer["Role"]["Arn"]), ["iam:CreateServiceLinkedRole"])[0]:
        commands = "; ".join(f"aws iam create-service-linked-role --aws-service-name {service}" for service in missing)
        yield error(
            "account",
            what=f"{', '.join(missing.values())} not there, and {name} may not iam:CreateServiceLinkedRole",
            expected="the roles that the services use",
            fix=f"let an administrator run {commands}",
        )
        return
    note = f"; {', '.join(missing.values())} will be created" if missing else ""
    yield fine("account", what=f"{len(actions)} actions simulated for {name}{note}")


def _missing_roles(plan: CommonPlan, account: Account) -> dict[str, str]:
    """Service-linked roles that are not there yet, by service.

    https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles.html
    """
    used = {"eks": bool(plan.eks_cluster_name), "fsx": bool(plan.new_storage)}
    roles = {service: role for service, role in ROLES.items() if used[service.partition(".")[0]]}
    return {
        service: role
        for service, role in roles.items()
        if found(account, "iam", "get_role", RoleName=role) is None
    }  # fmt: skip


def simulated(account: Account, source: str, actions: list[str]) -> tuple[list[str], str]:
    """Actions that IAM would deny a principal on every resource, and who denies them where it is not the principal."""
    answer = account.call(
        "iam", "simulate_principal_policy", PolicySourceArn=source, ActionNames=actions, ResourceArns=["*"]
    )
    refused = [result for result in answer["EvaluationResults"] if result["EvalDecision"] != "allowed"]
    organization = any(
        (result.get("OrganizationsDecisionDetail") or {}).get("AllowedByOrganizations") is False for result in refused
    )
    boundary = any(
        (result.get("PermissionsBoundaryDecisionDetail") or {}).get("AllowedByPermissionsBoundary") is False
        for result in refused
    )
    by = " (by a control policy of the organization)" if organization else " (by a boundary)" if boundary else ""
    return [result["EvalActionName"] for result in refused], by
