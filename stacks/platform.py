"""What runs on nodes, for everyone: DNS, the file system's driver, the KubeRay operator."""

from __future__ import annotations

from constructs import Construct, IDependable
from hyperpod_ray import k8s
from hyperpod_ray.constructs.cluster import addon
from hyperpod_ray.constructs.kubernetes import HelmRelease, Manifests
from hyperpod_ray.constructs.metrics import ManagedMetrics
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.constructs.storage import FsxCsiDriver, LustreFileSystem
from hyperpod_ray.constructs.volumes import EbsCsiDriver
from hyperpod_ray.core import metric_alerts
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s.pods import group_tolerations, node_selector
from hyperpod_ray.stacks import watch
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.bindings import bindings, chart_folder
from hyperpod_ray.stacks.eks import EksStack
from hyperpod_ray.stacks.teams import task_governance

DNS_TOLERATIONS: list[dict[str, object]] = [
    {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
]
"""Default tolerations of the add-on `coredns`."""


class PlatformStack(EnvironmentStack):
    """Everything that waits for pods: it comes after the nodes, and on destroy goes before them."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        network: Network,
        control: EksStack,
        cluster_arn: str,
        file_system: LustreFileSystem | None,
    ) -> None:
        super().__init__(scope, construct_id, plan=plan, description="DNS, file system driver, KubeRay operator")
        eks = control.eks
        head = plan.settings.ray.head.instance_group
        on_cpu, tolerations = node_selector(head), group_tolerations(plan, head)
        dns_configuration: dict[str, object] = {"nodeSelector": on_cpu}
        if tolerations:
            # the add-on's own list is replaced: it tolerates control-plane nodes, and nodes that wait for their pods
            dns_configuration["tolerations"] = [*DNS_TOLERATIONS, *tolerations]
        addon(self, "coredns", cluster=eks.cluster, configuration=dns_configuration)
        self.driver = FsxCsiDriver(
            self,
            "FsxCsi",
            cluster=eks.cluster,
            role=control.driver_role.role,
            node_selector=on_cpu,
            tolerations=tolerations,
        )
        if plan.head_volume_gib is not None:
            EbsCsiDriver(
                self,
                "EbsCsi",
                cluster=eks.cluster,
                oidc_provider=eks.oidc_provider,
                oidc_issuer=eks.oidc_issuer,
                environment_name=plan.name,
                nodes_of=cluster_arn,
                key_arn=plan.head_volume_key_arn,
                node_selector=on_cpu,
                tolerations=tolerations,
            )
        objects = k8s.platform_manifests(plan, bindings(plan, network=network, file_system=file_system))
        Manifests(self, "Manifests", cluster=eks.cluster, manifests=objects)
        settings = plan.settings
        queues: list[IDependable] = []
        if settings.teams:
            # the operator has its rights in the teams' namespaces, which the service makes of their quotas
            queues.append(task_governance(self, plan, cluster=eks.cluster, cluster_arn=cluster_arn))
        operator = k8s.kuberay_operator(plan)
        chart = chart_folder(operator)
        HelmRelease(self, "KubeRay", cluster=eks.cluster, release=operator, chart=chart, after=queues)
        self.health = watch.health(self, plan, cluster_arn=cluster_arn, file_system=file_system)
        if (observability := settings.observability) is not None:
            grafana = (
                (observability.grafana.workspace_name, observability.grafana.workspace_arn)
                if observability.grafana
                else None
            )
            metrics = ManagedMetrics(
                self,
                "Metrics",
                environment=plan.name,
                cluster=eks.cluster,
                level=observability.level,
                scrape_seconds=observability.scrape_seconds,
                retention_days=observability.retention_days,
                container_logs=observability.container_logs,
                grafana=grafana,
                retain=observability.on_destroy == "retain",
                rules=metric_alerts.rules(plan) if metric_alerts.alerts(plan) else None,
                alert_manager=metric_alerts.alert_manager(
                    self.health.topic_arns, settings.region, chat_topic_arn=self.health.chat_topic_arn
                ),
                watch=self.health.watch,
            )
            metrics.let_publish(self.health.let_publish)
            self.output("MetricsEndpoint", metrics.workspace.attr_prometheus_endpoint, "Prometheus workspace")
        self.dashboard = watch.overview(self, plan, self.health, file_system=file_system)
