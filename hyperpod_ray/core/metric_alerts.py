"""Alerts on metrics in Amazon Managed Service for Prometheus, and the mails of its alert manager.

Every rule reads metrics that the observability add-on collects from Ray's pods and from the KubeRay operator, under the
names that Ray and KubeRay give them; the collector adds the label `namespace`, Ray adds `ray_io_cluster`.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ray-observability-metrics-reference.html
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hyperpod_ray.core import notifications
from hyperpod_ray.core.notifications import AlarmMail
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import ray_namespaces

NODE_METRIC = "ray_node_mem_total"
"""One series for each Ray node, head and workers, from its own agent."""
GPU_METRIC = "ray_node_gpus_utilization"
"""Percent, one series for each NVIDIA GPU of a Ray node."""
OPERATOR_METRIC = "kuberay_cluster_info"
"""One series for each RayCluster, from the operator."""
STEP_METRIC = "ray_training_run_step_time_seconds"
"""Unix time of the last step of each run: rank 0's, and the driver's, who says when the run began. From
`hyperpod_ray_training.metrics`, with the label `run`."""
METRICS = (NODE_METRIC, GPU_METRIC, OPERATOR_METRIC, STEP_METRIC)
IDLE_PERCENT = 5
INTERVAL_SECONDS = 60
GROUP = "hyperpod-ray"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """An alerting rule of Prometheus, with its mail."""

    mail: AlarmMail
    expr: str
    minutes: int


def expected_nodes(plan: Plan) -> int:
    """Ray nodes that there are at least: the head, workers at their least number, the driver of GCS fault tolerance."""
    ray = plan.settings.ray
    minimum = sum(
        worker.replicas if not ray.autoscaling or worker.min_replicas is None else worker.min_replicas
        for worker in ray.workers
    )
    return 1 + minimum + (1 if ray.gcs_fault_tolerance else 0)


def alerts(plan: Plan) -> list[Alert]:
    """The alerts that the file asks for; none without the section `observability`."""
    observability = plan.settings.observability
    if observability is None:
        return []
    ray = plan.settings.ray
    cluster = f'ray_io_cluster="{ray.cluster_name}",namespace="{ray.namespace}"'
    enabled = []
    if observability.workers_missing_minutes is not None:
        # vector(0): no series at all is the worst case, and an empty result would never alert
        expr = f"(count({NODE_METRIC}{{{cluster}}}) or vector(0)) < {expected_nodes(plan)}"
        enabled.append(
            Alert(mail=notifications.WORKERS_MISSING, expr=expr, minutes=observability.workers_missing_minutes)
        )
    if observability.operator_down_minutes is not None:
        expr = f"absent({OPERATOR_METRIC})"
        enabled.append(Alert(mail=notifications.OPERATOR_DOWN, expr=expr, minutes=observability.operator_down_minutes))
    if observability.gpus_idle_minutes is not None and gpus(plan):
        expr = f"max({GPU_METRIC}{{{cluster}}}) < {IDLE_PERCENT}"
        enabled.append(Alert(mail=notifications.GPUS_IDLE, expr=expr, minutes=observability.gpus_idle_minutes))
    if observability.no_step_minutes is not None:
        enabled.append(Alert(mail=notifications.NO_STEP, expr=_no_step(plan, observability.no_step_minutes), minutes=1))
    return enabled


def _no_step(plan: Plan, minutes: int) -> str:
    """Runs whose newest step is older, while a process of theirs lives.

    Workers that are lost take their series with them, and the driver's is as old as the run: hence the newest of the
    time. A run that has ended has no series, and its old ones must not count.
    """
    spaces = ray_namespaces(plan)
    where = f'namespace="{spaces[0]}"' if len(spaces) == 1 else f'namespace=~"{"|".join(spaces)}"'
    series, of = f"{STEP_METRIC}{{{where}}}", "max by (namespace, run)"
    age = f"time() - {of} (max_over_time({series}[{minutes}m]))"
    return f"{age} > {minutes * 60} and on (namespace, run) {of} ({series})"


def gpus(plan: Plan) -> bool:
    """Whether workers have GPUs whose use Ray reports: NVIDIA's."""
    types = {group.name: group.type for group in plan.groups}
    used = [types.get(worker.instance_group) for worker in plan.settings.ray.workers]
    # of a group or a type that is refused elsewhere nothing is known
    return any(name is None or not plan.known(name) or plan.type_spec(name).accelerator == "nvidia" for name in used)


def rules(plan: Plan) -> str:
    """Data of the rule groups namespace (`AWS::APS::RuleGroupsNamespace`): YAML, of which JSON is a part."""
    name = plan.name
    rule_entries = [
        {
            "alert": alert.mail.name,
            "expr": alert.expr,
            "for": f"{alert.minutes}m",
            "labels": {"environment": name},
            "annotations": {
                "meaning": alert.mail.means,
                "run": alert.mail.command(name),
                "runbook": alert.mail.runbook(plan.settings.hyperpod.runbook_url),
            },
        }
        for alert in alerts(plan)
    ]
    groups = [{"name": GROUP, "interval": f"{INTERVAL_SECONDS}s", "rules": rule_entries}]
    return json.dumps({"groups": groups}, indent=1, sort_keys=True)


SUBJECT = "{{ .Status | toUpper }}: {{ .CommonLabels.environment }}/{{ .CommonLabels.alertname }}"
"""Of the mail; SNS takes 100 characters of ASCII."""
MESSAGE = """\
{{ range .Alerts }}Environment {{ .Labels.environment }}: {{ .Labels.alertname }} is {{ .Status }}
Meaning: {{ .Annotations.meaning }}
Since: {{ .StartsAt }}
Run: {{ .Annotations.run }}
Runbook: {{ .Annotations.runbook }}
{{ end }}"""


CHAT_MESSAGE = notifications.chat_message(
    title=SUBJECT,
    text="{{ .CommonAnnotations.meaning }}\n{{ range .Alerts }}Since {{ .StartsAt }}. {{ end }}",
    steps=("Run `{{ .CommonAnnotations.run }}`", "Read {{ .CommonAnnotations.runbook }}"),
)
"""One alert's name a message: its annotations are common to all alerts of the group."""


def alert_manager(topic_arns: Sequence[str], region: str, *, chat_topic_arn: str | None = None) -> str:
    """`AlertManagerDefinition` of the workspace: one message to each topic for each alert, and one at its end.

    https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-config.html

    Args:
        topic_arns: Topics that get text.
        region: Of the topics.
        chat_topic_arn: Topic of chat channels, which gets custom notifications. Default: none.
    """
    messages = [(topic_arn, MESSAGE) for topic_arn in topic_arns]
    if chat_topic_arn is not None:
        messages.append((chat_topic_arn, CHAT_MESSAGE))
    receiver = {
        "name": "mails",
        "sns_configs": [
            {
                "topic_arn": topic_arn,
                "sigv4": {"region": region},
                "send_resolved": True,
                "subject": SUBJECT,
                "message": message,
            }
            for topic_arn, message in messages
        ],
    }
    route = {"receiver": "mails", "group_by": ["alertname"], "group_wait": "30s", "repeat_interval": "24h"}
    config = json.dumps({"route": route, "receivers": [receiver]}, indent=1)
    return "alertmanager_config: |\n" + "\n".join(f"  {line}" for line in config.splitlines()) + "\n"
