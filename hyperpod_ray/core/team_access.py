"""What a team's pods may do in AWS: a role of its own, with places that no other team writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hyperpod_ray.core.model import RayAccess, S3Access, Team
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.team_files import TEAMS_FOLDER


def folder(team: Team) -> str:
    """Prefix of a team below every prefix that the environment may write."""
    return f"{TEAMS_FOLDER}/{team.name}/"


def access_of(plan: Plan, team: Team) -> RayAccess:
    """Buckets, keys, secrets and MLflow server of a team.

    Default: of `ray.access`, what is for reading, and below each prefix for writing a folder of the team's own. No
    secret and no MLflow server: neither knows teams. An entry for reading that has other teams' folders is omitted; a
    rule refuses such a file.
    """
    if team.access is not None:
        return team.access
    shared = plan.settings.ray.access
    if shared is None:
        return RayAccess()
    written = [S3Access(bucket=grant.bucket, prefix=f"{grant.prefix}{TEAMS_FOLDER}/") for grant in shared.s3
               if grant.mode == "write"]  # fmt: skip
    grants = []
    for grant in shared.s3:
        if grant.mode == "write":
            prefix = f"{grant.prefix}{folder(team)}"
            grants.append(S3Access(bucket=grant.bucket, prefix=prefix, mode="write"))
        elif not any(meet(grant, written_grant) for written_grant in written):
            grants.append(grant)
    return RayAccess(s3=grants, kms_key_arns=shared.kms_key_arns)


def meet(first_grant: S3Access, second_grant: S3Access) -> bool:
    """Whether two places in S3 have objects in common."""
    return first_grant.bucket == second_grant.bucket and (
        first_grant.prefix.startswith(second_grant.prefix) or second_grant.prefix.startswith(first_grant.prefix)
    )


def tier_of(plan: Plan, team: Team) -> S3Access | None:
    """Where a team's tiered checkpoints are; None without tiered storage."""
    bucket = plan.tier_bucket_name
    return S3Access(bucket=bucket, prefix=folder(team), mode="write") if bucket else None


def places(plan: Plan, team: Team) -> Iterator[S3Access]:
    """All places in S3 of a team."""
    yield from access_of(plan, team).s3
    if (tier := tier_of(plan, team)) is not None:
        yield tier


def tier_base(plan: Plan, team: Team) -> str | None:
    """Where `--writer tiered` puts a team's second tier; None without tiered storage."""
    tier = tier_of(plan, team)
    return f"s3://{tier.bucket}/{tier.prefix}checkpoints" if tier else None


def has_role(plan: Plan, team: Team) -> bool:
    """Whether a team's pods have a role in AWS."""
    access = access_of(plan, team)
    return bool([*places(plan, team)] or access.secret_arns or access.mlflow_arn)


def as_team(plan: Plan, team: Team) -> Plan:
    """The environment as a team's pods have it: `ray.access` is the team's."""
    access = access_of(plan, team).model_copy(update={"s3": list(places(plan, team))})
    ray = plan.settings.ray.model_copy(update={"access": access})
    return replace(plan, settings=plan.settings.model_copy(update={"ray": ray}))
