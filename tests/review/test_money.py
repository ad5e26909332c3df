"""Money: what the templates cost, and that the review and the cost command agree on it."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.core.loader import parse
from hyperpod_ray.pricing import price_file, prices
from hyperpod_ray.review.money import Money
from hyperpod_ray.review.report import figures
from hyperpod_ray.review.report.markdown import render
from hyperpod_ray.review.report.verdict import verdict
from hyperpod_ray.review.review import Review, fails, review
from tests.review.scenario import Assemble, Side, settings_text
from tests.review.small import resources, write

REGION = "us-west-2"


DAY = date(2026, 11, 21)


def paid(tmp_path: Path, before: dict[str, Any], after: dict[str, Any], *, day: date = DAY) -> Money:
    made = review(write(tmp_path / "base", {"A": before}), write(tmp_path / "head", {"A": after}), day=day)
    found = made.environments[0].money
    assert found is not None
    return found


def cluster(instance_type: str, count: int) -> dict[str, Any]:
    group = {"InstanceGroupName": "workers", "InstanceType": instance_type, "InstanceCount": count}
    return {"Type": "AWS::SageMaker::Cluster", "Properties": {"InstanceGroups": [group]}}


def test_what_is_always_paid_is_counted_from_the_resources(tmp_path: Path) -> None:
    endpoint = {"VpcEndpointType": "Interface", "SubnetIds": ["subnet-1", "subnet-2"]}
    gateway = {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Gateway"}}
    eks = {"Type": "AWS::EKS::Cluster", "Properties": {}}
    found = paid(
        tmp_path,
        resources(E=eks, S3=gateway, N={"Type": "AWS::EC2::NatGateway"}, A={"Type": "AWS::EC2::EIP"}),
        resources(
            E=eks,
            S3=gateway,
            L={"Type": "AWS::EC2::VPCEndpoint", "Properties": endpoint},
            M={"Type": "AWS::EC2::VPCEndpoint", "Properties": endpoint},
        ),
    )
    known = price_file.recorded()
    nat, address, one = (known.hourly(REGION, what) for what in ("nat_gateway", "public_ipv4", "interface_endpoint"))
    assert nat and address and one
    lines = {line.name: (line.before, line.after, line.before_usd, line.after_usd) for line in found.lines}
    assert lines.pop("EKS control plane")[:2] == ("1 × cluster",) * 2
    assert lines == {
        "NAT gateways": ("1 × NAT gateway", "", nat.usd, 0),
        "addresses of NAT gateways": ("1 × public IPv4 address", "", address.usd, 0),
        "interface endpoints": ("", "4 × endpoint in one zone", 0, pytest.approx(4 * one.usd)),
    }
    assert found.estimated == []


def test_a_group_of_several_types_says_what_it_costs_at_most(tmp_path: Path) -> None:
    types = ["ml.g5.12xlarge", "ml.g5.24xlarge"]
    several = cluster("", 2)
    (group,) = several["Properties"]["InstanceGroups"]
    del group["InstanceType"]
    group["InstanceRequirements"] = {"InstanceTypes": types}
    (line,) = paid(tmp_path, resources(C=cluster(types[0], 2)), resources(C=several)).lines
    first, dearest = (price_file.recorded().instance(REGION, name) for name in types)
    assert first and dearest and dearest.usd > first.usd
    assert line.before_usd == line.after_usd == pytest.approx(2 * first.usd)
    assert f"at most {2 * dearest.usd:,.2f} $ an hour" in line.after


def test_estimates_carry_a_mark_wherever_they_go(tmp_path: Path) -> None:
    found = paid(tmp_path, resources(C=cluster("ml.p5.48xlarge", 2)), resources(C=cluster("ml.p5.48xlarge", 3)))
    (line,) = found.lines
    assert line.estimate == "as in us-east-1"
    assert "SKU" in line.source
    assert figures.change(line) == "~132.10 → ~198.14 (+66.05)"
    note = figures.price_note(found)
    assert "~132.10 → ~198.14 $ per hour" in note
    assert "~ is an estimate, as in us-east-1: group workers (" in note


def test_a_price_of_the_thing_itself_carries_none(tmp_path: Path) -> None:
    found = paid(tmp_path, resources(C=cluster("ml.p4d.24xlarge", 1)), resources(C=cluster("ml.p4d.24xlarge", 2)))
    assert "~" not in figures.change(found.lines[0]) + figures.price_note(found).partition("Not counted")[0]


def test_home_folders_are_named_without_a_price(tmp_path: Path) -> None:
    zfs = {"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": 64}
    properties = {"FileSystemType": "OPENZFS", "StorageCapacity": 300, "OpenZFSConfiguration": zfs}
    found = paid(tmp_path, resources(), resources(H={"Type": "AWS::FSx::FileSystem", "Properties": properties}))
    (line,) = [line for line in found.lines if line.name in found.unknown]
    assert (line.before, line.after) == ("", "300 GiB and 64 MB/s, SINGLE_AZ_1")
    assert found.changed_unknown == [line.name]


def test_what_nobody_knows_stays_unknown(tmp_path: Path) -> None:
    found = paid(tmp_path, resources(C=cluster("ml.trn2.48xlarge", 1)), resources(C=cluster("ml.trn2.48xlarge", 2)))
    assert found.unknown == ["group workers"]
    assert figures.change(found.lines[0]) == "unknown → unknown"
    assert "No price of us-west-2" in figures.price_note(found)


def eks(version: str) -> dict[str, Any]:
    return {"Type": "AWS::EKS::Cluster", "Properties": {"Version": version}}


def test_leaving_extended_support_saves_what_it_costs(tmp_path: Path) -> None:
    found = paid(tmp_path, resources(E=eks("1.33")), resources(E=eks("1.34")))
    lines = {line.name: line for line in found.lines}
    assert figures.change(lines["EKS extended support"]) == "0.50 → 0.00 (-0.50)"
    assert lines["EKS control plane"].difference == 0
    assert found.before - found.after == pytest.approx(0.5)


def test_while_both_are_in_standard_support_an_update_costs_nothing(tmp_path: Path) -> None:
    found = paid(tmp_path, resources(E=eks("1.33")), resources(E=eks("1.34")), day=date(2026, 7, 28))
    assert not found.changed
    assert {line.name for line in found.lines} == {"EKS control plane"}


@pytest.mark.parametrize(("day", "changed"), [("2026-07-28", False), ("2026-11-21", True)])
def test_the_day_is_the_one_that_checks_judge_by(
    day: str, changed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERPOD_RAY_DATE", day)
    sides = [write(tmp_path / name, {"A": resources(E=eks(name))}) for name in ("1.33", "1.34")]
    found = review(*sides).environments[0].money
    assert found is not None and found.changed is changed


@pytest.mark.parametrize("day", [DAY, date(2026, 12, 2)], ids=["standard", "extended"])
@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_review_and_cost_agree(environment: str, day: date, assemble: Assemble) -> None:
    other = Side(set={"hyperpod.instance_groups[head].count": 5})
    made = review(assemble(environment, Side()), assemble(environment, other), day=day)
    found = made.environments[0].money
    assert found is not None
    wanted = prices.cost(load(environment).plan, price_file.recorded(), day=day)
    assert found.before == pytest.approx(wanted.usd_per_hour)
    assert len(found.lines) == len(wanted.lines)
    assert found.not_counted == wanted.not_counted
    names = {line.name.removeprefix("group ") for line in found.estimated}
    assert {line.name for line in wanted.estimated} - {"storage"} <= names


def test_volumes_of_nodes_are_counted(tmp_path: Path) -> None:
    volume = {"EbsVolumeConfig": {"VolumeSizeInGB": 500}}
    one, other = cluster("ml.p4d.24xlarge", 2), cluster("ml.p4d.24xlarge", 2)
    other["Properties"]["InstanceGroups"][0]["InstanceStorageConfigs"] = [volume]
    found = paid(tmp_path, resources(C=one), resources(C=other))
    lines = {line.name: line for line in found.lines}
    price = price_file.recorded().node_volume(REGION)
    assert price is not None
    assert lines["volumes of nodes"].after == "1000 GiB of EBS"
    assert lines["volumes of nodes"].after_usd == pytest.approx(1000 * price.usd / prices.HOURS_PER_MONTH)
    assert lines["volumes of nodes"].estimate.startswith("as EBS gp3")
    assert any(text.startswith("traffic between zones (~0.01 $") for text in found.not_counted)


@pytest.mark.parametrize(
    ("storages", "gib"),
    [
        ([{"size": "8Gi"}], 8),
        ([{"size": "1536Mi"}], 2),
        ([{"size": "1Ti"}], 1024),
        ([{"size": 8589934592}], 8),
        ([{}], 1),
        ([None], 1),
        ([{"size": "8Gi"}, {"size": "4Gi"}], 12),
        ([{"claimName": "my-own"}], 0),
        ([{"size": "a lot"}], 0),
    ],
)
def test_volumes_of_anybodys_heads_are_counted(storages: list[Any], gib: int, tmp_path: Path) -> None:
    """RayClusters of somebody else's manifests: sizes as Kubernetes writes them, and claims that they bring."""
    objects = [
        {
            "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": f"c{number}", "namespace": "n"},
            "spec": {"gcsFaultToleranceOptions": {"backend": "rocksdb", **({"storage": storage} if storage else {})}},
        }
        for number, storage in enumerate(storages)
    ]  # fmt: skip
    manifest = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps(objects)}}
    group = cluster("ml.p4d.24xlarge", 2)
    lines = {line.name: line for line in paid(tmp_path, resources(C=group), resources(C=group, M=manifest)).lines}
    after = lines["volume of the head"].after if "volume of the head" in lines else ""
    assert after == (f"{gib} GiB of EBS gp3" if gib else "")


# --- the headline, and what ends a review -----------------------------------------------------------------------------


def of_scenario(assemble: Assemble, base: Side, head: Side) -> Review:
    return review(assemble("prod", base), assemble("prod", head), only="prod", day=DAY)


MORE = Side(set={"hyperpod.instance_groups[workers].count": 16, "ray.workers[gpu].replicas": 16})


def karpenter(most: int) -> Side:
    return Side(
        set={
            "hyperpod.managed_autoscaling": True,
            "ray.autoscaling": True,
            "hyperpod.instance_groups.[+]": {"name": "burst", "type": "ml.p5.48xlarge", "count": 0},
            "ray.workers.[+]": {"name": "burst", "instance_group": "burst", "replicas": 0, "max_replicas": most},
        }
    )


def node(instance_type: str) -> float:
    price = price_file.recorded().instance(REGION, instance_type)
    assert price is not None
    return price.usd


def test_the_headline_has_the_difference_per_month_and_the_budget(assemble: Assemble) -> None:
    made = of_scenario(assemble, Side(), MORE)
    (one,) = made.environments
    assert one.money is not None
    volumes = one.money.per_month - 8 * node("ml.p5.48xlarge") * prices.HOURS_PER_MONTH
    assert 0 < volumes < 8 * 500 * 0.2, "eight nodes more, with their volumes"
    plan = load("prod").plan
    known = prices.cost(plan, price_file.recorded(), day=DAY).usd_per_month
    assert one.money.month_after - one.money.per_month == pytest.approx(known)
    words = (
        f"~{one.money.per_month:+,.0f} $ per month, ~{one.money.month_after:,.0f} in all: above the budget of 450,000"
    )
    assert verdict(made) == f"safe; {words}"
    assert words in render(made).splitlines()[1]


def test_less_is_said_and_a_budget_that_holds_is_not(assemble: Assemble) -> None:
    words = verdict(of_scenario(assemble, MORE, Side()))
    assert "-386,0" in words
    assert "budget" not in words


@pytest.mark.parametrize(
    ("limit", "ends"),
    [("costs=10%", True), ("costs=99%", True), ("costs=100%", False), ("costs=386000", True), ("costs=400000", False)],
)
def test_costs_end_a_review(limit: str, ends: bool, assemble: Assemble) -> None:
    assert fails(of_scenario(assemble, Side(), MORE), limit) is ends


def test_less_cost_never_ends_a_review(assemble: Assemble) -> None:
    assert not fails(of_scenario(assemble, MORE, Side()), "costs=0")
    assert not fails(of_scenario(assemble, Side(), Side(set={"tags.a": "b"})), "costs=0%")


def test_what_nobody_knows_counts_as_more(tmp_path: Path) -> None:
    made = review(
        write(tmp_path / "base", {"A": resources(Cluster=cluster("ml.unknown.48xlarge", 1))}),
        write(tmp_path / "head", {"A": resources(Cluster=cluster("ml.unknown.48xlarge", 2))}),
        day=DAY,
    )
    assert fails(made, "costs=1000000")


def test_a_new_environment_costs_all_that_it_costs(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "manifest.json").write_text('{"artifacts": {}}')
    made = review(empty, write(tmp_path / "head", {"A": resources(Cluster=cluster("ml.p5.48xlarge", 1))}), day=DAY)
    assert fails(made, "costs=1000%")
    assert fails(made, "costs=40000")
    assert not fails(made, "costs=60000")


def test_what_autoscaling_may_add_is_a_range(assemble: Assemble) -> None:
    made = of_scenario(assemble, karpenter(4), karpenter(8))
    (environment,) = made.environments
    assert environment.money is not None
    more = 4 * node("ml.p5.48xlarge") * prices.HOURS_PER_MONTH
    assert environment.money.per_month == pytest.approx(0)
    assert environment.money.most_per_month == pytest.approx(more)
    assert f"with autoscaling up to {more:+,.0f}" in verdict(made)
    (line,) = [line for line in environment.money.lines if line.name == "group burst"]
    assert line.before == "0 to 4 × ml.p5.48xlarge, autoscaled: 66.05 $ per node and hour"
    assert line.before_most == pytest.approx(4 * node("ml.p5.48xlarge"))
    assert "0.00 to" in figures.change(line)
    assert fails(made, "costs=1000"), "it may cost that"


@pytest.mark.parametrize("limit", ["costs=1000000", "costs=1000%"])
def test_autoscaling_without_a_limit_may_cost_anything(limit: str, tmp_path: Path) -> None:
    """A NodePool without limits has none: https://karpenter.sh/docs/concepts/nodepools/#speclimits ."""
    fixed = cluster("ml.p5.48xlarge", 1)
    scaled = json.loads(json.dumps(fixed))
    scaled["Properties"]["AutoScaling"] = {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    scaled["Properties"]["InstanceGroups"].append(
        {"InstanceGroupName": "burst", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 0}
    )
    sides = [
        write(tmp_path / name, {"A": resources(Cluster=cluster)}) for name, cluster in (("a", fixed), ("b", scaled))
    ]
    assert fails(review(*sides, day=DAY), limit)


def test_the_template_and_the_file_agree_on_what_autoscaling_may_add(assemble: Assemble) -> None:
    (environment,) = of_scenario(assemble, Side(), karpenter(3)).environments
    assert environment.money is not None
    (line,) = [line for line in environment.money.lines if line.name == "group burst"]
    plan = parse(settings_text("prod", karpenter(3)), name="prod", path=Path("environments/prod.yaml")).plan
    (same,) = [line for line in prices.cost(plan, price_file.recorded(), day=DAY).lines if line.name == "burst"]
    assert (line.after_most, line.after_usd) == (same.most, 0.0)


def budget(usd: int) -> dict[str, Any]:
    limit = {"BudgetLimit": {"Amount": usd, "Unit": "USD"}, "TimeUnit": "MONTHLY", "BudgetType": "COST"}
    return {"Type": "AWS::Budgets::Budget", "Properties": {"Budget": limit}}


def test_a_budget_that_falls_below_the_costs_is_said(tmp_path: Path) -> None:
    nodes = cluster("ml.p5.48xlarge", 8)
    sides = [
        write(tmp_path / str(usd), {"A": resources(Cluster=nodes, Budget=budget(usd))}) for usd in (450_000, 300_000)
    ]
    assert "above the budget of 300,000" in verdict(review(*sides, day=DAY))
    assert "budget" not in verdict(review(*reversed(sides), day=DAY)), "the new one holds"


def test_a_budget_of_a_year_is_none_of_a_month(tmp_path: Path) -> None:
    yearly = budget(300_000)
    yearly["Properties"]["Budget"]["TimeUnit"] = "ANNUALLY"
    sides = [
        write(tmp_path / str(count), {"A": resources(Cluster=cluster("ml.p5.48xlarge", count), Budget=yearly)})
        for count in (8, 9)
    ]
    assert "budget" not in verdict(review(*sides, day=DAY))


def test_the_headline_names_what_has_no_price(tmp_path: Path) -> None:
    sides = [
        write(tmp_path / str(count), {"A": resources(Cluster=cluster("ml.unknown.48xlarge", count))})
        for count in (1, 2)
    ]
    assert verdict(review(*sides, day=DAY)).endswith("without group workers, whose price nobody knows")
