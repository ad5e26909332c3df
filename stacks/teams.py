"""Teams of an environment file as the construct takes them."""

from __future__ import annotations

from aws_cdk import aws_eks_v2 as eks

from constructs import Construct
from hyperpod_ray.constructs import teams
from hyperpod_ray.constructs.identity import PodIdentity
from hyperpod_ray.core import names, team_access
from hyperpod_ray.core.model import TaskGovernance, Team, TeamQuota
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.stacks.bindings import bucket_access

STRATEGIES = {"lend-and-borrow": "LendAndBorrow", "lend": "Lend", "none": "DontLend"}


def task_governance(scope: Construct, plan: Plan, *, cluster: eks.ICluster, cluster_arn: str) -> teams.TaskGovernance:
    """The add-on, the policy and the quotas of an environment that has teams."""
    settings = plan.settings
    governance = settings.task_governance or TaskGovernance()
    return teams.TaskGovernance(
        scope,
        "Teams",
        environment=plan.name,
        cluster=cluster,
        cluster_arn=cluster_arn,
        teams=[_share(team) for team in settings.teams],
        priority_classes={priority_class.name: priority_class.weight for priority_class in governance.priority_classes},
        fair_share=governance.fair_share,
        share_idle=governance.share_idle,
        tags={**settings.tags, names.ENVIRONMENT_TAG: plan.name},
    )


def team_roles(identity: PodIdentity, plan: Plan) -> None:
    """A role for each team that has rights in AWS, in the team's namespace alone."""
    for team in plan.settings.teams:
        if team_access.has_role(plan, team):
            access, tier = team_access.access_of(plan, team), team_access.tier_of(plan, team)
            identity.team(
                names.team_namespace(team.name),
                purpose=f"Ray's pods of team {team.name}",
                buckets=[bucket_access(grant) for grant in access.s3],
                kms_key_arns=access.kms_key_arns,
                secret_arns=access.secret_arns,
                mlflow_arn=access.mlflow_arn,
                tier=bucket_access(tier) if tier else None,
            )


def _share(team: Team) -> teams.TeamShare:
    borrows = team.sharing == "lend-and-borrow"
    return teams.TeamShare(
        name=team.name,
        resources=[_resource(quota) for quota in team.quota],
        fair_share_weight=team.fair_share_weight,
        strategy=STRATEGIES[team.sharing],
        borrow_limit_percent=team.borrow_limit_percent if borrows else None,
        preempt="LowerPriority" if team.preempt_lower_priority else "Never",
    )


def _resource(quota: TeamQuota) -> dict[str, object]:
    amounts = {
        "Count": quota.instances,
        "Accelerators": quota.accelerators,
        "VCpu": quota.vcpus,
        "MemoryInGiB": quota.memory_gib,
    }
    return {"InstanceType": quota.type, **{key: value for key, value in amounts.items() if value is not None}}
