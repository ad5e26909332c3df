"""Resources that stay and differ: what is harmless, what CloudFormation refuses, and what nobody here knows."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.review.findings import Effect
from tests.review.small import Json, compared, of


@pytest.mark.parametrize(
    ("form", "words"),
    [("Custom::Database", "Its function decides"), ("AWS::CloudFormation::CustomResource", "Its function decides"),
     ("AWS::MWAA::Environment", "no rule for the type")],
)  # fmt: skip
def test_a_change_that_nobody_here_knows_is_named_with_its_properties(form: str, words: str, tmp_path: Path) -> None:
    sides = (
        {"Thing": {"Type": form, "Properties": {"Size": size, "Tags": tags}}} for size, tags in ((1, []), (2, ["a"]))
    )
    (row,) = [row for row in compared(tmp_path, *sides).rows if row.code == "in-place-unknown"]
    assert (row.change, row.effect) == ("Size", Effect.INTERRUPTS)
    assert words in row.consequence


TAG, OTHER = {"Key": "team", "Value": "a"}, {"Key": "team", "Value": "b"}
CASES: dict[str, tuple[Json, Json, dict[str, str], str]] = {
    "a tag": (of("SNS::Topic", Tags=[TAG]), of("SNS::Topic", Tags=[OTHER]), {"retagged": "safe"}, "tags: team a → b"),
    "a new tag": (of("SNS::Topic"), of("SNS::Topic", Tags=[TAG]), {"retagged": "safe"}, "tags: team none → a"),
    "tags as a map": (
        of("Glue::Job", Command={}, Role="r", Tags={"team": "a"}), of("Glue::Job", Command={}, Role="r", Tags={}),
        {"retagged": "safe"}, "tags: team a → none",
    ),
    "the order of tags": (
        of("SNS::Topic", Tags=[TAG, {"Key": "k", "Value": "v"}]), of("SNS::Topic", Tags=[{"Key": "k", "Value": "v"}, TAG]),
        {"retagged": "safe"}, "tags: their order",
    ),
    "what the schema lets change": (
        of("SNS::Topic", DisplayName="a"), of("SNS::Topic", DisplayName="b"), {"in-place": "safe"}, "properties that the registry schema lets change",
    ),
    # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-volume.html
    "what CloudFormation does not update": (
        of("EC2::Volume", AvailabilityZone="a", Size=1, Encrypted=False), of("EC2::Volume", AvailabilityZone="a", Size=1, Encrypted=True),
        {"fixed": "rejected"}, "Encrypted False → True",
    ),
    # https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
    "fewer days of logs": (
        of("Logs::LogGroup", RetentionInDays=30), of("Logs::LogGroup", RetentionInDays=7),
        {"in-place": "safe", "setting-lowered": "loses-data"}, "RetentionInDays 30 → 7",
    ),
    "more days of logs": (
        of("Logs::LogGroup", RetentionInDays=7), of("Logs::LogGroup", RetentionInDays=30), {"in-place": "safe"}, "properties that the registry schema lets change",
    ),
    "days of logs that were kept": (
        of("Logs::LogGroup"), of("Logs::LogGroup", RetentionInDays=30),
        {"in-place": "safe", "setting-lowered": "loses-data"}, "RetentionInDays none → 30",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_a_resource_that_stays(name: str, tmp_path: Path) -> None:
    before, after, rows, change = CASES[name]
    environment = compared(tmp_path, {"Thing": before}, {"Thing": after})
    assert {row.code: row.effect.code for row in environment.rows} == rows, environment.rows
    assert change in {row.change for row in environment.rows}
