"""The plans of the shipped environments in the docs are what the planner says today."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hyperpod_ray import core
from hyperpod_ray.core.loader import environment_names
from hyperpod_ray.planner import answers, checks
from hyperpod_ray.planner.cluster import file_systems
from hyperpod_ray.pricing import price_file
from tests.docs.printed import PROJECT


def commented(name: str) -> str:
    settings = (PROJECT / "environments" / f"{name}.yaml").read_text(encoding="utf-8")
    return " ".join(settings.replace("#", " ").split())


def test_prod_answers_what_its_comments_say() -> None:
    page = (PROJECT / "docs" / "plans" / "prod.md").read_text(encoding="utf-8")
    said = commented("prod")
    (percent,) = re.findall(r"\(\+([\d.]+)%\)", page)
    assert f"makes a useful GPU-hour {round(float(percent))} % dearer" in said
    assert "one pays from 53 nodes on" in said
    assert re.search(r"a spare pays from \| \d+ \| 53 \|", page)
    assert "Three checkpoints of 847 GB, the next one and 1T tokens take 6,879 GiB" in said
    assert "| 847 GB, " in page
    assert "3 checkpoints, the next one and the tokens need 6,879 GiB" in page
    assert "7200@500 is the fastest that costs at most 0.5% more than the cheapest; the environment has that." in page


@pytest.mark.parametrize("name", environment_names())
def test_each_shipped_environment_follows_its_own_plan(name: str) -> None:
    """No doubt of `env check` about the run, no spare that costs more than it saves, the advised file system."""
    plan = core.load(name).plan
    prices = price_file.recorded()
    day = max(price.as_of for _, _, _, price in prices.entries())
    assert checks.findings(plan, prices, day=day) == []
    outlook = checks.outlook(plan)
    assert outlook is not None
    assert outlook.cluster.spares == 0
    assert outlook.cluster.nodes < answers.pays_from(outlook).central
    systems = file_systems(plan, prices, day=day, gib=outlook.needed_gib)
    advised = answers.advised(answers.useful_hours(outlook, [pair for pair in systems if not pair[0].efa]))
    if name == "local":
        assert "Size and throughput are the defaults" in commented(name)  # nobody pays for it
    else:
        assert advised == outlook.cluster.file_system


def test_synchronous_saves_pay_for_a_faster_file_system() -> None:
    """As prod's comment says."""
    plan = core.load("prod").plan
    prices = price_file.recorded()
    day = max(price.as_of for _, _, _, price in prices.entries())
    outlook = checks.outlook(plan)
    assert outlook is not None
    sync = replace(outlook, job=replace(outlook.job, save="sync"))
    systems = file_systems(plan, prices, day=day, gib=sync.needed_gib)
    found = answers.advised(answers.useful_hours(sync, [pair for pair in systems if not pair[0].efa]))
    assert found.name == "7200@1000"
    assert "With synchronous saves, 1000 pays" in commented("prod")
