"""Single rules of the review, each on values of its own: releases, metrics, refusals, and stacks side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review import review as reviewed
from hyperpod_ray.review.effects import team_files
from tests.review.parts_helpers import Json, read, stacks
from tests.review.small import write


def refusing(*operands: Any, why: str = "the chart was not fetched") -> Json:
    return {
        "Rules": {"Fetched": {"Assertions": [{"Assert": {"Fn::Equals": list(operands)}, "AssertDescription": why}]}}
    }


@pytest.mark.parametrize(
    ("operands", "refused"),
    [(("a", "b"), True), (("a", "a"), False), (({"Ref": "P"}, "b"), False), (("a", {"Ref": "P"}), False)],
)
def test_a_template_that_refuses_whatever_its_parameters_are(
    operands: tuple[Any, ...], refused: bool, tmp_path: Path
) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html"""
    head = read(tmp_path, stacks(A=refusing(*operands)))
    assert reviewed.refusals(head) == ([("env-A", "the chart was not fetched")] if refused else [])


def test_what_could_not_be_deployed_before_is_one_short_note(tmp_path: Path) -> None:
    chart, image = refusing("a", "b"), refusing("a", "b", why="the image has no digest")
    base = read(tmp_path / "base", stacks(A=chart, B={}))
    head = read(tmp_path / "head", stacks(A=chart, B=image))
    (new, short) = reviewed._refusals(head, base)
    assert new == "env-B cannot be deployed as synthesized here (the image has no digest)"
    assert short == "charts were not fetched: versions and values were compared, contents were not"
    (alone,) = reviewed._refusals(base)
    assert alone.startswith("env-A cannot be deployed as synthesized here (the chart was not fetched); versions and")
    # one of two reasons is a chart: the note is about it
    both = read(tmp_path / "both", stacks(A=image, B=chart))
    assert reviewed._refusals(both, both) == [short]
    only_image = read(tmp_path / "image", stacks(A=image))
    assert reviewed._refusals(only_image, only_image) == []


def test_users_of_teams_by_the_arguments_of_the_job() -> None:
    words = ["/fsx", "--", "vision", "1001", "runs/a", "runs/b", "--", "data", "speech", "1002", "--", ""]
    assert dict(team_files._parsed(words)) == {"vision": ("1001", ["runs/a", "runs/b"]), "speech": ("1002", [])}
    assert dict(team_files._parsed(["/fsx", "runs"])) == {}


@pytest.mark.parametrize("late", [False, True])
def test_a_folder_that_moves_to_a_team(late: bool) -> None:
    row = team_files._moves("vision", "runs/a", "Storage", late=late)
    assert row.change == "runs/a → teams/vision/runs/a"
    assert ("Nothing moves: the team has its folder already" in row.consequence) is late
    assert ("It is renamed in the file system" in row.consequence) is not late
    assert (row.unavailable == "") is late


GROUP = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/ours"}}
TRAIL = {"Type": "AWS::Logs::MetricFilter", "Properties": {"LogGroupName": "/ours", "FilterPattern": "x"}}


@pytest.mark.parametrize(
    ("base", "taken"), [({"Trail": TRAIL}, True), ({"Trail": TRAIL, "Old": GROUP}, False), ({}, False)]
)
def test_a_name_that_exists_and_belongs_to_no_stack(base: Json, taken: bool, tmp_path: Path) -> None:
    topic = {"Topic": {"Type": "AWS::SNS::Topic"}}
    sides = [
        write(tmp_path / name, {"A": {"Resources": {**topic, **base, **more}}})
        for name, more in (("base", {}), ("head", {"New": GROUP}))
    ]
    (environment,) = reviewed.review(*sides).environments
    assert any(row.code == "name-taken" for row in environment.rows) is taken
