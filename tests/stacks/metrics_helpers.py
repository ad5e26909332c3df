"""What tests of `alarms_helpers`, `dashboard`, `metrics` share."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER
from tests.stacks.alarms_helpers import split
from tests.stacks.assembled import Assembly
from tests.support.references import References

EXAMPLES = FOLDER / "examples"
PUBLISHED = {
    # https://docs.aws.amazon.com/eks/latest/userguide/cloudwatch.html
    "AWS/EKS": {
        "apiserver_request_total", "apiserver_request_total_4XX", "apiserver_request_total_429",
        "apiserver_request_total_5XX", "scheduler_pending_pods", "scheduler_pending_pods_ACTIVEQ",
        "scheduler_pending_pods_BACKOFF", "scheduler_pending_pods_GATED", "scheduler_pending_pods_UNSCHEDULABLE",
        "scheduler_schedule_attempts_ERROR", "scheduler_schedule_attempts_UNSCHEDULABLE",
    },
    # https://docs.aws.amazon.com/fsx/latest/LustreGuide/fs-metrics.html
    "AWS/FSx": {
        "DataReadBytes", "DataWriteBytes", "DataReadOperations", "DataWriteOperations", "MetadataOperations",
        "FreeDataStorageCapacity",
    },
    # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-monitoring.html
    "AWS/Events": {"FailedInvocations", "Invocations", "MatchedEvents", "TriggeredRules"},
    # https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-CW-usage-metrics.html
    "AWS/Prometheus": {
        "AlertManagerAlertsReceived", "AlertManagerNotificationsFailed", "AlertManagerNotificationsThrottled",
        "RuleEvaluationFailures", "RuleEvaluations", "RuleGroupIterationsMissed",
    },
}  # fmt: skip


def one(assembly: Assembly, kind: str) -> tuple[str, dict[str, Any]]:
    ((key, found),) = assembly.of_type(kind).items()
    return key, references_of(assembly).resolve(split(key)[0], found["Properties"])


def references_of(assembly: Assembly) -> Any:
    folder = EXAMPLES if assembly.name == "observability" else FOLDER
    settings = load(assembly.name, folder=folder).settings
    return References(assembly.templates, account=settings.account, region=settings.region)
