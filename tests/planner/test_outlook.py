from __future__ import annotations

from hyperpod_ray.planner.cluster import cluster
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.outlook import Outlook
from tests.planner.test_checks import TRAINING, WORKERS, plan_of


def test_the_ends_of_goodput_are_the_bad_and_the_good_one() -> None:
    """The high rate of interruptions is the low end of goodput."""
    plan = plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "training": TRAINING})
    outlook = Outlook(cluster=cluster(plan), job=job(Wish(), plan.settings.training), rates=published())
    low, central, high = outlook.goodputs
    assert low < central < high < 1
    assert low == outlook.goodput("high")
