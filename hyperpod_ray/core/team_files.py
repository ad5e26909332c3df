"""What a team has of the file system: its own folder, a folder that all share, and data sets to read; and its user."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from hyperpod_ray.core import names
from hyperpod_ray.core.model import Team
from hyperpod_ray.core.plan import Plan

TEAMS_FOLDER = "teams"
"""Folder of the file system with one folder per team, which is all of the file system that the team's pods mount."""
SHARED_FOLDER = "shared"
"""Folder of the file system that every team's pods mount and write."""
DATA_FOLDER = "data"
"""Folder of the file system that every team's pods mount and read."""
TEAM_CLAIM = "team-files"
"""The PersistentVolumeClaim of a team's own folder, in its namespace."""
FIRST_UID, UIDS = 20_000, 40_000
"""Numbers that follow from a team's name: beyond those of people and services of the usual images."""


def uid(team: Team) -> int:
    """User and group number of a team's pods and files."""
    return team.uid if team.uid is not None else FIRST_UID + zlib.crc32(team.name.encode()) % UIDS


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A folder of the file system that a team's pods mount, and nothing above it."""

    claim: str
    """The PersistentVolumeClaim, and the pods' volume of it."""
    folder: str
    """Below the file system's root."""
    path: str
    """In the pods."""
    read_only: bool


def mounts(plan: Plan, team: Team) -> Iterator[Mount]:
    """What a team's pods mount, the outermost first.

    Its own folder is at `/fsx`, so that a job's paths are those of the environment's other jobs. Folders that are
    linked to S3 come with the data sets, to read.
    """
    root = names.MOUNT_PATH
    yield Mount(
        claim=TEAM_CLAIM, folder=f"{TEAMS_FOLDER}/{team.name}", path=root, read_only=False
    )  # fmt: skip
    yield Mount(
        claim=f"{TEAM_CLAIM}-{SHARED_FOLDER}", folder=SHARED_FOLDER,
        path=f"{root}/{SHARED_FOLDER}", read_only=False,
    )  # fmt: skip
    for folder in data_folders(plan):
        slug = re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-")[:20].strip("-")
        number = f"-{zlib.crc32(folder.encode()):08x}" if folder != DATA_FOLDER else ""
        yield Mount(
            claim=f"{TEAM_CLAIM}-{slug}{number}", folder=folder, path=f"{root}/{folder}", read_only=True
        )  # fmt: skip


def data_folders(plan: Plan) -> list[str]:
    """Folders of data sets: `data`, and what is linked to S3 outside of it and of other folders that are mounted."""
    kept: list[str] = [DATA_FOLDER]
    for folder in sorted(link.path.strip("/") for link in plan.data_repositories):
        top = folder.partition("/")[0]
        if folder and top not in (TEAMS_FOLDER, SHARED_FOLDER) and not _below(folder, kept):
            kept.append(folder)
    return kept


def _below(folder: str, parents: list[str]) -> bool:
    return any(folder == parent or folder.startswith(f"{parent}/") for parent in parents)


def team_of(plan: Plan, name: str) -> Team | None:
    """The team of this name."""
    return next((team for team in plan.settings.teams if team.name == name), None)
