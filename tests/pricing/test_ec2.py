"""HyperPod prices in Regions that have none on file: us-east-1's, times the ratio of EC2's prices."""

from __future__ import annotations

import pytest
import yaml

from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.core.regions import regions
from hyperpod_ray.pricing import ec2, price_file
from hyperpod_ray.pricing.prices import Price, Prices

TOLERANCE = 0.005


@pytest.fixture(scope="module")
def known() -> Prices:
    return price_file.recorded()


def test_hyperpod_asks_one_factor_of_ec2_for_a_family(known: Prices) -> None:
    """In us-east-1, where both are on file: 1.15 Trainium, 1.18 P4, 1.2 P5 and M5, 1.25 G5, G6 and GR6."""
    listed = yaml.safe_load(ec2.FILE.read_text())["types"]
    factors = {
        ec2.family(kind): known.instances[ec2.HOME][f"ml.{kind}"].usd / prices[ec2.HOME]
        for kind, prices in listed.items()
    }
    wanted = {
        "g5": 1.25, "g6": 1.25, "g6e": 1.25, "gr6": 1.25, "m5": 1.2, "p4d": 1.18, "p4de": 1.18, "p5": 1.2, "p5en": 1.2,
        "trn1": 1.15, "trn1n": 1.15,
    }  # fmt: skip
    assert factors == pytest.approx(wanted, rel=TOLERANCE)


@pytest.mark.parametrize("row", ec2.checks(), ids=lambda row: f"{row['type']} in {row['region']}")
def test_what_sagemaker_asks_elsewhere_is_that_ratio(row: dict[str, str | float], known: Prices) -> None:
    """Prices recorded in other Regions by others; nothing here was made of them."""
    home = known.instances[ec2.HOME][str(row["type"])].usd
    ratio = ec2.ratio(str(row["region"]), str(row["type"]))
    assert ratio is not None
    assert home * ratio == pytest.approx(row["usd"], rel=TOLERANCE)


def test_the_file_names_types_and_regions_that_are_known() -> None:
    for kind, prices in yaml.safe_load(ec2.FILE.read_text())["types"].items():
        assert f"ml.{kind}" in catalogue()
        assert set(prices) <= set(regions()), kind
        assert min(prices.values()) / prices[ec2.HOME] > 0.9, "no Region is much cheaper than us-east-1"


def test_a_type_has_the_regions_of_its_family() -> None:
    """The file has one type of each family."""
    listed = yaml.safe_load(ec2.FILE.read_text())["types"]
    assert {kind: ec2.regions(f"ml.{ec2.family(kind)}.any") for kind in listed} == {
        kind: sorted(prices) for kind, prices in listed.items()
    }
    assert ec2.regions("ml.c5.2xlarge") == []
    assert ec2.ratio(ec2.HOME, "ml.g5.xlarge") == 1.0
    assert ec2.ratio("eu-west-1", "ml.c5.2xlarge") is None


def test_an_estimate_says_what_it_is_made_of(known: Prices) -> None:
    found = known.instance("eu-west-1", "ml.g5.48xlarge")
    assert found is not None
    assert found.usd == pytest.approx(22.728, abs=0.01)
    assert found.estimate == "1.12 times us-east-1, as EC2 asks"
    assert found.source.endswith("hyperpod_ray/pricing/ec2_by_region.yaml")


def test_a_price_on_file_goes_before_an_estimate(known: Prices) -> None:
    mine = (
        Price(usd=9, as_of=found.as_of, source="contract")
        if (found := known.instance("us-east-1", "ml.g5.48xlarge"))
        else None
    )
    assert mine is not None
    own = Prices(instances={"eu-west-1": {"ml.g5.48xlarge": mine}}).over(known)
    assert own.instance("eu-west-1", "ml.g5.48xlarge") == mine


def test_what_is_not_known_stays_unknown(known: Prices) -> None:
    assert known.instance("eu-west-1", "ml.p5.48xlarge") is None, "EC2 has no P5 there on file"
    assert known.instance("eu-west-1", "ml.c5.2xlarge") is None, "no family c5 on file"
    assert Prices().instance("eu-west-1", "ml.g5.48xlarge") is None


def test_an_estimate_rests_on_no_other(known: Prices) -> None:
    guess = known.instances[ec2.HOME]["ml.g5.48xlarge"].model_copy(update={"estimate": "a guess"})
    guessed = Prices(instances={ec2.HOME: {"ml.g5.48xlarge": guess}})
    assert guessed.instance("eu-west-1", "ml.g5.48xlarge") is None
