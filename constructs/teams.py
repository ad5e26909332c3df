"""Teams that share a HyperPod cluster: the task governance add-on, the scheduler's policy, a quota for each team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Acknowledgment, CfnResource, Validations
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_sagemaker as sagemaker

from constructs import Construct
from hyperpod_ray.constructs.cluster import addon
from hyperpod_ray.core.names import GOVERNANCE_ADDON

NEWER_TYPE = "the list of types at synth is older than the service; its Region is checked before synth"


@dataclass(frozen=True, kw_only=True)
class TeamShare:
    """What one team has.

    Args:
        name: `TeamName`; create-only.
        resources: `ComputeQuotaResources`, each with `InstanceType` and amounts.
        fair_share_weight: 0 to 100.
        strategy: `LendAndBorrow`, `Lend` or `DontLend`.
        borrow_limit_percent: 1 to 500; None for a strategy that does not borrow, and beside `borrow_limits`.
        borrow_limits: `AbsoluteBorrowLimits`, in the form of `resources`; empty for none.
        preempt: `LowerPriority` or `Never`.
    """

    name: str
    resources: Sequence[Mapping[str, object]]
    fair_share_weight: int
    strategy: str
    borrow_limit_percent: int | None
    borrow_limits: Sequence[Mapping[str, object]] = ()
    preempt: str


class TaskGovernance(Construct):
    """HyperPod task governance: Kueue as an EKS add-on, how teams share, and what each is sure of.

    Creates `AWS::EKS::Addon`, `AWS::SageMaker::ClusterSchedulerConfig` and one `AWS::SageMaker::ComputeQuota` for each
    team, in that order; on destroy the quotas go first, then the policy, then Kueue. The service makes the namespace
    `hyperpod-ns-TEAM` and its LocalQueue of a quota. It costs nothing. Kueue's controller needs running nodes; EKS
    calls the add-on ready when it runs. The quota is a `CfnResource`, as this CDK has no class for it.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance.html

    Args:
        environment: Name of the environment: prefix of the names of policy and quotas.
        cluster: The EKS cluster.
        cluster_arn: ARN of the HyperPod cluster.
        teams: At least one.
        priority_classes: Name to weight.
        fair_share: Whether idle instances go to teams by weight.
        share_idle: Whether instances that no quota covers are shared.
        tags: Of the quotas, which the CDK cannot tag by itself.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: str,
        cluster: eks.ICluster,
        cluster_arn: str,
        teams: Sequence[TeamShare],
        priority_classes: Mapping[str, int],
        fair_share: bool,
        share_idle: bool,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self.addon = addon(self, GOVERNANCE_ADDON, cluster=cluster)
        classes = [
            sagemaker.CfnClusterSchedulerConfig.PriorityClassProperty(name=name, weight=weight)
            for name, weight in priority_classes.items()
        ]
        self.policy = sagemaker.CfnClusterSchedulerConfig(
            self,
            "Policy",
            cluster_arn=cluster_arn,
            name=f"{environment}-policy",
            scheduler_config=sagemaker.CfnClusterSchedulerConfig.SchedulerConfigProperty(
                priority_classes=classes or None,
                fair_share=_enabled(fair_share),
                idle_resource_sharing=_enabled(share_idle),
            ),
        )
        self.policy.add_resource_dependency(self.addon)
        self.quotas = {team.name: self._quota(team, environment, cluster_arn, tags) for team in teams}
        for resource in (self.policy, *self.quotas.values()):
            Validations.of(resource).acknowledge(Acknowledgment(id="CloudFormation-Validate::F3006", reason=NEWER_TYPE))

    def _quota(self, team: TeamShare, environment: str, cluster_arn: str, tags: Mapping[str, str]) -> CfnResource:
        sharing: dict[str, object] = {"Strategy": team.strategy}
        if team.borrow_limit_percent is not None:
            sharing["BorrowLimit"] = team.borrow_limit_percent
        if team.borrow_limits:
            sharing["AbsoluteBorrowLimits"] = [dict(limit) for limit in team.borrow_limits]
        quota = CfnResource(
            self,
            f"Quota-{team.name}",
            type="AWS::SageMaker::ComputeQuota",
            properties={
                "Name": f"{environment}-{team.name}",
                "ClusterArn": cluster_arn,
                "ComputeQuotaTarget": {"TeamName": team.name, "FairShareWeight": team.fair_share_weight},
                "ComputeQuotaConfig": {
                    "ComputeQuotaResources": [dict(resource) for resource in team.resources],
                    "ResourceSharingConfig": sharing,
                    "PreemptTeamTasks": team.preempt,
                },
                "ActivationState": "Enabled",
                "Tags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())],
            },
        )
        quota.add_resource_dependency(self.policy)
        return quota


def _enabled(value: bool) -> str:
    return "Enabled" if value else "Disabled"
