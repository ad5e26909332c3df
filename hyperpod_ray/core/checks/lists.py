"""Rules about lists: an entry that is there twice is a slip, and the services refuse most of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, error, rule
from hyperpod_ray.core.plan import Plan

Place = tuple[str | int, ...]


def _twice(path: Place, values: Sequence[Any]) -> Iterator[Finding]:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield error(
                *path,
                index,
                what=f"'{value}' is already entry {values.index(value)}",
                expected="each value once",
                fix="remove this entry",
            )


@rule("ray")
def secrets_are_mounted_once(plan: Plan) -> Iterator[Finding]:
    """Each Secret becomes a volume, and Kubernetes refuses a pod with two volumes of one name.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ (volumes, unique by name)
    """
    ray = plan.settings.ray
    yield from _twice(("ray", "secrets"), ray.secrets)
    if ray.access is not None:
        yield from _twice(("ray", "access", "secret_arns"), ray.access.secret_arns)
        yield from _twice(("ray", "access", "kms_key_arns"), ray.access.kms_key_arns)
    if ray.observability is not None:
        yield from _twice(("ray", "observability", "scrape_namespaces"), ray.observability.scrape_namespaces)


@rule("registries")
def registries_are_named_once(plan: Plan) -> Iterator[Finding]:
    """Two statements of a policy for one repository say the same."""
    yield from _twice(("registries", "pull_from"), plan.settings.registries.pull_from)
    yield from _twice(("registries", "pull_through_caches"), plan.settings.registries.pull_through_caches)


@rule("budget")
def alert_percents_differ(plan: CommonPlan) -> Iterator[Finding]:
    """A budget has each notification once: AWS refuses the second one (DuplicateRecordException).

    https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_CreateNotification.html
    """
    if plan.settings.budget is not None:
        yield from _twice(("budget", "alert_percent"), plan.settings.budget.alert_percent)


@rule("hyperpod")
def rollback_alarms_differ(plan: CommonPlan) -> Iterator[Finding]:
    """An update is rolled back by any of its alarms; the same one twice is one less than you think."""
    for index, group in enumerate(plan.groups):
        if group.update_schedule is not None:
            path = ("hyperpod", "instance_groups", index, "update_schedule", "rolling", "rollback_alarm_names")
            yield from _twice(path, group.update_schedule.rolling.rollback_alarm_names)


@rule("eks")
def public_ranges_differ(plan: Plan) -> Iterator[Finding]:
    """EKS keeps each range of the public endpoint once."""
    endpoint = getattr(plan.settings.eks, "endpoint", None)
    if endpoint is not None:
        yield from _twice(("eks", "endpoint", "public_cidrs"), endpoint.public_cidrs)
