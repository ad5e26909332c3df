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
    written = [S3Access(bucket=entry.bucket, prefix=f"{entry.prefix}{TEAMS_FOLDER}/") for entry in shared.s3
               if entry.mode == "write"]  # fmt: skip
    made = []
    for entry in shared.s3:
        if entry.mode == "write":
            own = f"{entry.prefix}{folder(team)}"
            made.append(S3Access(bucket=entry.bucket, prefix=own, mode="write"))
        elif not any(meet(entry, other) for other in written):
            made.append(entry)
    return RayAccess(s3=made, kms_key_arns=shared.kms_key_arns)


def meet(one: S3Access, other: S3Access) -> bool:
    """Whether two places in S3 have objects in common."""
    return one.bucket == other.bucket and (one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix))


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
