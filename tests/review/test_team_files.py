"""What the review says of teams' files, of the manifests that are rendered and of those of before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core.loader import FOLDER, parse
from hyperpod_ray.review.review import review
from tests.k8s.conftest import BINDINGS
from tests.review.small import resources, write

EXAMPLE = FOLDER / "examples" / "teams.yaml"
TEXT = EXAMPLE.read_text()
VISION = "  - name: vision\n"


def rendered(text: str) -> list[dict[str, Any]]:
    plan = parse(text, name="teams", path=EXAMPLE).plan
    manifests = [*k8s.namespace_manifests(plan), *k8s.ray_manifests(plan, BINDINGS)]
    return [item for manifest in manifests for item in manifest.objects]


def of_before(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the version before rendered teams: one claim and one volume of the whole file system, no users."""
    made = []
    for item in items:
        about = item["metadata"]
        if item["kind"] == "PersistentVolumeClaim" and about["name"] == "team-files":
            item = {**item, "metadata": {**about, "name": "fsx"}}  # noqa: PLW2901
        elif "team-files" in about["name"]:
            continue
        elif item["kind"] == "Job":
            item = json.loads(json.dumps(item))  # noqa: PLW2901
            item["spec"]["template"]["spec"]["containers"][0]["args"] = ["runs", "data", "code", ".system/redis"]
        made.append(item)
    return made


def reviewed(tmp_path: Path, before: list[dict[str, Any]], now: list[dict[str, Any]]) -> Any:
    """The review's environments."""
    sides = []
    for side, items in (("before", before), ("now", now)):
        manifest = {"Type": "Custom::AWSCDK-EKS-KubernetesResource",
                    "Properties": {"Manifest": json.dumps(items), "ClusterName": "c"}}  # fmt: skip
        sides.append(write(tmp_path / side, {"Ray": resources(Item=manifest)}))
    return review(*sides).environments


def said(tmp_path: Path, before: list[dict[str, Any]], now: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Code to effect and text of each row."""
    (change,) = reviewed(tmp_path, before, now)
    return {row.code: (row.effect.name, f"{row.what} {row.change} {row.consequence}") for row in change.rows}


def test_a_move_to_folders_of_their_own_is_said(tmp_path: Path) -> None:
    now = rendered(TEXT.replace(VISION, f"{VISION}    moves: [runs/first]\n"))
    rows = said(tmp_path, of_before(rendered(TEXT)), now)
    effect, text = rows["team-files-apart"]
    assert effect == "INTERRUPTS"
    assert "No file is deleted" in text and "`moves` of the team" in text
    assert "runs/first → teams/vision/runs/first" in rows["team-folder-moves"][1]


NAMES = ("shared", "speech-and-audio", "a" * 40)
MOVED = {"shared": "runs/shared", "speech-and-audio": "runs/first", "a" * 40: "archive/2025/run.1"}


def of_strangers(*, moves: bool) -> str:
    """The example with three teams that somebody else named; each takes a run of before along."""
    file = yaml.safe_load(TEXT)
    file["hyperpod"]["instance_groups"] = [
        {**group, "count": 9, "deep_health_checks": []} for group in file["hyperpod"]["instance_groups"]
    ]
    quota = [{"type": "ml.g5.8xlarge", "instances": 1}, {"type": "ml.m5.2xlarge", "instances": 1}]
    teams = [{"name": name, "quota": quota, **({"moves": [MOVED[name]]} if moves else {})} for name in NAMES]
    return yaml.safe_dump({**file, "teams": json.loads(json.dumps(teams))})  # without YAML's aliases


def test_teams_of_other_names_move_as_well(tmp_path: Path) -> None:
    """A team called like the folder of all, one with hyphens, one as long as the service takes."""
    (change,) = reviewed(tmp_path, of_before(rendered(of_strangers(moves=False))), rendered(of_strangers(moves=True)))
    apart = {row.what for row in change.rows if row.code == "team-files-apart"}
    assert apart == {f"files of team {name}" for name in NAMES}
    moves = {row.change for row in change.rows if row.code == "team-folder-moves"}
    assert moves == {f"{folder} → teams/{name}/{folder}" for name, folder in MOVED.items()}


CHANGES: dict[str, tuple[Callable[[str], str], str, str]] = {
    "another user": (
        lambda text: text.replace(VISION, f"{VISION}    uid: 7000\n"), "team-user-changed", "49609 → 7000",
    ),
    "a folder, too late": (
        lambda text: text.replace(VISION, f"{VISION}    moves: [runs/late]\n"), "team-folder-moves", "Nothing moves",
    ),
    "a team leaves": (
        lambda text: text[: text.index("  - name: speech")] + "\n" + text[text.index("task_governance:") :],
        "team-files-kept", "Its files stay in teams/speech",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_does_to_files(tmp_path: Path, name: str) -> None:
    change, code, words = CHANGES[name]
    rows = said(tmp_path, rendered(TEXT), rendered(change(TEXT)))
    effect, text = rows[code]
    assert (effect, words in text) == ("INTERRUPTS", True), text


def test_nothing_is_said_where_nothing_changes(tmp_path: Path) -> None:
    assert not said(tmp_path, rendered(TEXT), rendered(TEXT))
