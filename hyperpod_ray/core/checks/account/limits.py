"""Rules about limits of the account that a deployment meets outside HyperPod: stacks, roles, builds, functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import names, needs
from hyperpod_ray.core.checks.account.quotas import enough, quota_values
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, unknown, warning
from hyperpod_ray.core.plan import Plan, read_data
from hyperpod_ray.core.plan_names import stack_names

Json = dict[str, Any]
ROLES = {"eks": 30, "slurm": 10}
"""More than the stacks of any environment of an orchestrator create, but for roles of teams and groups; a test counts
them."""
PROVIDERS = 100
"""OpenID Connect providers of an account by default: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""
FUNCTIONS_AT_ONCE = 5
"""Functions of a deployment that run side by side: kubectl's, its provider framework's, builds' triggers."""
LIVE = [
    "CREATE_COMPLETE", "CREATE_FAILED", "CREATE_IN_PROGRESS", "DELETE_FAILED", "DELETE_IN_PROGRESS", "IMPORT_COMPLETE",
    "IMPORT_IN_PROGRESS", "IMPORT_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_FAILED", "IMPORT_ROLLBACK_IN_PROGRESS",
    "REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "ROLLBACK_IN_PROGRESS", "UPDATE_COMPLETE",
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_FAILED", "UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_ROLLBACK_FAILED", "UPDATE_ROLLBACK_IN_PROGRESS",
]  # fmt: skip
"""Every state of a stack but that of a deleted one, which counts for nothing."""


@rule("network", "storage", "image", eks=("eks", "registries"), needs="account", title="stack quota")
def stacks_are_fewenough(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """CloudFormation has room for the environment's stacks.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
    """
    planned = set(stack_names(plan))
    listed = account.pages("cloudformation", "list_stacks", "StackSummaries", StackStatusFilter=LIVE)
    foreign = [summary for summary in listed if summary["StackName"] not in planned]
    name = read_data("quotas.yaml")["cloudformation"]["stacks"]
    yield enough(quota_values(account, "cloudformation"), name, len(planned), len(foreign))


@rule("network", "storage", "image", eks=("eks",), needs="account", title="export names")
def exports_are_free(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """No other stack exports a value under a name of this environment's stacks: exports are unique in a Region.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-exports.html
    """
    stacks = stack_names(plan)
    taken = []
    for export in account.pages("cloudformation", "list_exports", "Exports"):
        stack, _, rest = export["Name"].partition(":")
        exporting = str(export.get("ExportingStackId", "")).partition(":stack/")[2].partition("/")[0]
        if rest and stack in stacks and exporting != stack:
            taken.append((export["Name"], exporting))
    for name, exporting in taken:
        yield error(
            what=f"stack {exporting} exports {name}",
            expected="exports of this environment's names to be its own",
            fix=f"delete that stack, or rename {plan.name}.yaml",
        )
    if not taken:
        yield fine(what="none is taken")


@rule("network", "storage", "image", eks=("eks",), needs="account", title="IAM quotas")
def roles_are_fewenough(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """IAM has room for the roles that the stacks create, and for the cluster's OpenID Connect provider.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
    """
    summary = account.call("iam", "get_account_summary").get("SummaryMap") or {}
    roles, quota = summary.get("Roles"), summary.get("RolesQuota")
    if roles is None or quota is None:
        yield unknown(
            what="IAM does not say how many roles there are",
            expected="Roles and RolesQuota",
            fix="look in the IAM console",
        )
    elif quota - roles < (room := ROLES[plan.settings.orchestrator] + len(plan.own_roles)) and not _deployed(
        plan, account
    ):
        yield error(
            what=f"{roles} of {quota} roles are used",
            expected=f"room for {room}",
            fix="delete roles that nobody uses, or ask for more in the Service Quotas console (us-east-1)",
        )
    else:
        yield fine(what=f"{roles} of {quota} roles are used")
    if plan.new_eks is None:
        return
    providers = len(account.call("iam", "list_open_id_connect_providers")["OpenIDConnectProviderList"])
    if providers >= PROVIDERS:
        yield warning(
            what=f"{providers} OpenID Connect providers are there, and {PROVIDERS} is what IAM allows by default",
            expected="room for the cluster's",
            fix="aws iam list-open-id-connect-providers lists them: remove those whose clusters are gone, or see that "
            "the quota was raised",
        )


@rule("image", eks=("registries",), needs="account", title="build quota")
def builds_may_run(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """CodeBuild runs at least one build: accounts that are new may have none.

    https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html
    """
    if plan.built_image is None and not needs.copies(plan):
        yield skipped("nothing is built or copied")
        return
    yield enough(quota_values(account, "codebuild"), read_data("quotas.yaml")["codebuild"]["builds"], 1, 0)


@rule("observability", needs="account", title="metrics quota")
def workspaces_are_few_enough(plan: Plan, account: Account) -> Iterator[Finding]:
    """The Region has room for the environment's Prometheus workspace.

    https://docs.aws.amazon.com/prometheus/latest/userguide/AMP_quotas.html
    """
    if plan.settings.observability is None:
        yield skipped("no metrics are collected")
        return
    workspaces = account.pages("amp", "list_workspaces", "workspaces")
    used = sum(1 for workspace in workspaces if workspace.get("tags", {}).get(names.ENVIRONMENT_TAG) != plan.name)
    yield enough(quota_values(account, "aps"), read_data("quotas.yaml")["aps"]["workspaces"], 1, used)


@rule("eks", needs="account", title="function quota")
def functions_may_run(plan: Plan, account: Account) -> Iterator[Finding]:
    """Lambda has runs left that no function reserves: manifests are applied by functions.

    https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html
    """
    limit = account.call("lambda", "get_account_settings").get("AccountLimit") or {}
    free = limit.get("UnreservedConcurrentExecutions")
    if free is None:
        yield unknown(
            what="Lambda does not say how many runs are unreserved",
            expected="UnreservedConcurrentExecutions",
            fix="look in the Lambda console",
        )
    elif free < FUNCTIONS_AT_ONCE:
        yield warning(
            what=f"{free} of {limit.get('ConcurrentExecutions', '?')} concurrent runs of Lambda are unreserved",
            expected=f"at least {FUNCTIONS_AT_ONCE} for the functions of the deployment",
            fix="release a reservation, or ask for more in the Service Quotas console",
        )
    else:
        yield fine(what=f"{free} concurrent runs are unreserved")


def _deployed(plan: CommonPlan, account: Account) -> bool:
    """Whether the environment's stacks, and with them its roles, are there already."""
    planned = set(stack_names(plan))
    listed = account.pages("cloudformation", "list_stacks", "StackSummaries", StackStatusFilter=LIVE)
    return planned <= {summary["StackName"] for summary in listed}
