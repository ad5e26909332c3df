"""A group of several instance types: each reader of a group's type reads all of them, or refuses."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.cli.main import main
from hyperpod_ray.core import needs, requests
from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.today import VARIABLE
from hyperpod_ray.ops.acceptance import check
from hyperpod_ray.ops.jobs import estimate
from hyperpod_ray.ops.observe import controllers, hyperpod
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner.cluster import cluster
from hyperpod_ray.pricing import price_file, prices
from hyperpod_ray.pricing.prices import Price, Prices
from hyperpod_ray.review.instance_groups import instance_type
from hyperpod_ray_rules import hyperpod as service
from tests.core.account.good import NEW, account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan, text_of

HEAD, WORKERS = "hyperpod/instance_groups/0", "hyperpod/instance_groups/1"
G5 = {f"{WORKERS}/type": "ml.g5.12xlarge", f"{WORKERS}/fallback_types": ["ml.g5.24xlarge"]}
DAY = date(2026, 11, 27)


@pytest.fixture
def two_types() -> Plan:
    return plan(G5)


def test_the_request_has_them_in_their_order(two_types: Plan) -> None:
    head, workers = requests.create_cluster(two_types)["InstanceGroups"]
    assert workers["InstanceRequirements"] == {"InstanceTypes": ["ml.g5.12xlarge", "ml.g5.24xlarge"]}
    assert "InstanceType" not in workers
    assert (head["InstanceType"], "InstanceRequirements" in head) == ("ml.m5.2xlarge", False)
    assert list(service.one_kind_of_type(requests.create_cluster(two_types), service.Where())) == []
    assert instance_type(workers) == "ml.g5.12xlarge or ml.g5.24xlarge"


def test_the_device_plugins_run_on_each_type(two_types: Plan) -> None:
    values = k8s.hyperpod_dependencies(two_types).values
    both = ["ml.g5.12xlarge", "ml.g5.24xlarge"]
    assert values["aws-efa-k8s-device-plugin"]["supportedInstanceLabels"] == {"values": both}
    (term,) = values["nvidia-device-plugin"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == both
    (nvidia,) = [expected for expected in controllers.EXPECTED if "NVIDIA" in expected.name]
    assert nvidia.types(two_types) == tuple(both)


def test_a_plugin_that_only_a_fallback_type_needs_is_on() -> None:
    """`ml.g5.4xlarge` has no EFA interface, and `ml.g5.8xlarge` has one."""
    edits = {f"{WORKERS}/type": "ml.g5.4xlarge", f"{WORKERS}/fallback_types": ["ml.g5.8xlarge"]}
    assert needs.enabled(plan(edits), "aws-efa-k8s-device-plugin")
    assert not needs.enabled(plan({f"{WORKERS}/type": "ml.g5.4xlarge"}), "aws-efa-k8s-device-plugin")


def test_a_subnet_has_room_for_the_type_with_the_most_addresses() -> None:
    edits = {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}
    assert plan(edits).addresses(plan(edits).groups[0]) == plan(edits).type_spec("ml.m5.4xlarge").ips
    assert plan(edits).addresses(plan(edits).groups[0]) > plan({}).addresses(plan({}).groups[0])


@pytest.mark.parametrize(
    ("larger", "most", "words"),
    [
        (Price(usd=8, as_of=DAY, source="test"), 32, "at most 32.00 $ an hour"),
        (Price(usd=4, as_of=DAY, source="test"), 20, "at most 20.00 $ an hour"),
        (None, 20, "1 without a price"),
    ],
)
def test_the_cost_is_a_range(two_types: Plan, larger: Price | None, most: float, words: str) -> None:
    known = {"ml.g5.12xlarge": Price(usd=5, as_of=DAY, source="test"), "ml.g5.24xlarge": larger}
    listed = Prices(instances={"us-west-2": {name: price for name, price in known.items() if price}})
    line = prices.cost(two_types, listed, day=DAY).lines[1]
    assert (line.what, line.usd_per_hour, line.most_usd_per_hour) == ("4 × ml.g5.12xlarge or ml.g5.24xlarge", 20, most)
    assert words in line.note


def test_the_command_shows_the_sum_of_the_first_types_and_the_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.yaml").write_text(text_of(G5), "utf-8")
    assert main(["--environments", str(tmp_path), "cost", "test", "--offline"]) == 0
    shown = capsys.readouterr().out
    assert "sum, of the first types" in shown
    assert "sum, at most" in shown
    assert "without autoscaling" not in shown


def test_the_first_type_without_a_price_leaves_the_line_without_one(two_types: Plan) -> None:
    listed = Prices(instances={"us-west-2": {"ml.g5.24xlarge": Price(usd=8, as_of=DAY, source="test")}})
    line = prices.cost(two_types, listed, day=DAY).lines[1]
    assert (line.usd_per_hour, line.most_usd_per_hour) == (None, None)


def test_a_run_is_planned_on_one_type(two_types: Plan) -> None:
    with pytest.raises(PlanError, match=r"workers on ml\.g5\.12xlarge and ml\.g5\.24xlarge"):
        cluster(two_types)


def test_the_acceptance_test_expects_figures_of_one_type_only(two_types: Plan) -> None:
    kind, expected = check.expected_of(two_types, nodes=4)
    assert (kind, expected.gpus) == ("ml.g5.12xlarge, ml.g5.24xlarge", 0)


@pytest.mark.parametrize(
    ("title", "missing", "path"),
    [
        ("quotas", {"quotas > sagemaker": {"ml.p5e.48xlarge for cluster usage": 3}}, None),
        ("instance types", {}, ("hyperpod", "instance_groups", 1, "fallback_types", 0)),
    ],
)
def test_each_type_needs_a_quota_and_a_zone(
    title: str, missing: dict[str, Any], path: tuple[Any, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account of a good environment has neither for `ml.p5e.48xlarge`."""
    monkeypatch.setenv(VARIABLE, "2026-11-22")
    (rule,) = [rule for rule in account_rules() if rule.title == title]
    evidence = Evidence(account=RecordedAccount(account(missing)))
    findings = list(rule(plan({**NEW, f"{WORKERS}/fallback_types": ["ml.p5e.48xlarge"]}), evidence))
    errors = [finding for finding in findings if finding.severity == "error"]
    assert any("ml.p5e.48xlarge" in finding.message for finding in errors), [finding.message for finding in findings]
    assert path is None or path in [finding.path for finding in errors]


def test_status_reads_both_types() -> None:
    described = {
        "InstanceGroupName": "workers", "TargetCount": 4, "CurrentCount": 3,
        "InstanceRequirements": {"DesiredInstanceTypes": ["ml.g5.12xlarge", "ml.g5.24xlarge"]},
    }  # fmt: skip
    group = hyperpod._group(cast(Target, SimpleNamespace(plan=plan(G5))), described)
    assert (group.type, group.accelerated) == ("ml.g5.12xlarge or ml.g5.24xlarge", True)


def test_a_job_says_what_it_costs_at_most(two_types: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def known(**usd: float) -> None:
        of_types = {f"ml.g5.{size}": Price(usd=price, as_of=DAY, source="a test") for size, price in usd.items()}
        known_prices = Prices(instances={two_types.settings.region: of_types})
        monkeypatch.setattr(price_file, "recorded", lambda _: known_prices)

    job = Job(command="python train.py", workers="4")
    known(**{"12xlarge": 7, "24xlarge": 10})
    both = estimate.of_job(two_types, job)
    assert both.most_usd_per_hour == both.nodes * 10 and both.usd_per_hour == both.nodes * 7
    (said, *_) = estimate.lines(both, now=datetime(2026, 11, 27, tzinfo=UTC))
    assert "ml.g5.12xlarge or ml.g5.24xlarge" in said and "with nodes of the first type, at most" in said
    known(**{"12xlarge": 7})
    (said, *_) = estimate.lines(estimate.of_job(two_types, job), now=datetime(2026, 11, 27, tzinfo=UTC))
    assert said.endswith("with nodes of the first type, not known of each type")
    one = plan({f"{WORKERS}/type": "ml.g5.12xlarge"})
    (said, *_) = estimate.lines(estimate.of_job(one, job), now=datetime(2026, 11, 27, tzinfo=UTC))
    assert said.endswith("an hour")
