"""Rules about experiment trackers: one that is named, and that pods can reach."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.findings import Finding, error, rule
from hyperpod_ray.core.names import TRACKING_VARIABLE
from hyperpod_ray.core.plan import Plan
from hyperpod_ray_rules import mlflow

SECTION = ("ray", "tracking")


@rule("ray")
def a_tracker_is_named(plan: Plan) -> Iterator[Finding]:
    """The section names a tracker, and one MLflow server only.

    https://mlflow.org/docs/latest/rest-api.html
    """
    tracking, access = plan.settings.ray.tracking, plan.settings.ray.access
    if tracking is None:
        return
    arn = access.mlflow_arn if access else None
    for name, value in (("mlflow", tracking.mlflow), ("mlflow_app", tracking.mlflow_app)):
        if value and (rival := arn or (tracking.mlflow if name == "mlflow_app" else None)):
            yield error(
                *SECTION,
                name,
                what=f"a second MLflow server beside {rival}",
                expected="one",
                fix=f"remove it, or {'ray.access.mlflow_arn' if arn else 'ray.tracking.mlflow'}",
            )
    if not (tracking.mlflow or tracking.mlflow_app or arn or tracking.wandb_project):
        yield error(
            *SECTION,
            what="no tracker",
            expected="mlflow, mlflow_app, wandb_project, or ray.access.mlflow_arn",
            fix="name one, or remove tracking",
        )


@rule("ray", "region", "network")
def a_new_mlflow_app_works_here(plan: Plan) -> Iterator[Finding]:
    """CloudFormation has the app in some Regions only, and a closed network has no endpoint for it.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-sagemaker-mlflowapp.html
    https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-interface-endpoint.html (tracking servers alone)
    """
    if plan.mlflow_app is None:
        return
    setting, region = (*SECTION, "mlflow_app"), plan.settings.region
    if region not in mlflow.APP_REGIONS:
        yield error(
            *setting,
            what=f"AWS::SageMaker::MlflowApp is not in {region}",
            expected=f"one of {', '.join(sorted(mlflow.APP_REGIONS))}",
            fix="name a server of yours in ray.tracking.mlflow, or use one of these Regions",
        )
    elif plan.settings.network.closed:
        yield error(
            *setting,
            what=f"a closed network has no route to {mlflow.app_host(region)}: AWS documents an endpoint for tracking "
            "servers only",
            expected="a network with a route to it",
            fix="set network.egress: nat, or name a server inside the network in ray.tracking.mlflow",
        )
    tracking_uri = plan.settings.ray.env.get(TRACKING_VARIABLE)
    if tracking_uri is not None:
        yield error(
            "ray",
            "env",
            TRACKING_VARIABLE,
            what=f"{tracking_uri} beside ray.tracking.mlflow_app",
            expected="one MLflow server",
            fix="remove the variable: the pods get the app's ARN",
        )


@rule("ray", "network")
def a_tracker_is_reachable(plan: Plan) -> Iterator[Finding]:
    """A closed network has no way to Weights & Biases; an MLflow server may have an address inside it.

    https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html
    """
    tracking = plan.settings.ray.tracking
    if tracking is not None and tracking.wandb_project and plan.settings.network.closed:
        yield error(
            *SECTION,
            "wandb_project",
            what="a closed network has no route to api.wandb.ai",
            expected="a network with a route to it",
            fix="set network.egress: nat, or read metrics with `hyperpod-ray runs`",
        )
