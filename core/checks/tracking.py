"""Rules about experiment trackers: one that is named, and that pods can reach."""

from __future__ import annotations

from collections.abc import Iterator

from core.findings import Finding, error, rule
from core.plan import Plan

SECTION = ("ray", "tracking")


@rule("ray")
def a_tracker_is_named(plan: Plan) -> Iterator[Finding]:
    """The section names a tracker, and one MLflow server only.

    https://mlflow.org/docs/latest/rest-api.html
    """
    asked, access = plan.settings.ray.tracking, plan.settings.ray.access
    if asked is None:
        return
    arn = access.mlflow_arn if access else None
    if asked.mlflow and arn:
        yield error(
            *SECTION,
            "mlflow",
            what=f"a second MLflow server beside {arn}",
            expected="one",
            fix="remove it, or ray.access.mlflow_arn",
        )
    if not (asked.mlflow or arn or asked.wandb_project):
        yield error(
            *SECTION,
            what="no tracker",
            expected="mlflow, wandb_project, or ray.access.mlflow_arn",
            fix="name one, or remove tracking",
        )


@rule("ray", "network")
def a_tracker_is_reachable(plan: Plan) -> Iterator[Finding]:
    """A closed network has no way to an address outside of AWS.

    https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html
    """
    asked = plan.settings.ray.tracking
    if asked is None or not plan.settings.network.closed:
        return
    for key, where in (("mlflow", asked.mlflow), ("wandb_project", asked.wandb_project and "api.wandb.ai")):
        if where:
            yield error(
                *SECTION,
                key,
                what=f"a closed network has no route to {where}",
                expected="a network with a route to it",
                fix="set network.egress: nat, or read metrics with `hyperpod-ray runs`",
            )
