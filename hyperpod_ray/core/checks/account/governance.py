"""Rules about task governance on a HyperPod cluster that is there: somebody else's policy, and quotas of our teams."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import names
from hyperpod_ray.core.checks.account.owners import ours, owner
from hyperpod_ray.core.evidence import Account, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, warning
from hyperpod_ray.core.plan import Plan


@rule("teams", "hyperpod", needs="account", title="task governance")
def teams_are_free(plan: Plan, account: Account) -> Iterator[Finding]:
    """The cluster's policy and the teams' quotas are this environment's, or not there.

    A quota's namespace and queue have the team's name: a second quota of the team would share them.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateClusterSchedulerConfig.html (ConflictException)
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateComputeQuota.html (ConflictException)
    """
    teams = {team.name: index for index, team in enumerate(plan.settings.teams)}
    if not teams:
        yield skipped("the environment has no teams")
        return
    cluster = found(account, "sagemaker", "describe_cluster", ClusterName=plan.settings.hyperpod.cluster_name)
    if cluster is None:
        yield fine("teams", what="the HyperPod cluster is not there yet, and no quota of it")
        return
    arn, findings = cluster["ClusterArn"], []
    listed = account.pages(
        "sagemaker", "list_cluster_scheduler_configs", "ClusterSchedulerConfigSummaries", ClusterArn=arn
    )
    for policy in listed:
        if not _ours(plan, account, policy["ClusterSchedulerConfigArn"]):
            identifier = policy["ClusterSchedulerConfigId"]
            findings.append(
                warning(
                    "task_governance",
                    what=f"{cluster['ClusterName']} has the policy {policy['Name']}, which is not this environment's",
                    expected="no policy beside this environment's: SageMaker refuses what conflicts",
                    fix=f"look at it (aws sagemaker describe-cluster-scheduler-config --cluster-scheduler-config-id "
                    f"{identifier}) and let its owner remove it",
                )
            )
    for quota in account.pages("sagemaker", "list_compute_quotas", "ComputeQuotaSummaries", ClusterArn=arn):
        team, identifier = quota["ComputeQuotaTarget"]["TeamName"], quota["ComputeQuotaId"]
        if team in teams and not _ours(plan, account, quota["ComputeQuotaArn"]):
            findings.append(
                error(
                    "teams",
                    teams[team],
                    "name",
                    what=f"team '{team}' has the quota {quota['Name']} already, which is not this environment's",
                    expected=f"no quota of it: namespace and queue are {names.team_namespace(team)}'s",
                    fix=f"choose another name, or look at it (aws sagemaker describe-compute-quota --compute-quota-id "
                    f"{identifier}) and let its owner remove it",
                )
            )
    yield from findings
    if not findings:
        yield fine("teams", what=f"{cluster['ClusterName']} has no policy and no quota of somebody else")


def _ours(plan: Plan, account: Account, arn: str) -> bool:
    stack = owner(account, arn)
    return stack is not None and ours(plan, stack)
