"""Prices: what is known, from where, and what follows from it."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from hyperpod_ray.constructs.endpoints import SERVICES
from hyperpod_ray.core import Plan, load
from hyperpod_ray.core.loader import FOLDER, load_any, parse
from hyperpod_ray.core.model import ExistingEks, ExistingEksCluster
from hyperpod_ray.pricing import prices
from hyperpod_ray.pricing.prices import Price, Prices, RegionFallback

DAY = date(2026, 11, 21)


def price(usd: float, *, estimate: str = "") -> Price:
    return Price(usd=usd, as_of=DAY, source="test", estimate=estimate)


KNOWN = Prices(
    instances={"us-west-2": {"ml.m5.2xlarge": price(0.5), "ml.p5.48xlarge": price(60)}},
    storage={"us-west-2": {1000: price(0.6), 500: price(0.34)}},
    usage={"any": {"kms_key": price(1)}, "us-west-2": {"ebs_gp3": price(0.08), "nat_data": price(0.045)}},
    fixed={
        "any": {"eks_cluster": price(0.1), "eks_extended_support": price(0.5)},
        "us-west-2": {
            "nat_gateway": price(0.04),
            "public_ipv4": price(0.005),
            "interface_endpoint": price(0.01),
        },
    },
)


def plan_of(network: str, *, eks: str = "") -> Plan:
    text = f"""
account: "111122223333"
region: us-west-2
registries: {{mirror: {str("closed" in network).lower()}}}
network: {network}
{eks}
hyperpod:
  cluster_name: ray-cost
  instance_groups:
    - {{name: head, type: ml.m5.2xlarge, count: 2}}
    - {{name: workers, type: ml.g5.8xlarge, count: 2}}
storage: {{mode: static}}
ray:
  head: {{instance_group: head, cpu: 2, memory_gib: 8}}
  workers:
    - {{name: gpu, instance_group: workers, replicas: 1}}
"""
    return parse(text, name="cost", path=Path("cost.yaml")).plan


def test_cost_by_group_storage_and_what_is_always_paid() -> None:
    found = prices.cost(load("prod").plan, KNOWN, day=DAY)
    assert [line.name for line in found.lines] == [
        "head",
        "workers",
        "volumes of nodes",
        "storage",
        "EKS control plane",
        "interface endpoints",
    ]
    hours = 3 * 0.5 + 8 * 60 + 0.1 + CLOSED_ENDPOINTS_OF_TWO_ZONES * 0.01
    months = 7200 * 0.34 + 11 * 500 * 0.08
    assert found.usd_per_hour == pytest.approx(hours + months / 730)
    assert found.usd_per_month == pytest.approx(hours * 730 + months)
    assert found.unknown == []
    assert [line.name for line in found.estimated] == ["volumes of nodes"]


def test_the_volume_of_the_heads_state_is_billed_as_ebs() -> None:
    plan = load("head-fault-tolerance", folder=FOLDER / "examples").plan
    (line,) = [line for line in prices.cost(plan, KNOWN, day=DAY).lines if line.name == "volume of the head"]
    assert line.usd_per_month == pytest.approx(8 * 0.08)
    assert line.estimate == ""
    assert not [line for line in prices.cost(load("prod").plan, KNOWN, day=DAY).lines if "of the head" in line.name]


def test_what_depends_on_use_is_named_with_its_price() -> None:
    found = prices.cost(load("prod").plan, KNOWN, day=DAY).not_counted
    assert "data through NAT gateways (0.045 $ per GB)" in found
    assert "KMS keys (1 $ a month each)" in found
    assert "traffic between zones" in found, "no price is known: the thing is named all the same"


def test_every_use_of_the_shipped_regions_has_a_figure() -> None:
    from hyperpod_ray.pricing import price_file

    known = price_file.recorded()
    for region in ("us-east-1", "us-east-2", "us-west-2"):
        named = {text.partition(" (")[0]: "$" in text for text in prices.not_counted(known, region)}
        unknown = {what for what, figure in named.items() if not figure}
        assert unknown == {"backups", "taxes, savings plans and discounts", "data through endpoints"}, region


OF_SETTINGS = {"aps-workspaces", "codeartifact.api", "codeartifact.repositories", "secretsmanager"}
"""Endpoints of `observability`, of a build with its own index, and of Slurm accounting."""
CLOSED_ENDPOINTS = SERVICES.keys() - OF_SETTINGS
CLOSED_ENDPOINTS_OF_TWO_ZONES = 2 * len(CLOSED_ENDPOINTS)


@pytest.mark.parametrize(
    ("network", "counted"),
    [
        ("{availability_zone_ids: [usw2-az1, usw2-az2]}", {"eks_cluster": 1, "nat_gateway": 1, "public_ipv4": 1}),
        (
            "{availability_zone_ids: [usw2-az1, usw2-az2], nat_gateways: 2}",
            {"eks_cluster": 1, "nat_gateway": 2, "public_ipv4": 2},
        ),
        (
            "{availability_zone_ids: [usw2-az1, usw2-az2], egress: closed}",
            {"eks_cluster": 1, "interface_endpoint": CLOSED_ENDPOINTS_OF_TWO_ZONES},
        ),
    ],
)
def test_what_is_always_paid_follows_from_the_network(network: str, counted: dict[str, int]) -> None:
    assert dict(prices.always_paid(plan_of(network), day=DAY)) == counted


LAST_DAY = date(2026, 7, 28)
"""On which EKS has 1.33 in standard support."""


@pytest.mark.parametrize(
    ("version", "day", "usd"),
    [
        ("1.33", LAST_DAY, 0.1),
        ("1.33", LAST_DAY + timedelta(days=1), 0.6),
        ("1.33", date(2027, 7, 29), 0.6),
        ("1.34", DAY, 0.1),
        ("1.34", date(2026, 12, 2), 0.6),
    ],
)
def test_a_control_plane_past_standard_support_costs_more_from_that_day(version: str, day: date, usd: float) -> None:
    plan = plan_of("{availability_zone_ids: [usw2-az1, usw2-az2]}", eks=f'eks: {{version: "{version}"}}')
    lines = [line for line in prices.cost(plan, KNOWN, day=day).lines if line.name.startswith("EKS")]
    assert sum(line.usd_per_hour or 0 for line in lines) == pytest.approx(usd)
    assert [line.what for line in lines[1:]] == (["1 × cluster past standard support"] if usd > 0.5 else [])


def test_an_existing_cluster_is_not_counted_in_extended_support_either() -> None:
    plan = plan_of("{availability_zone_ids: [usw2-az1, usw2-az2]}", eks='eks: {version: "1.33"}')
    cluster = ExistingEksCluster.model_construct(cluster_name="theirs")
    eks = ExistingEks(version="1.33", existing=cluster)
    theirs = Plan(name="cost", settings=plan.settings.model_copy(update={"eks": eks}))
    assert "eks_extended_support" in dict(prices.always_paid(plan, day=DAY))
    assert not {"eks_cluster", "eks_extended_support"} & set(dict(prices.always_paid(theirs, day=DAY)))


def test_unknown_is_unknown_and_left_out() -> None:
    found = prices.cost(load("prod").plan, Prices(instances={"us-west-2": {"ml.m5.2xlarge": price(1)}}), day=DAY)
    assert [line.name for line in found.unknown] == [
        "workers",
        "volumes of nodes",
        "storage",
        "EKS control plane",
        "interface endpoints",
    ]
    assert found.usd_per_hour == 3
    elsewhere = Prices(instances={"eu-west-1": {"ml.m5.2xlarge": price(1)}})
    assert prices.cost(load("prod").plan, elsewhere, day=DAY).usd_per_hour == 0


def test_an_estimate_is_taken_only_where_nothing_is_known_and_says_so() -> None:
    known = Prices(
        instances={"us-east-1": {"ml.p5.48xlarge": price(66), "ml.m5.2xlarge": price(7)}, **KNOWN.instances},
        alike={"us-west-2": RegionFallback(region="us-east-1", why="they are neighbours")},
    )
    own = known.instance("us-west-2", "ml.m5.2xlarge")
    assert own is not None
    assert (own.usd, own.estimate) == (0.5, "")
    nothing = Prices(instances={"us-east-1": known.instances["us-east-1"]}, alike=known.alike)
    taken = nothing.instance("us-west-2", "ml.p5.48xlarge")
    assert taken == Price(usd=66, as_of=DAY, source="test; they are neighbours", estimate="as in us-east-1")
    found = prices.cost(load("prod").plan, nothing, day=DAY)
    assert [line.name for line in found.estimated] == ["head", "workers"]
    assert found.estimated[0].source == "test; they are neighbours"


def test_an_estimate_never_rests_on_another() -> None:
    known = Prices(
        instances={
            "us-east-1": {"ml.c5.2xlarge": price(66)},
            "us-east-2": {"ml.m5.2xlarge": price(1, estimate="a guess")},
        },
        alike={
            "us-west-2": RegionFallback(region="us-east-2", why="x"),
            "us-east-2": RegionFallback(region="us-east-1", why="y"),
        },
    )
    assert known.instance("us-east-2", "ml.c5.2xlarge") is not None
    assert known.instance("us-west-2", "ml.c5.2xlarge") is None
    assert known.instance("us-west-2", "ml.m5.2xlarge") is None


def test_a_training_plan_is_not_paid_by_the_hour() -> None:
    plan = load("prod").plan
    groups = plan.settings.hyperpod.instance_groups
    arn = "arn:aws:sagemaker:us-west-2:444455556666:training-plan/p"
    reserved = [groups[0], groups[1].model_copy(update={"training_plan_arn": arn})]
    hyperpod = plan.settings.hyperpod.model_copy(update={"instance_groups": reserved})
    changed = Plan(name="prod", settings=plan.settings.model_copy(update={"hyperpod": hyperpod}))
    line = prices.cost(changed, KNOWN, day=DAY).lines[1]
    assert (line.usd_per_hour, line.usd_per_unit) == (None, 60)
    assert "training plan" in line.note


def test_todays_price_goes_before_the_recorded_one() -> None:
    today = Prices(instances={"us-west-2": {"ml.g5.8xlarge": price(3)}}, fixed={"any": {"eks_cluster": price(0.2)}})
    old = Prices(instances={"us-west-2": {"ml.g5.8xlarge": price(9), "ml.m5.2xlarge": price(1)}}, fixed=KNOWN.fixed)
    both = today.over(old)
    assert {kind: item.usd for kind, item in both.instances["us-west-2"].items()} == {
        "ml.g5.8xlarge": 3,
        "ml.m5.2xlarge": 1,
    }
    assert both.fixed["any"]["eks_cluster"].usd == 0.2
    assert both.fixed["us-west-2"] == KNOWN.fixed["us-west-2"]


@pytest.mark.parametrize("usd", [0, -0.01])
def test_a_price_is_more_than_nothing(usd: float) -> None:
    """A row of 0 would make what costs money free in every sum."""
    with pytest.raises(ValueError, match="greater than 0"):
        prices.Price(usd=usd, as_of=date(2026, 11, 21), source="https://aws.amazon.com/sagemaker/ai/pricing/")


@pytest.mark.parametrize(
    ("limit", "known", "line"),
    [
        # what · now · at most · no limit · per node
        (4, True, ("0 to 4 × ml.p5.48xlarge", 0.0, 4 * 60, False, 60)),
        (4, False, ("0 to 4 × ml.p5.48xlarge", None, None, False, None)),
        (0, True, ("0 × ml.p5.48xlarge and more", 0.0, None, True, 60)),
        (None, True, ("0 × ml.p5.48xlarge and more", 0.0, None, True, 60)),
        (None, False, ("0 × ml.p5.48xlarge and more", None, None, True, None)),
    ],
)
def test_an_autoscaled_group_costs_nothing_now_and_its_limit_at_most(
    limit: int | None, known: bool, line: tuple[str, float | None, float | None, bool, float | None]
) -> None:
    group = prices.autoscaled(
        name="burst", instance_type="ml.p5.48xlarge", limit=limit, price=price(60, estimate="guess") if known else None
    )
    assert (group.what, group.usd_per_hour, group.most, group.unbounded, group.usd_per_unit) == line
    assert group.usd_per_month == group.usd_per_hour
    assert ("60.00 $ per node and hour" in group.note, "price unknown" in group.note) == (known, not known)
    assert ("without a limit" in group.note) == (not limit)
    assert (group.estimate, group.source, group.as_of) == (("guess", "test", DAY) if known else ("", "", None))
    assert group.elsewhere_usd_per_hour == (None if known else 0.0)


def test_the_most_is_the_sum_of_what_each_line_may_cost() -> None:
    burst = prices.autoscaled(name="burst", instance_type="ml.p5.48xlarge", limit=2, price=price(60))
    endless = prices.autoscaled(name="endless", instance_type="ml.p5.48xlarge", limit=0, price=price(60))
    lost = prices.autoscaled(name="lost", instance_type="ml.p5.48xlarge", limit=2, price=None)
    head = prices.line(name="head", description="3 nodes", quantity=3, unit="hour", price=price(0.5))
    whole = prices.Cost(lines=[head, burst, endless, lost])
    assert (whole.usd_per_hour, whole.most_usd_per_hour) == (1.5, 121.5)
    assert whole.unbounded == [endless]
    assert whole.unknown == [lost]


@pytest.mark.parametrize(
    ("quantity", "unit", "known", "paid", "figures"),
    [
        # an hour · a month · elsewhere an hour; a month has 730 hours, and volumes have a price per month
        (7300, "GB-month", True, True, (1.0, 730, None)),
        (7300, "GB-month", False, True, (None, None, 2.0)),
        (2, "hour", True, True, (0.2, 146, None)),
        (2, "hour", False, True, (None, None, 0.4)),
        (2, "hour", True, False, (None, None, None)),
        (2, "hour", False, False, (None, None, None)),
        (0, "hour", False, True, (0.0, 0.0, 0.0)),
        (0, "GB-month", False, True, (0.0, 0.0, 0.0)),
    ],
)
def test_a_line_is_known_by_the_hour_and_by_the_month(
    quantity: int, unit: prices.Unit, known: bool, paid: bool, figures: tuple[float | None, ...]
) -> None:
    line = prices.line(
        name="line",
        description="of it",
        quantity=quantity,
        unit=unit,
        price=price(0.1) if known else None,
        dearest=price(0.2),
        paid=paid,
    )
    per_hour = (line.usd_per_hour, line.usd_per_month, line.elsewhere_usd_per_hour)
    assert per_hour == tuple(None if usd is None else pytest.approx(usd) for usd in figures)
    assert line.most == line.usd_per_hour


@pytest.mark.parametrize(
    ("elsewhere", "known", "words"),
    [
        ([9.0], 91.0, "$9.00 an hour, about 9.0 % of the whole"),
        ([4.0, 6.0], 90.0, "$10.00 an hour, about 10 % of the whole"),
        ([0.1], 99.9, "$0.10 an hour, about 0.1 % of the whole"),
        ([0.05], 99.95, "$0.05 an hour, under 0.1 % of the whole"),
        ([0.0], 0.0, "$0.00 an hour, under 0.1 % of the whole"),
        ([5.0], 0.0, "$5.00 an hour, about 100 % of the whole"),
    ],
)
def test_what_has_no_price_here_is_a_share_of_the_whole(elsewhere: list[float], known: float, words: str) -> None:
    assert prices.unpriced_share(elsewhere, known) == f"at the dearest known price of a Region it is {words}"


def test_a_share_with_a_part_that_nobody_knows_is_unknown() -> None:
    assert "its share of the whole is unknown" in prices.unpriced_share([5.0, None], 10.0)
    dear = prices.line(name="a", description="", quantity=2, unit="hour", price=None, dearest=price(3))
    known = prices.line(name="b", description="", quantity=1, unit="hour", price=price(94))
    planned = prices.line(name="c", description="", quantity=9, unit="hour", price=price(60), paid=False)
    assert "$6.00 an hour, about 6.0 %" in prices.Cost(lines=[dear, known, planned]).unpriced_share
    assert prices.Cost(lines=[known, planned]).unpriced_share == "", "a training plan has its price elsewhere"


@pytest.mark.parametrize(
    ("first", "others", "most", "note"),
    [
        (60, [60, 50], 120, "at most 120.00 $ an hour"),
        (50, [50, 60], 120, "at most 120.00 $ an hour"),
        (50, [50, 60, None], 120, "at most 120.00 $ an hour, 1 without a price"),
        (50, [50, None, None], 100, "at most 100.00 $ an hour, 2 without a price"),
        (50, [50], 100, ""),
        (None, [None, 60], None, ""),
    ],
)
def test_nodes_of_several_types_cost_at_most_the_dearest(
    first: float | None, others: list[float | None], most: float | None, note: str
) -> None:
    def known(usd: float | None) -> Price | None:
        return None if usd is None else price(usd)

    nodes = prices.line(
        name="workers", description="2", quantity=2, unit="hour", price=known(first), note="spot costs less"
    )
    line = prices.of_any_type(nodes, [known(usd) for usd in others])
    assert line.most == most
    assert line.usd_per_hour == nodes.usd_per_hour, "the sum is of the first type"
    assert line.note == "; ".join(["spot costs less", *([f"of the first type; {note}"] if note else [])])


def test_a_control_plane_that_is_ahead_of_its_file_is_paid_as_it_is() -> None:
    """The review knows the version that is deployed; the file's is what it will be."""
    plan = plan_of("{availability_zone_ids: [usw2-az1, usw2-az2]}", eks='eks: {version: "1.34"}')
    charges = [dict(prices.always_paid(plan, day=DAY, eks_version=version)) for version in ("", "1.33", "1.34")]
    assert ["eks_extended_support" in each for each in charges] == [False, True, False]


def test_metrics_and_home_folders_are_named_where_they_are() -> None:
    samples = "samples in Amazon Managed Service for Prometheus"
    observed = prices.cost(load("observability", folder=FOLDER / "examples").plan, KNOWN, day=DAY)
    homes = prices.cost(load_any("slurm-homes", folder=FOLDER / "examples").plan, KNOWN, day=DAY)
    plain = prices.cost(load("prod").plan, KNOWN, day=DAY)
    assert [samples in each.not_counted for each in (observed, homes, plain)] == [True, False, False]
    named = [[line.name for line in each.unknown if line.name == "home folders"] for each in (observed, homes, plain)]
    assert named == [[], ["home folders"], []]
