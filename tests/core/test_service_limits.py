from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import botocore.session
import pytest

from hyperpod_ray.core.model import NewEks
from hyperpod_ray.core.service_limits import kubectl_for, minor_of, partition_of, platform, zone_prefix_of


def test_types_are_the_services() -> None:
    shape = botocore.session.get_session().get_service_model("sagemaker").shape_for("ClusterInstanceType")
    assert platform().instance_types == frozenset(shape.metadata["enum"])


def test_regions_are_botocores() -> None:
    session = botocore.session.get_session()
    partitions = ("aws", "aws-cn", "aws-us-gov")
    known = {region for name in partitions for region in session.get_available_regions("ec2", name)}
    assert known <= set(platform().regions)
    for name in partitions:
        assert {partition_of(region) for region in session.get_available_regions("ec2", name)} == {name}


@pytest.mark.parametrize(
    ("region", "prefix"),
    [
        ("us-west-2", "usw2"), ("us-east-1", "use1"), ("eu-central-1", "euc1"), ("ap-south-1", "aps1"),
        ("ap-southeast-2", "apse2"), ("ap-northeast-1", "apne1"), ("ca-central-1", "cac1"), ("eu-north-1", "eun1"),
        ("cn-north-1", "cnn1"), ("us-gov-west-1", "usgw1"),
    ],
)  # fmt: skip
def test_zone_ids_begin_with_their_region(region: str, prefix: str) -> None:
    assert zone_prefix_of(region) == prefix


@pytest.mark.parametrize("file", ["requirements/requirements.in", "pyproject.toml"])
def test_kubectl_is_the_layers(file: str) -> None:
    requirements = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    layers = re.findall(r"lambda-layer-kubectl-v(\d+)==", requirements)
    assert [f"1.{layer}" for layer in layers] == list(platform().kubectl_versions)


def test_a_kubectl_fits_every_version_that_hyperpod_takes() -> None:
    """One minor version older or newer: https://kubernetes.io/releases/version-skew-policy/#kubectl"""
    chosen = {version: kubectl_for(version) for version in platform().kubernetes_versions}
    assert all(abs(minor_of(version) - minor_of(kubectl)) <= 1 for version, kubectl in chosen.items()), chosen
    assert chosen["1.32"] == "1.33", "of two as near, the newer"
    assert kubectl_for("1.36") == "1.35"


def test_the_default_is_the_newest_that_hyperpod_takes() -> None:
    assert NewEks().version == platform().kubernetes_versions[-1] == "1.35"
    assert platform().eks_support[NewEks().version].phase(date(2026, 12, 3)) == "standard"


def test_support_of_every_version_that_hyperpod_takes_is_known() -> None:
    """A version without dates would be priced, and judged, as if its standard support never ended."""
    platform_ = platform()
    assert set(platform_.kubernetes_versions) <= set(platform_.eks_support)
    for version, support in platform_.eks_support.items():
        assert type(support.standard) is date
        year_later = support.standard.replace(year=support.standard.year + 1)
        assert support.extended == year_later, version


@pytest.mark.parametrize(
    ("day", "phase"),
    [
        (date(2026, 7, 28), "standard"),
        (date(2026, 7, 29), "extended"),
        (date(2027, 7, 28), "extended"),
        (date(2027, 7, 29), "ended"),
    ],
)
def test_support_ends_at_the_beginning_of_its_day(day: date, phase: str) -> None:
    assert platform().eks_support["1.33"].phase(day) == phase


def test_zones_that_eks_refuses_are_the_guides() -> None:
    """The table of the guide's page "VPC and subnet requirements", written down by hand."""
    table = {"us-east-1": "use1-az3", "us-west-1": "usw1-az2", "ca-central-1": "cac1-az3"}
    assert set(platform().refused_zone_ids) == set(table.values())
    for region, zone in table.items():
        assert zone.rpartition("-")[0] == zone_prefix_of(region)


def test_versions_are_in_order() -> None:
    versions = platform().kubernetes_versions
    assert list(versions) == sorted(versions, key=lambda version: int(version.split(".")[1]))
    assert list(platform().kubectl_versions) == sorted(platform().kubectl_versions, key=minor_of)
