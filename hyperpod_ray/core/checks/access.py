"""Rules about what Ray's pods may do in AWS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hyperpod_ray.core.access import refusals
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.model import RayAccess
from hyperpod_ray.core.names import TRACKING_VARIABLE
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.service_limits import partition_of
from hyperpod_ray.core.yaml_source import Path
from hyperpod_ray_rules.arns import arn_of

_ASSETS = re.compile(r"cdk-[a-z0-9]+-assets-")


@rule("ray", "hyperpod")
def environment_variables_are_allowed(plan: Plan) -> Iterator[Finding]:
    """A variable that names a bucket or an MLflow server is of no use to pods that may not reach it."""
    ray = plan.settings.ray
    groups = [(("ray", "env"), ray.env), (("ray", "head", "env"), ray.head.env)]
    groups += [(("ray", "workers", str(i), "env"), worker.env) for i, worker in enumerate(ray.workers)]
    for path, variables in groups:
        setting = [int(part) if part.isdigit() else part for part in path]
        for name, value in variables.items():
            for refusal in refusals(plan, command=[], variables={name: value}):
                yield error(*setting, name, what=refusal.what, expected=refusal.expected, fix=refusal.fix)


@rule("ray", "network", "region")
def mlflow_is_reachable(plan: Plan) -> Iterator[Finding]:
    """The server is regional, and a closed network has no endpoint for it.

    https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-create-tracking-server-iam.html
    """
    settings = plan.settings
    access = settings.ray.access
    if access is None or access.mlflow_arn is None:
        return
    region = arn_of(access.mlflow_arn).region
    if region != settings.region:
        yield error(
            "ray",
            "access",
            "mlflow_arn",
            what=f"the server is in {region}",
            expected=f"a server in {settings.region}, the environment's Region",
            fix="name one of that Region, or remove mlflow_arn",
        )
    if settings.network.closed:
        yield error(
            "ray",
            "access",
            "mlflow_arn",
            what="a closed network has no route to SageMaker's MLflow",
            expected="a network with a route to it",
            fix="set network.egress: nat, or use an existing network with an endpoint for it",
        )
    if settings.ray.env.get(TRACKING_VARIABLE, access.mlflow_arn) != access.mlflow_arn:
        yield error(
            "ray",
            "env",
            TRACKING_VARIABLE,
            what=f"differs from ray.access.mlflow_arn, {access.mlflow_arn}",
            expected="one MLflow server",
            fix="remove the variable: the pods get it from ray.access",
        )


@rule("ray", "network", "region")
def secrets_are_reachable(plan: Plan) -> Iterator[Finding]:
    """Secrets Manager is regional, and a closed network has no endpoint for it.

    https://docs.aws.amazon.com/secretsmanager/latest/userguide/vpc-endpoint-overview.html
    """
    settings = plan.settings
    arns = settings.ray.access.secret_arns if settings.ray.access else []
    for index, arn in enumerate(arns):
        setting = ("ray", "access", "secret_arns", index)
        if (region := arn_of(arn).region) != settings.region:
            yield error(
                *setting,
                what=f"the secret is in {region}",
                expected=f"a secret in {settings.region}, the environment's Region",
                fix=f"replicate it to {settings.region} and name the replica",
            )
        elif settings.network.closed:
            yield error(
                *setting,
                what="a closed network has no route to AWS Secrets Manager",
                expected="a network with a route to it",
                fix="use a Kubernetes Secret and ray.secrets, or set network.egress: nat",
            )


@rule("ray", "region")
def keys_are_regional(plan: Plan) -> Iterator[Finding]:
    """Pods use keys through S3 of their own region."""
    access = plan.settings.ray.access
    for index, arn in enumerate(access.kms_key_arns if access else []):
        if arn_of(arn).partition != (partition := partition_of(plan.settings.region)):
            yield error(
                "ray",
                "access",
                "kms_key_arns",
                index,
                what=f"the key is in partition {arn_of(arn).partition}",
                expected=f"a key of partition {partition}, as the Region",
                fix="name a key of the environment's Region",
            )
        elif arn_of(arn).region != plan.settings.region:
            yield error(
                "ray",
                "access",
                "kms_key_arns",
                index,
                what=f"the key is in {arn_of(arn).region}",
                expected=f"a key in {plan.settings.region}, the environment's Region",
                fix="name a key of that Region",
            )


@rule("ray")
def access_says_something_once(plan: Plan) -> Iterator[Finding]:
    """Two entries for one place, or a section that allows nothing, is a slip."""
    access = plan.settings.ray.access
    if access is None:
        return
    if not access.s3 and not access.secret_arns and access.mlflow_arn is None:
        yield warning(
            "ray",
            "access",
            what="allows nothing",
            expected="buckets, secrets or an MLflow server",
            fix="name buckets in s3, or remove the section",
        )
    indexes: dict[tuple[str, str], int] = {}
    for index, grant in enumerate(access.s3):
        folder = (grant.bucket, grant.prefix)
        if folder in indexes:
            yield error(
                "ray",
                "access",
                "s3",
                index,
                what=f"{grant.bucket}/{grant.prefix} is already s3[{indexes[folder]}]",
                expected="one entry for each place",
                fix="keep one",
            )
        indexes.setdefault(folder, index)


@rule("ray", "hyperpod", "teams", "account", "region")
def scripts_of_nodes_stay_ours(plan: Plan) -> Iterator[Finding]:
    """Whoever writes into the bucket of the lifecycle scripts, or of the CDK's uploads, decides what runs as root.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-lifecycle-best-practices-eks.html
    """
    settings = plan.settings
    accesses: list[tuple[Path, RayAccess | None]] = [(("ray", "access"), settings.ray.access)]
    accesses += [(("teams", index, "access"), team.access) for index, team in enumerate(settings.teams)]
    for path, access in accesses:
        for index, grant in enumerate(access.s3 if access else []):
            if grant.mode == "write":
                yield from _ours(plan, (*path, "s3", index, "mode"), grant.bucket)
    tiered = settings.hyperpod.tiered_storage
    if tiered is not None and tiered.bucket is not None:
        yield from _ours(plan, ("hyperpod", "tiered_storage", "bucket"), tiered.bucket)


@rule("storage", "hyperpod", "account", "region")
def exports_leave_scripts_alone(plan: CommonPlan) -> Iterator[Finding]:
    """A folder that is exported to the bucket of the lifecycle scripts would write what every node runs as root.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/autoexport-data-repo-dra.html
    """
    for index, link in enumerate(plan.data_repositories):
        if link.auto_export:
            yield from _ours(plan, ("storage", "data_repositories", index, "bucket"), link.bucket)


def _ours(plan: CommonPlan, path: Path, bucket: str) -> Iterator[Finding]:
    """That a bucket which the file lets somebody write is one of this project's."""
    if bucket == plan.lifecycle_bucket_name:
        holds = "the scripts that every node runs as root"
    elif _ASSETS.match(bucket):
        holds = "what the CDK deploys: templates, functions and scripts"
    else:
        return
    yield error(
        *path,
        what=f"{bucket}, which would be written, holds {holds}",
        expected="a bucket of your own",
        fix="set mode: read, or name another bucket" if path[-1] == "mode" else "name another bucket",
    )


@rule("hyperpod", orchestrator="eks")
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
                what=f"is of a new bucket, and tiered_storage.bucket names {tiered.bucket}",
                expected="one of the two",
                fix="remove one",
            )
