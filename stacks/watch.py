"""What watches a cluster of either orchestrator: mails, the archive of events, alarms, budget and dashboard."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.constructs.budget import MonthlyBudget
from hyperpod_ray.constructs.chat import SlackChannel, TeamsChannel
from hyperpod_ray.constructs.dashboard import EnvironmentDashboard
from hyperpod_ray.constructs.health import HealthNotifications
from hyperpod_ray.constructs.storage import HomeFileSystem, LustreFileSystem
from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.plan_names import ray_namespaces
from hyperpod_ray.stacks.base import EnvironmentStack


def health(
    stack: EnvironmentStack,
    plan: CommonPlan,
    *,
    cluster_arn: str,
    file_system: LustreFileSystem | None,
    homes: HomeFileSystem | None = None,
) -> HealthNotifications:
    """Mails and alarms about the cluster, its Kubernetes where it has one, and the new file systems."""
    hyperpod = plan.settings.hyperpod
    kubernetes: dict[str, Any] = {}
    if plan.eks_cluster_name:
        kubernetes = {
            "eks_cluster_name": plan.eks_cluster_name,
            "control_plane_logs": None if plan.existing_eks else names.control_plane_log_group(plan.eks_cluster_name),
            "namespaces": ray_namespaces(plan),
        }
    notices = HealthNotifications(
        stack,
        "Health",
        environment=plan.name,
        cluster_arn=cluster_arn,
        emails=hyperpod.alarm_emails,
        https=hyperpod.alarm_https,
        topic_arn=hyperpod.alarm_topic_arn,
        slack=[SlackChannel(**channel.model_dump()) for channel in hyperpod.alarm_slack],
        teams=[TeamsChannel(**channel.model_dump()) for channel in hyperpod.alarm_teams],
        runbook=hyperpod.runbook_url,
        event_log_group=names.event_log_group(plan.name) if plan.fixed_log_groups else None,
        event_retention_days=hyperpod.event_retention_days,
        event_log_group_exists=hyperpod.event_log_group_exists,
        protected=plan.settings.protected,
        nodes=sum(group.count for group in plan.groups),
        **kubernetes,
    )
    if file_system is not None and plan.ssd_file_system is not None:  # one without a size is never full
        file_system.alarm_when_full(notices.watch, capacity_gib=plan.ssd_file_system.capacity_gib)
    if homes is not None and plan.new_homes is not None:
        homes.alarm_when_full(notices.watch, capacity_gib=plan.new_homes.capacity_gib)
    return notices


def overview(
    stack: EnvironmentStack, plan: CommonPlan, health: HealthNotifications, *, file_system: LustreFileSystem | None
) -> EnvironmentDashboard:
    """The budget and the dashboard. They come last: the dashboard, which is returned, shows the alarms there are."""
    if (budget := plan.settings.budget) is not None:
        health.let_budgets_publish()
        MonthlyBudget(
            stack,
            "Budget",
            environment=plan.name,
            usd_per_month=budget.usd_per_month,
            alert_percent=budget.alert_percent,
            forecast_percent=budget.forecast_percent,
            topic=health.topic,
        )
    dashboard = EnvironmentDashboard(
        stack,
        "Dashboard",
        environment=plan.name,
        alarm_arns=health.watch.arns,
        eks_cluster_name=plan.eks_cluster_name or None,
        file_system_id=file_system.file_system_id if file_system is not None else None,
        file_system_has_a_size=plan.ssd_file_system is not None,
        counts=(health.watch.namespace, health.watch.counted),
        archive=health.archive.log_group_name,
    )
    stack.output("EventArchive", health.archive.log_group_name, "log group with every event of the cluster")
    return dashboard
