"""What becomes of teams' files: a folder of their own, other users, folders that move, teams that leave.

The volume-owner Job hands a folder over once. It deletes nothing, and refuses what belongs to another user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperpod_ray.core import names
from hyperpod_ray.core.team_files import TEAM_CLAIM, TEAMS_FOLDER
from hyperpod_ray.review.changes import Changes
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Findings, Row
from hyperpod_ray.review.kubernetes import Cluster, ObjectName


def find(changes: Changes, findings: Findings) -> None:
    """A row for each team whose files are elsewhere, or another user's, afterwards."""
    base, head = changes.base_cluster, changes.head_cluster
    before, after = _users(base), _users(head)
    for space in sorted({name.namespace for name in (*base.objects, *head.objects)}):
        if not space.startswith(names.TEAM_NAMESPACE_PREFIX):
            continue
        team = space.removeprefix(names.TEAM_NAMESPACE_PREFIX)
        whole_claim, team_claim = (
            ObjectName("PersistentVolumeClaim", space, name) for name in (names.CLAIM, TEAM_CLAIM)
        )
        if whole_claim in base.objects and team_claim in head.objects and team_claim not in base.objects:
            findings.add(_apart(team, head.objects[team_claim].where))
        elif team_claim in base.objects and team_claim not in head.objects:
            findings.add(_left(team, base.objects[team_claim].where))
        elif team in before and team in after and before[team][0] != after[team][0]:
            findings.add(_another(team, before[team][0], after[team][0], head.objects[team_claim].where))
        for folder in after.get(team, ("", ()))[1]:
            if folder not in before.get(team, ("", ()))[1]:
                findings.add(_moves(team, folder, head.objects[team_claim].where, late=team_claim in base.objects))


def _users(cluster: Cluster) -> dict[str, tuple[str, Sequence[str]]]:
    """Team to user number and folders that move, by the arguments of the volume-owner Job."""
    for name, k8s_object in cluster.objects.items():
        if name.kind == "Job" and name.namespace == names.STORAGE_NAMESPACE and name.name.startswith("volume-owner"):
            words = k8s_object.data["spec"]["template"]["spec"]["containers"][0].get("args") or []
            return dict(_parsed([str(word) for word in words]))
    return {}


def _parsed(words: list[str]) -> Iterator[tuple[str, tuple[str, Sequence[str]]]]:
    rest = words[words.index("--") + 1 :] if "--" in words else []
    while len(rest) > 2:
        separator = rest.index("--")
        yield rest[0], (rest[1], rest[2:separator])
        rest = rest[separator + 2 :]


def _apart(team: str, where: str) -> Row:
    return Row(
        effect=Effect.INTERRUPTS,
        code="team-files-apart",
        what=f"files of team {team}",
        change=f"{names.MOUNT_PATH}: the whole file system → its folder {TEAMS_FOLDER}/{team}, as a user of its own",
        consequence="No file is deleted. Runs of before stay in the file system's folder runs, which the standing "
        "RayCluster sees and the team's pods do not: `moves` of the team names those that move with the team as owner. "
        "Pods that run keep what they have; admission refuses a pod of such a job that takes a lost one's place.",
        unavailable=f"{names.MOUNT_PATH}/runs of before for the team, until it is in `moves`; jobs that lose a pod",
        source=source("immutable"),
        where=where,
    )


def _left(team: str, where: str) -> Row:
    return Row(
        effect=Effect.INTERRUPTS,
        code="team-files-kept",
        what=f"files of team {team}",
        change="the team's claims go",
        consequence=f"Its files stay in {TEAMS_FOLDER}/{team} with their user. Nobody's pods mount that folder but the "
        "standing RayCluster's, which may not read it; a team of the same name and user finds it again.",
        unavailable=f"{TEAMS_FOLDER}/{team}, until a team has its user",
        source=source("immutable"),
        where=where,
    )


def _another(team: str, before: str, after: str, where: str) -> Row:
    return Row(
        effect=Effect.INTERRUPTS,
        code="team-user-changed",
        what=f"user of team {team}",
        change=f"{before} → {after}",
        consequence=f"Its folder belongs to user {before}, and the volume-owner Job refuses to hand it over: "
        "pods of the team cannot read their own files. Change the owner of all of it as root first, on a node.",
        unavailable=f"{names.MOUNT_PATH} for the team",
        source=source("immutable"),
        where=where,
    )


def _moves(team: str, folder: str, where: str, *, late: bool) -> Row:
    return Row(
        effect=Effect.INTERRUPTS,
        code="team-folder-moves",
        what=f"folder {folder}",
        change=f"{folder} → {TEAMS_FOLDER}/{team}/{folder}",
        consequence="Nothing moves: the team has its folder already. The volume-owner Job fails where one is there."
        if late
        else "It is renamed in the file system, and all of it gets the team's user. Jobs of others that use it fail.",
        unavailable="" if late else f"{names.MOUNT_PATH}/{folder} for everybody but the team",
        source=source("immutable"),
        where=where,
    )
