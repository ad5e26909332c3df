"""Rules about what Ray's pods may do in AWS."""

from __future__ import annotations

from collections.abc import Iterator

from core.access import refusals
from core.findings import Finding, error, rule, warning
from core.names import TRACKING_VARIABLE
from core.plan import Plan
from core.service_limits import partition_of


@rule("ray", "hyperpod")
def environment_variables_are_allowed(plan: Plan) -> Iterator[Finding]:
    """A variable that names a bucket or an MLflow server is of no use to pods that may not reach it."""
    ray = plan.settings.ray
    groups = [(("ray", "env"), ray.env), (("ray", "head", "env"), ray.head.env)]
    groups += [(("ray", "workers", str(i), "env"), worker.env) for i, worker in enumerate(ray.workers)]
    for path, variables in groups:
        place = [int(part) if part.isdigit() else part for part in path]
        for name, value in variables.items():
            for refusal in refusals(plan, command=[], variables={name: value}):
                yield error(*place, name, message=f"{refusal.what}; {refusal.fix}")


@rule("ray", "network", "region")
def mlflow_is_reachable(plan: Plan) -> Iterator[Finding]:
    """The server is regional, and a closed network has no endpoint for it.

    https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-create-tracking-server-iam.html
    """
    settings = plan.settings
    access = settings.ray.access
    if access is None or access.mlflow_arn is None:
        return
    region = access.mlflow_arn.split(":")[3]
    if region != settings.region:
        yield error(
            "ray", "access", "mlflow_arn", message=f"the server is in {region}, the environment in {settings.region}"
        )
    if settings.network.closed:
        yield error(
            "ray",
            "access",
            "mlflow_arn",
            message=(
                "a closed network has no route to SageMaker's MLflow; use network.egress: nat, or an existing "
                "network with an endpoint for it"
            ),
        )
    if settings.ray.env.get(TRACKING_VARIABLE, access.mlflow_arn) != access.mlflow_arn:
        yield error("ray", "env", TRACKING_VARIABLE, message=f"differs from ray.access.mlflow_arn, {access.mlflow_arn}")


@rule("ray", "region")
def keys_are_regional(plan: Plan) -> Iterator[Finding]:
    """Pods use keys through S3 of their own region."""
    access = plan.settings.ray.access
    for index, arn in enumerate(access.kms_key_arns if access else []):
        if arn.split(":")[1] != (ours := partition_of(plan.settings.region)):
            message = f"the key is in partition {arn.split(':')[1]}, the environment in {ours}"
            yield error("ray", "access", "kms_key_arns", index, message=message)
        elif arn.split(":")[3] != plan.settings.region:
            yield error(
                "ray",
                "access",
                "kms_key_arns",
                index,
                message=f"the key is in {arn.split(':')[3]}, the environment in {plan.settings.region}",
            )


@rule("ray")
def access_says_something_once(plan: Plan) -> Iterator[Finding]:
    """Two entries for one place, or a section that allows nothing, is a slip."""
    access = plan.settings.ray.access
    if access is None:
        return
    if not access.s3 and access.mlflow_arn is None:
        yield warning("ray", "access", message="allows nothing; name buckets in s3, or remove the section")
    seen: dict[tuple[str, str], int] = {}
    for index, entry in enumerate(access.s3):
        place = (entry.bucket, entry.prefix)
        if place in seen:
            yield error(
                "ray", "access", "s3", index, message=f"{entry.bucket}/{entry.prefix} is already s3[{seen[place]}]"
            )
        seen.setdefault(place, index)


@rule("hyperpod")
def tier_settings_have_effect(plan: Plan) -> Iterator[Finding]:
    """A bucket that exists keeps its own rules."""
    tiered = plan.settings.hyperpod.tiered_storage
    if tiered is None or tiered.bucket is None:
        return
    for name in ("keep_days", "on_destroy"):
        if name in tiered.model_fields_set:
            yield error(
                "hyperpod",
                "tiered_storage",
                name,
                message=f"is of a new bucket, and {tiered.bucket} is named in tiered_storage.bucket; remove one",
            )
