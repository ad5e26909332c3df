"""The file that `env new` writes."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import dataclasses

import pytest
import yaml

from hyperpod_ray.core import new_file
from hyperpod_ray.core.version import __version__

ANSWERS = new_file.Answers(
    name="lab", account="012345678901", region="eu-north-1", zones=("eun1-az1", "eun1-az2"), head_type="ml.m5.2xlarge",
    instance_type="ml.p5.48xlarge", count=3,
)  # fmt: skip


def test_it_holds_the_answers_as_the_types_that_they_are() -> None:
    settings = yaml.safe_load(new_file.text(ANSWERS))
    assert settings["account"] == "012345678901", "YAML would read a number, and lose the zero"
    assert settings["network"]["availability_zone_ids"] == ["eun1-az1", "eun1-az2"]
    groups = settings["hyperpod"]["instance_groups"]
    assert [(group["name"], group["type"], group["count"]) for group in groups] == [
        ("head", "ml.m5.2xlarge", 2), ("workers", "ml.p5.48xlarge", 3),
    ]  # fmt: skip
    assert settings["ray"]["workers"][0]["replicas"] == 3
    assert (settings["storage"]["on_destroy"], settings["written_for"]) == ("retain", __version__)


def test_a_role_replaces_the_comment_that_shows_how_to_name_one() -> None:
    role = "arn:aws:iam::012345678901:role/Admin"
    settings = yaml.safe_load(new_file.text(dataclasses.replace(ANSWERS, admin_role_arn=role)))
    assert settings["eks"] == {"admin_role_arns": [role]}
    assert "# admin_role_arns:" in new_file.text(ANSWERS)


def test_the_schema_is_named_where_it_lies_beside_the_file() -> None:
    assert new_file.text(ANSWERS).startswith("# yaml-language-server: $schema=schema.json\n")
    assert "yaml-language-server" not in new_file.text(dataclasses.replace(ANSWERS, schema=False))


@pytest.mark.parametrize(
    ("region", "zones"),
    [("us-west-2", ("usw2-az1", "usw2-az2")), ("us-east-1", ("use1-az1", "use1-az2")), ("us-west-1", ("usw1-az1", "usw1-az3")),
     ("ca-central-1", ("cac1-az1", "cac1-az2"))],
)  # fmt: skip
def test_zones_are_the_first_two_that_eks_takes(region: str, zones: tuple[str, str]) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html: not use1-az3, usw1-az2, cac1-az3."""
    assert new_file.default_zones(region) == zones
