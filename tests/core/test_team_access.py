"""What a team has in AWS where the file says nothing of it: never what another team writes."""

from __future__ import annotations

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.model import RayAccess, S3Access
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.team_access import access_of

WRITTEN = S3Access(bucket="runs-bucket", prefix="prod/", mode="write")


def plan_with(*entries: S3Access) -> Plan:
    plan = load("teams", folder=FOLDER / "examples").plan
    ray = plan.settings.ray.model_copy(update={"access": RayAccess(s3=list(entries))})
    return Plan(name="teams", settings=plan.settings.model_copy(update={"ray": ray}))


@pytest.mark.parametrize(
    ("prefix", "read"),
    [("", False), ("prod/", False), ("prod/teams/", False), ("prod/teams/speech/", False), ("data/", True),
     ("prod/data/", True)],
)  # fmt: skip
def test_a_team_reads_nothing_that_has_the_teams_folders(prefix: str, read: bool) -> None:
    entry = S3Access(bucket="runs-bucket", prefix=prefix)
    plan = plan_with(entry, WRITTEN)
    for team in plan.settings.teams:
        own = S3Access(bucket="runs-bucket", prefix=f"prod/teams/{team.name}/", mode="write")
        assert access_of(plan, team).s3 == ([entry, own] if read else [own])
