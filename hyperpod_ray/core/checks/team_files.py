"""Rules about teams' users and files: a user is of one team, and a folder moves to one team."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.team_files import DATA_FOLDER, SHARED_FOLDER, TEAMS_FOLDER, uid

NOBODY = 65_534
"""User of every image and node that owns nothing, and of files whose owner a server hides."""
TAKEN = (TEAMS_FOLDER, SHARED_FOLDER, DATA_FOLDER)


@rule("teams")
def users_differ(plan: Plan) -> Iterator[Finding]:
    """The file system keeps teams apart by their users: two teams of one user read and delete each other's files.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/what-is.html
    """
    owners: dict[int, str] = {}
    for index, team in enumerate(plan.settings.teams):
        if uid(team) == NOBODY:
            yield error(
                "teams",
                index,
                "uid",
                what=f"{NOBODY} is the user 'nobody', as which processes of others run",
                expected="a user that only the team has",
                fix=f"set uid: {_free(plan)}",
            )
        owner = owners.setdefault(uid(team), team.name)
        if owner != team.name:
            derived = "" if team.uid is not None else ", which follows from its name"
            yield error(
                "teams",
                index,
                "uid",
                what=f"{uid(team)}{derived}, is that of team '{owner}' too",
                expected="a user of its own for each team",
                fix=f"set uid: {_free(plan)}",
            )


def _free(plan: Plan) -> int:
    used = {uid(team) for team in plan.settings.teams}
    return next(number for number in range(60_000, 70_000) if number not in used)


@rule("teams", "storage")
def folders_move_to_one_team(plan: Plan) -> Iterator[Finding]:
    """A folder moves once, as a whole, and what all teams see does not become one team's.

    A folder that is linked to S3 cannot be renamed: FSx has its path.
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html
    """
    moved: dict[str, str] = {}
    links = [link.path.strip("/") for link in plan.data_repositories]
    for index, team in enumerate(plan.settings.teams):
        for position, folder in enumerate(team.moves):
            path = ("teams", index, "moves", position)
            around = next((moved_folder for moved_folder in moved if _meet(folder, moved_folder)), None)
            linked = next((link for link in links if link and _meet(folder, link)), None)
            if folder.partition("/")[0] in TAKEN:
                yield error(
                    *path,
                    what=f"'{folder}' is part of what all teams have",
                    expected=f"a folder outside of {', '.join(TAKEN)}",
                    fix="remove it: teams read data, and write shared",
                )
            elif around is not None:
                yield error(
                    *path,
                    what=f"'{folder}' moves with '{around}' to team '{moved[around]}' already",
                    expected="folders of which none is in another",
                    fix="keep one",
                )
            elif linked is not None:
                yield error(
                    *path,
                    what=f"'{folder}' and the link of /{linked} to S3 meet",
                    expected="a folder without a link: FSx keeps the path of a link",
                    fix="remove it: teams read what is linked",
                )
            moved.setdefault(folder, team.name)


def _meet(folder: str, moved: str) -> bool:
    return folder == moved or folder.startswith(f"{moved}/") or moved.startswith(f"{folder}/")


@rule("teams", "storage")
def a_link_leaves_teams_apart(plan: Plan) -> Iterator[Finding]:
    """A link of the whole file system copies every team's files to one bucket, and from it."""
    for index, link in enumerate(plan.data_repositories):
        top = link.path.strip("/").partition("/")[0]
        if plan.settings.teams and top in ("", TEAMS_FOLDER):
            yield warning(
                "storage",
                "data_repositories",
                index,
                "path",
                what=f"'{link.path}' has the teams' own folders: who may read {link.bucket} reads every team's files",
                expected=f"a folder outside of /{TEAMS_FOLDER}",
                fix="link a folder such as /data",
            )
