"""Today's prices of every Region with clusters, written to a file of your own."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from hyperpod_ray.core import regions
from hyperpod_ray.ops.money import price_update
from tests.ops.price_list_helpers import PriceList, fill, run
from tests.ops.world import environment_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "demo.yaml").write_text(environment_text())
    return tmp_path


def test_every_region_is_priced_by_one_command(folder: Path, price_list: tuple[PriceList, str]) -> None:
    """Products as the Price List has them: other usage of the same types beside HyperPod's own, and Regions apart."""
    listed, endpoint = price_list
    fill(listed)
    frankfurt = {"regionCode": "eu-central-1"}
    listed.add(
        "AmazonSageMaker", "EUC1-Cluster:ml.p5.48xlarge", 99.5, instanceType="ml.p5.48xlarge-Cluster", **frankfurt
    )
    listed.add("AmazonSageMaker", "EUC1-ReservedCluster:ml.p5.48xlarge", 50, **frankfurt)
    listed.add("AmazonSageMaker", "EUC1-Cluster:ml.g6.xlarge", 2, **frankfurt)
    listed.add("AmazonSageMaker", "EUC1-Cluster:ml.g6.xlarge", 3, **frankfurt)
    result = run(folder, "--update", "--every-region", "-o", "json", endpoint=endpoint)
    assert result.code == 0, result.err
    written = {(price["region"], price["of"]): price["usd"] for price in result.json["prices"]}
    assert written["us-west-2", "ml.g5.8xlarge"] == 3 and written["us-west-2", "eks_cluster"] == 0.1
    storage = {of.split()[2]: usd for (_, of), usd in written.items() if "storage of" in of}
    assert storage == {"125": 0.1, "250": 0.2, "500": 0.4}, "what the list has of FSx's 125, 250, 500 and 1000"
    assert price_update.THROUGHPUTS == (125, 250, 500, 1000)
    assert written["us-west-2", "ebs_gp3"] == 0.073 and written["us-west-2", "nat_data"] == 0.04
    assert written["eu-central-1", "ml.p5.48xlarge"] == 99.5
    assert ("eu-central-1", "ml.g6.xlarge") not in written, "an ambiguous price is none"
    assert "eu-central-1: 1 instance types, 0 of 4 storage" in result.err
    asked = {item["Value"] for request in listed.asked for item in request["Filters"] if item["Field"] == "regionCode"}
    assert asked == set(regions.regions()) and len(asked) > 15
    text = (folder / "prices_usd.yaml").read_text()
    assert "ml.p5.48xlarge" in text and f"{date.today():%Y}" in text, "dated"


def test_every_region_alone_is_refused_and_a_refusal_of_aws_is_said(folder: Path) -> None:
    result = run(folder, "--every-region")
    assert result.code == 2 and "--every-region without --update" in result.err
    result = run(folder, "--update", "--every-region")
    assert result.code == 1 and "Traceback" not in result.err and not (folder / "prices_usd.yaml").exists()
