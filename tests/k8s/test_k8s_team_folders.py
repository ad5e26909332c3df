"""What teams have of the file system: the rendered Job's own script on real folders, and real processes of their users.

The folders stand for the file system, and a process that sees one of them as its root for a pod that mounts it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER, parse
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.team_files import mounts, uid
from tests.k8s.conftest import BINDINGS
from tests.review.test_team_files import MOVED, of_strangers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="folders change hands: root only, as the Job is")
THIRD = """  - name: third
    uid: 7000
    sharing: lend
    quota: [{type: ml.m5.2xlarge, instances: 1}, {type: ml.g5.8xlarge, instances: 1}]
"""
EXAMPLE = FOLDER / "examples" / "teams.yaml"


def plan_of(change: Callable[[str], str] = lambda text: text) -> Plan:
    plan = parse(change(EXAMPLE.read_text()), name="teams", path=EXAMPLE).plan
    assert isinstance(plan, Plan)
    return plan


def moving(*folders: str) -> Plan:
    return plan_of(
        lambda text: text.replace("  - name: vision\n", f"  - name: vision\n    moves: [{', '.join(folders)}]\n")
    )


def owner_job(plan: Plan) -> dict[str, Any]:
    (job,) = [
        item for manifest in k8s.ray_manifests(plan, BINDINGS) for item in manifest.objects
        if item["kind"] == "Job" and item["metadata"]["name"].startswith("volume-owner")
    ]  # fmt: skip
    return dict(job["spec"]["template"]["spec"]["containers"][0])


def hand_over(plan: Plan, root: Path) -> subprocess.CompletedProcess[str]:
    """What the Job's container does, with the folder in the mount's place."""
    container = owner_job(plan)
    assert container["args"][0] == "/fsx"
    words = [*container["command"], str(root), *container["args"][1:]]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def as_user(number: int, root: Path, script: str) -> str:
    """Run Python as a user and group, with a folder as the current one; what it raises, by name, or nothing."""
    program = (
        "import os, pathlib, sys\n"
        f"os.setgroups([100]); os.setgid({number}); os.setuid({number})\n"
        "try:\n    exec(sys.argv[1])\nexcept BaseException as error:\n    print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, script], cwd=root, capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file system that every user may enter, as Lustre's root is; with runs of before."""
    made = tmp_path_factory.mktemp("fs")
    place: Path = made
    while place != Path("/"):
        place.chmod(place.stat().st_mode | 0o055) if place.stat().st_uid == os.geteuid() else None
        place = place.parent
    return made


def test_each_team_is_in_its_own_folder_only(root: Path) -> None:
    plan = plan_of()
    assert hand_over(plan, root).returncode == 0
    vision, speech = plan.settings.teams
    for team in (vision, speech):
        about = (root / "teams" / team.name).stat()
        assert (about.st_uid, about.st_gid, about.st_mode & 0o7777) == (uid(team), uid(team), 0o700)
    mine, theirs = root / "teams" / "vision", root / "teams" / "speech"
    save = "p = pathlib.Path('runs/first'); p.mkdir(parents=True); (p / 'progress.json').write_text('{}')"
    assert as_user(uid(vision), mine, save) == ""
    # the hostile team, as if its mount were the whole file system
    for attack in (
        f"print(os.listdir({str(mine)!r}))",
        f"pathlib.Path({str(mine / 'runs' / 'first' / 'progress.json')!r}).read_text()",
        f"pathlib.Path({str(mine / 'runs' / 'first' / '.metadata')!r}).write_bytes(b'pickle')",
        f"os.rename({str(mine)!r}, {str(theirs / 'taken')!r})",
        f"os.chmod({str(mine)!r}, 0o777)",
        f"os.chown({str(theirs)!r}, {uid(vision)}, {uid(vision)})",
        f"pathlib.Path({str(root / 'teams' / 'third')!r}).mkdir()",
        f"pathlib.Path({str(root / 'runs' / 'mine')!r}).mkdir()",
        f"pathlib.Path({str(root / 'data' / 'poison')!r}).write_text('x')",
        f"pathlib.Path({str(root / '.system' / 'redis' / 'x')!r}).write_text('x')",
    ):
        assert as_user(uid(speech), theirs, attack) in ("PermissionError", "FileNotFoundError"), attack
    assert (mine / "runs" / "first" / "progress.json").read_text() == "{}"
    assert not (mine / "runs" / "first" / ".metadata").exists()


def test_teams_share_on_purpose(root: Path) -> None:
    plan = plan_of()
    assert hand_over(plan, root).returncode == 0
    vision, speech = map(uid, plan.settings.teams)
    shared = root / "shared"
    assert as_user(vision, shared, "pathlib.Path('model.pt').write_text('v'); os.chmod('model.pt', 0o644)") == ""
    assert as_user(speech, shared, "assert pathlib.Path('model.pt').read_text() == 'v'") == ""
    for attack in ("os.unlink('model.pt')", "pathlib.Path('model.pt').write_text('x')", "os.rename('model.pt', 'y')"):
        assert as_user(speech, shared, attack) == "PermissionError", attack


def test_runs_of_before_move_with_their_files(root: Path) -> None:
    """Nothing is lost: what moves is the team's at the same path, what does not stays where it is."""
    for name in ("first", "second"):
        folder = root / "runs" / name / "step-00000010-abcdef"
        folder.mkdir(parents=True)
        (folder / "data").write_text(name)
        for path in (folder, folder / "data"):
            os.chown(path, 1000, 100)
    (root / "runs" / "first" / "link").symlink_to("/etc/passwd")
    plan = moving("runs/first", "runs/none")
    assert (done := hand_over(plan, root)).returncode == 0, done.stderr
    assert "moved runs/first to teams/vision/runs/first" in done.stdout
    own = root / "teams" / "vision"
    vision = uid(plan.settings.teams[0])
    resume = "p = pathlib.Path('runs/first/step-00000010-abcdef'); assert (p / 'data').read_text() == 'first'; " \
             "(p.parent / 'progress.json').write_text('{}')"  # fmt: skip
    assert as_user(vision, own, resume) == ""
    assert os.lstat(own / "runs" / "first" / "link").st_uid == vision
    assert Path("/etc/passwd").stat().st_uid == 0, "what a link leads to keeps its owner"
    assert (root / "runs" / "second" / "step-00000010-abcdef" / "data").stat().st_uid == 1000
    # the Job may run again, with other teams, and touches nothing that was handed over
    assert as_user(vision, own, "os.chmod('runs', 0o750)") == ""
    assert (done := hand_over(plan, root)).returncode == 0, done.stderr
    assert (own / "runs").stat().st_mode & 0o777 == 0o750


def test_teams_of_other_names_lose_nothing(root: Path) -> None:
    """A team called like the folder of all, one with hyphens, one as long as the service takes."""
    plan = plan_of(lambda _: of_strangers(moves=True))
    content = {}
    for folder in (*MOVED.values(), "runs/of-nobody", "data/set", "shared-by-hand"):
        file = root / folder / "step-00000010-abcdef" / "data"
        file.parent.mkdir(parents=True)
        file.write_text(folder)
        content[folder] = file.stat().st_ino
    assert (done := hand_over(plan, root)).returncode == 0, done.stderr
    assert [line.partition(" to ")[0] for line in done.stdout.splitlines()] == [f"moved {x}" for x in MOVED.values()]
    assert (done := hand_over(plan, root)).returncode == 0, done.stderr
    assert not done.stdout, "nothing moves a second time"
    for team in plan.settings.teams:
        (folder,) = team.moves
        content[f"teams/{team.name}/{folder}"] = content.pop(folder)
        read = f"assert pathlib.Path({folder!r}, 'step-00000010-abcdef', 'data').read_text() == {folder!r}"
        assert as_user(uid(team), root / "teams" / team.name, read) == ""
        for other in plan.settings.teams:
            if other is not team:
                look = f"os.listdir({str(root / 'teams' / other.name)!r})"
                assert as_user(uid(team), root / "teams" / team.name, look) == "PermissionError"
    files = {path.stat().st_ino for path in root.rglob("data") if path.is_file()}
    assert files == set(content.values()), "the same files, no copy and none lost"
    assert (root / "shared").stat().st_mode & 0o7777 == 0o1777


def test_a_folder_moves_before_the_team_has_its_own_and_never_later(root: Path) -> None:
    assert hand_over(plan_of(), root).returncode == 0
    (root / "runs" / "late").mkdir()
    done = hand_over(moving("runs/late"), root)
    assert done.returncode == 1
    assert "runs/late was not moved: teams/vision is the team's already. Fix: remove it from moves" in done.stderr
    assert (root / "runs" / "late").is_dir(), "it stays where it was"


def test_a_move_that_was_cut_off_goes_on(root: Path) -> None:
    for name in ("first", "second"):
        (root / "runs" / name).mkdir(parents=True)
    own = root / "teams" / "vision"
    (own / "runs").mkdir(parents=True)
    (root / "runs" / "first").rename(own / "runs" / "first")  # the node was lost after the first of two
    assert (done := hand_over(moving("runs/first", "runs/second"), root)).returncode == 0, done.stderr
    assert {path.name for path in (own / "runs").iterdir()} == {"first", "second"}
    (root / "runs" / "first").mkdir()


def test_a_folder_of_that_name_is_not_written_over(root: Path) -> None:
    (root / "runs" / "first").mkdir(parents=True)
    (root / "teams" / "vision" / "runs" / "first").mkdir(parents=True)
    done = hand_over(moving("runs/first"), root)
    assert done.returncode == 1
    assert "teams/vision/runs/first is there" in done.stderr


def test_a_folder_of_somebody_else_is_not_handed_over(root: Path) -> None:
    """A removed team's files, or a team whose `uid` changed: nothing changes hands without a word."""
    (root / "teams" / "vision").mkdir(parents=True)
    os.chown(root / "teams" / "vision", 12345, 12345)
    done = hand_over(plan_of(), root)
    assert done.returncode == 1
    assert "teams/vision belongs to user 12345" in done.stderr
    plan = plan_of(lambda text: text.replace("  - name: vision\n", "  - name: vision\n    uid: 12345\n"))
    assert hand_over(plan, root).returncode == 0, "what the message says to do works"


def without_speech(text: str) -> str:
    """The example after team speech has left."""
    return text[: text.index("  - name: speech")] + "\n" + text[text.index("task_governance:") :]


def test_a_removed_team_leaves_its_files_and_nobody_gets_them_without_a_word(root: Path) -> None:
    """Removed with runs and files; then another team with its user; then a team of its name again."""
    plan = plan_of()
    assert hand_over(plan, root).returncode == 0
    _, speech = plan.settings.teams
    left, number = root / "teams" / "speech", uid(speech)
    save = "p = pathlib.Path('runs/first'); p.mkdir(parents=True); (p / 'progress.json').write_text('{}')"
    assert as_user(number, left, save) == ""
    before = {path: path.stat().st_mtime_ns for path in left.rglob("*")}

    assert hand_over(plan_of(without_speech), root).returncode == 0
    about = left.stat()
    assert (about.st_uid, about.st_mode & 0o7777) == (number, 0o700)
    assert {path: path.stat().st_mtime_ns for path in left.rglob("*")} == before
    vision = uid(plan.settings.teams[0])
    assert as_user(vision, root / "teams" / "vision", f"os.listdir({str(left)!r})") == "PermissionError"

    # another team takes the number that is in use on the file system: its pods mount their own folder, and not this one
    taken = plan_of(
        lambda text: without_speech(text).replace("  - name: vision\n", f"  - name: vision\n    uid: {number}\n")
    )
    folders = {mount.folder for mount in mounts(taken, taken.settings.teams[0])}
    assert folders == {"teams/vision", "shared", "data"}
    done = hand_over(taken, root)
    assert done.returncode == 1
    assert f"teams/vision belongs to user {vision}" in done.stderr

    assert hand_over(plan, root).returncode == 0, "a team of that name finds its files again"
    assert as_user(number, left, "assert pathlib.Path('runs/first/progress.json').read_text() == '{}'") == ""


def test_links_that_a_team_plants_lead_root_nowhere(root: Path) -> None:
    """Root runs again with another team's name in the file: what a team put into its folder is not followed."""
    plan = plan_of()
    assert hand_over(plan, root).returncode == 0
    vision, speech = map(uid, plan.settings.teams)
    hostile, victim = root / "teams" / "speech", root / "teams" / "vision"
    assert as_user(speech, hostile, f"os.rmdir('data'); os.symlink({str(victim)!r}, 'data'); "
                                    f"os.rmdir('shared'); os.symlink('/etc', 'shared')") == ""  # fmt: skip
    third = plan_of(
        lambda text: (
            text.replace("\ntask_governance:", f"{THIRD}\ntask_governance:")
            .replace("count: 3", "count: 4")
            .replace("count: 4, deep", "count: 5, deep")
        )
    )
    assert hand_over(third, root).returncode == 0
    assert (root / "teams" / "third").stat().st_uid == 7000
    assert victim.stat().st_uid == vision
    assert Path("/etc").stat().st_uid == 0


def test_the_volumes_are_of_these_folders_and_data_is_read_only() -> None:
    plan = load("teams", folder=FOLDER / "examples").plan
    objects = [item for manifest in k8s.ray_manifests(plan, BINDINGS) for item in manifest.objects]
    for team in plan.settings.teams:
        volumes = {
            item["spec"]["claimRef"]["name"]: item["spec"]
            for item in objects
            if item["kind"] == "PersistentVolume"
            and item["spec"]["claimRef"]["namespace"] == f"hyperpod-ns-{team.name}"
        }
        assert set(volumes) == {mount.claim for mount in mounts(plan, team)}
        mounted = {name: spec["csi"]["volumeAttributes"]["mountname"] for name, spec in volumes.items()}
        assert mounted == {
            "team-files": f"abcd1234/teams/{team.name}",
            "team-files-shared": "abcd1234/shared",
            "team-files-data": "abcd1234/data",
        }
        assert "abcd1234" not in mounted.values(), "nobody's pods but the environment's own mount the root"
        assert {name for name, spec in volumes.items() if "ro" in spec["mountOptions"]} == {"team-files-data"}


def test_a_user_follows_from_the_name_alone() -> None:
    """Adding, removing or sorting teams changes nobody's user."""
    users = {team.name: uid(team) for team in plan_of().settings.teams}
    # zlib.crc32 of the name, modulo 40,000: a number that another version would give differently loses the files
    assert users == {"vision": 49609, "speech": 23191}
