"""Rules about metrics: an alert whose source is off, and a way that is opened for what nobody installs."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import metric_alerts
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.names import OBSERVABILITY_NAMESPACE
from hyperpod_ray.core.plan import Plan
from hyperpod_ray_rules.arns import arn_of


@rule("observability", "hyperpod", "ray")
def alerts_have_their_source(plan: Plan) -> Iterator[Finding]:
    """Ray reports the use of NVIDIA's GPUs only: without one, the alert on idle GPUs could never be sent.

    https://docs.ray.io/en/latest/ray-observability/reference/system-metrics.html
    """
    observability = plan.settings.observability
    if observability is None or metric_alerts.gpus(plan):
        return
    if "gpus_idle_minutes" in observability.model_fields_set and observability.gpus_idle_minutes is not None:
        yield error(
            "observability",
            "gpus_idle_minutes",
            what="Ray's workers have no NVIDIA GPU, whose use alone Ray reports",
            expected="no alert without a metric",
            fix="remove gpus_idle_minutes",
        )


_ALERTS = ("workers_missing_minutes", "operator_down_minutes", "gpus_idle_minutes", "no_step_minutes")


@rule("observability")
def an_alert_sees_two_samples(plan: Plan) -> Iterator[Finding]:
    """One late sample must not be an alert, nor hide one: an alert waits for two.

    https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness
    """
    section = plan.settings.observability
    for name in _ALERTS if section else ():
        minutes = getattr(section, name)
        least = -(-2 * section.scrape_seconds // 60) if section else 0
        if minutes is not None and section is not None and minutes < least:
            yield warning(
                "observability",
                name,
                what=f"{minutes} minutes have fewer than two samples, with one each {section.scrape_seconds} s",
                expected=f"{least} or more",
                fix=f"set {name}: {least}, or lower scrape_seconds",
            )


@rule("observability", "region")
def grafana_is_in_the_region(plan: Plan) -> Iterator[Finding]:
    """AWS describes a workspace of the cluster's own Region; of another one it says nothing.

    https://docs.aws.amazon.com/sagemaker/latest/dg/hyperpod-observability-addon-setup.html
    """
    section = plan.settings.observability
    if section is None or section.grafana is None:
        return
    region = arn_of(section.grafana.workspace_arn).region
    if region != plan.settings.region:
        yield warning(
            "observability",
            "grafana",
            "workspace_arn",
            what=f"the workspace is in {region}",
            expected=f"one of {plan.settings.region}, the environment's Region",
            fix="name a workspace of that Region, or make sure that yours reaches Prometheus here",
        )


@rule("ray", "observability")
def the_add_on_is_installed_by_somebody(plan: Plan) -> Iterator[Finding]:
    """The way for the add-on's collector is of no use where nothing here installs the add-on."""
    ray_observability = plan.settings.ray.observability
    if ray_observability is None or plan.settings.observability is not None:
        return
    if OBSERVABILITY_NAMESPACE in ray_observability.scrape_namespaces:
        yield warning(
            "ray",
            "observability",
            "scrape_namespaces",
            what=f"lets {OBSERVABILITY_NAMESPACE} scrape, but nothing here installs the observability add-on",
            expected="the section observability, which installs it and lets it scrape",
            fix="add observability: {} at the top level, unless you install the add-on yourself",
        )


@rule("observability", "network")
def the_add_ons_images_are_within_reach(plan: Plan) -> Iterator[Finding]:
    """AWS names no images of the observability add-on: nothing here can tell whether a closed network reaches them.

    https://docs.aws.amazon.com/sagemaker/latest/dg/hyperpod-observability-addon-setup.html
    """
    if plan.settings.observability is not None and plan.settings.network.closed:
        yield warning(
            "observability",
            what=(
                "AWS does not publish where the add-on's images are, and a closed network reaches Amazon ECR of its "
                "Region only"
            ),
            expected="network.egress 'nat', or no section observability",
            fix="ask AWS Support for the add-on's images, or remove observability",
        )
