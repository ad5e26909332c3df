"""A page of an environment in the CloudWatch console, of figures that AWS publishes without an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch

from constructs import Construct
from hyperpod_ray.core.names import MOUNT_PATH

HEIGHT = 6
"""Of a row of the environment's own."""
WIDTH = 24
"""Columns of a dashboard."""
Metric = tuple[str, str, dict[str, str], str]
"""Namespace, name, dimensions, statistic."""


class EnvironmentDashboard(Construct):
    """One CloudWatch dashboard (`AWS::CloudWatch::Dashboard`): alarms, pods without a node, file system, events.

    AWS charges three dollars a month for each dashboard beyond the third of an account.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html

    Args:
        environment: Name of the environment, and of the dashboard.
        alarm_arns: ARNs of its alarms.
        eks_cluster_name: Dimension of the control plane's metrics. None: no EKS cluster, and no graphs of it.
        file_system_id: Of the file system; None where it is not this environment's.
        file_system_has_a_size: Whether it has one, and free space. Default: yes.
        counts: Namespace and names of the metrics that count events.
        archive: Log group with every event of the cluster.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: str,
        alarm_arns: Sequence[str],
        eks_cluster_name: str | None = None,
        file_system_id: str | None,
        file_system_has_a_size: bool = True,
        counts: tuple[str, Sequence[str]],
        archive: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self._region = Stack.of(self).region
        namespace, names = counts
        title = "Events of HyperPod and Kubernetes" if eks_cluster_name else "Events of HyperPod"
        widgets: list[dict[str, Any]] = [
            {"type": "alarm", "properties": {"title": "Alarms", "alarms": list(alarm_arns)}},
            *(self._control_plane(eks_cluster_name) if eks_cluster_name else []),
            self._graph(title, [(namespace, name, {}, "Sum") for name in names]),
        ]
        if file_system_id is not None:
            of = {"FileSystemId": file_system_id}
            if file_system_has_a_size:
                widgets.append(
                    self._graph(
                        f"Free space of {MOUNT_PATH} (bytes)",
                        [("AWS/FSx", "FreeDataStorageCapacity", of, "Sum")],
                        period_s=60,  # published every minute: a longer period would add up the minutes
                    )
                )
            widgets.append(
                self._graph(
                    f"Bytes of {MOUNT_PATH}",
                    [("AWS/FSx", "DataReadBytes", of, "Sum"), ("AWS/FSx", "DataWriteBytes", of, "Sum")],
                )
            )
        query = (
            f"SOURCE '{archive}' | fields @timestamp, `detail-type`, detail.EventDetails.Description, "
            "detail.InstanceId, detail.HealthSummary.HealthStatusReason | sort @timestamp desc | limit 50"
        )
        table = {"title": "Newest events", "region": self._region, "query": query, "view": "table"}
        widgets.append({"type": "log", "properties": table})
        self._placed = [{**widget, **_place(index)} for index, widget in enumerate(widgets)]
        self._placed[-1] |= {"x": 0, "y": HEIGHT * ((len(widgets) + 1) // 2), "width": WIDTH}
        self._dashboard = cloudwatch.CfnDashboard(
            self, "Dashboard", dashboard_name=environment, dashboard_body=self._body()
        )

    def add_row(self, widgets: Sequence[cloudwatch.IWidget]) -> None:
        """Put widgets beside each other below all others."""
        row = cloudwatch.Row(*widgets)
        row.position(0, max(widget["y"] + widget["height"] for widget in self._placed))
        self._placed += row.to_json()
        self._dashboard.dashboard_body = self._body()

    def _body(self) -> str:
        return Stack.of(self).to_json_string({"widgets": self._placed})

    def _control_plane(self, eks_cluster_name: str) -> list[dict[str, Any]]:
        cluster = {"ClusterName": eks_cluster_name}
        return [
            self._graph(
                "Pods that no node can take",
                [("AWS/EKS", "scheduler_pending_pods_UNSCHEDULABLE", cluster, "Maximum")],
            ),
            self._graph(
                "Requests that the Kubernetes API failed",
                [
                    ("AWS/EKS", "apiserver_request_total_5XX", cluster, "Sum"),
                    ("AWS/EKS", "apiserver_request_total_429", cluster, "Sum"),
                ],
            ),
        ]

    def _graph(self, title: str, metrics: Sequence[Metric], *, period_s: int = 300) -> dict[str, Any]:
        rows = [
            [namespace, name, *(part for pair in dimensions.items() for part in pair), {"stat": statistic}]
            for namespace, name, dimensions, statistic in metrics
        ]
        return {
            "type": "metric",
            "properties": {
                "title": title,
                "region": self._region,
                "period": period_s,
                "view": "timeSeries",
                "metrics": rows,
            },
        }


def _place(index: int) -> dict[str, int]:
    """Two in a row."""
    return {"x": (index % 2) * WIDTH // 2, "y": (index // 2) * HEIGHT, "width": WIDTH // 2, "height": HEIGHT}
