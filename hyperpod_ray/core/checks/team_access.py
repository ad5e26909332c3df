"""Rules about teams' rights in AWS: nobody reads or writes what another team writes."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.model import S3Access
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.team_access import access_of, meet, places
from hyperpod_ray.core.team_files import TEAMS_FOLDER


@rule("teams", "ray", "hyperpod")
def places_are_one_teams(plan: Plan) -> Iterator[Finding]:
    """Two teams whose places in S3 meet are not apart: one of them writes what the other reads as its own.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html
    """
    teams = plan.settings.teams
    for index, team in enumerate(teams):
        for other_team in teams[:index]:
            for position, grant in enumerate(access_of(plan, team).s3):
                theirs = next(
                    (
                        other_grant
                        for other_grant in places(plan, other_team)
                        if meet(grant, other_grant) and "write" in (grant.mode, other_grant.mode)
                    ),
                    None,
                )
                if theirs is not None and (team.access is not None or other_team.access is not None):
                    yield error(
                        "teams",
                        index,
                        "access",
                        *(("s3", position) if team.access is not None else ()),
                        what=f"s3://{grant.bucket}/{grant.prefix} meets s3://{theirs.bucket}/{theirs.prefix} of team "
                        f"'{other_team.name}', and one of the two is written",
                        expected="a bucket or a prefix of its own",
                        fix="give each team a prefix, and share by /fsx/shared or by an entry that both read",
                    )


@rule("teams", "ray")
def what_is_read_is_no_teams(plan: Plan) -> Iterator[Finding]:
    """Teams read the entries of `ray.access` with mode `read`; the teams' folders below one would be read by all."""
    access = plan.settings.ray.access
    defaults = [team for team in plan.settings.teams if team.access is None]
    if access is None or not defaults:
        return
    written = [grant for grant in access.s3 if grant.mode == "write"]
    for index, grant in enumerate(access.s3):
        below = next(
            (
                written_grant
                for written_grant in written
                if grant.mode == "read"
                and meet(grant, S3Access(bucket=written_grant.bucket, prefix=f"{written_grant.prefix}{TEAMS_FOLDER}/"))
            ),
            None,
        )
        if below is not None:
            yield error(
                "ray",
                "access",
                "s3",
                index,
                what=f"s3://{grant.bucket}/{grant.prefix} for reading has the teams' folders below "
                f"s3://{below.bucket}/{below.prefix}{TEAMS_FOLDER}/",
                expected="a prefix without them",
                fix="name a prefix of the data, or give each team its own access",
            )


@rule("teams", "ray")
def secrets_are_given_by_name(plan: Plan) -> Iterator[Finding]:
    """Secrets and MLflow servers of `ray.access` are not the teams': neither has a part for each team."""
    access = plan.settings.ray.access
    for index, team in enumerate(plan.settings.teams):
        if access is not None and team.access is None and (access.secret_arns or access.mlflow_arn):
            named = [name for name in ("secret_arns", "mlflow_arn") if getattr(access, name)]
            yield warning(
                "teams",
                index,
                what=f"'{team.name}' has no access of its own, and its pods get no {' and no '.join(named)} of "
                "ray.access",
                expected="access of the team where its jobs use them",
                fix=f"add access: {{{', '.join(f'{name}: …' for name in named)}}} to the team, or leave it",
            )
