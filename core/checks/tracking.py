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
    """A closed network has no way to Weights & Biases; an MLflow server may have an address inside it.

    https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html
    """
    asked = plan.settings.ray.tracking
    if asked is not None and asked.wandb_project and plan.settings.network.closed:
        yield error(
            *SECTION,
            "wandb_project",
            what="a closed network has no route to api.wandb.ai",
            expected="a network with a route to it",
            fix="set network.egress: nat, or read metrics with `hyperpod-ray runs`",
        )
