from __future__ import annotations

import pytest

from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner.cluster import cluster
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.outlook import Outlook
from tests.planner.test_checks import TRAINING, WORKERS, plan_of


def test_gpus_that_a_split_does_not_divide() -> None:
    plan = plan_of({"ray/workers/0/replicas": 6, f"{WORKERS}/count": 6, "training": TRAINING})
    run = job(Wish(model="llama-3.1-8b", tokens="1T", parallel="tp=8,cp=4"), None)
    with pytest.raises(PlanError, match="on 48 GPUs"):
        Outlook(cluster=cluster(plan), job=run, rates=published())
