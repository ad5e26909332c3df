"""Rules of `hyperpod_ray/core/checks/pods.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import (
    BURST,
    CPU_GROUP,
    DIGEST,
    GROUPS,
    HEAD,
    REDIS,
    TIER,
    WORKER,
    WORKERS,
    assert_named_rule,
    assert_rule,
    case_id,
    worker,
)

CASES = [
    Case("pods_fit_their_node", {TIER: {"memory_percent": 100}, f"{WORKER}/memory_gib": 8}, "ray.head.memory_gib", "has 0 after system pods", {TIER: {"memory_percent": 20}}, beside=("ray.workers[0].memory_gib",)),
    Case("pods_fit_their_node", {f"{WORKER}/gpus": 9}, "ray.workers[0].gpus", "asks for 9 accelerators, but a node of 'workers' (ml.p5.48xlarge) has 8", {f"{WORKER}/gpus": 8}),
    Case("pods_fit_their_node", {f"{WORKER}/efa": 33}, "ray.workers[0].efa", "asks for 33 EFA interfaces", {f"{WORKER}/efa": 32}),
    Case("pods_fit_their_node", {"ray/head/cpu": 8}, "ray.head.cpu", "asks for 8 vCPUs, but a node of 'head' (ml.m5.2xlarge) has 7", {"ray/head/cpu": 7}),
    Case("pods_fit_their_node", {"ray/head/memory_gib": 29}, "ray.head.memory_gib", "has 28 after system pods", {"ray/head/memory_gib": 28}),
    Case("pods_fit_their_node", {"ray/head/cpu": 4, f"{HEAD}/threads_per_core": 1}, "ray.head.cpu", "with threads_per_core 1; with 2 it has 7", {"ray/head/cpu": 3, f"{HEAD}/threads_per_core": 1}),
    Case("pods_fit_their_node", {f"{HEAD}/type": "ml.t3.medium", "ray/head": {"instance_group": "head", "cpu": 1, "memory_gib": 1}}, "ray.head.instance_group", "carries 5 pods, and the 5 daemon sets", {f"{HEAD}/type": "ml.t3.large", "ray/head": {"instance_group": "head", "cpu": 1, "memory_gib": 1}}, beside=("ray.head.memory_gib",)),
    Case("pods_fit_their_node", {"ray/head/cpu": 7, "ray/autoscaling": True}, "ray.head.cpu", "asks for 8 vCPUs", {"ray/head/cpu": 6, "ray/autoscaling": True}),
    Case("pods_fit_their_node", {"ray/head/memory_gib": 28, "ray/autoscaling": True}, "ray.head.memory_gib", "asks for 29 GiB of memory", {"ray/head/memory_gib": 27, "ray/autoscaling": True}),
    Case("pods_fit_their_node", {"hyperpod/tiered_storage": {"memory_percent": 20}, f"{WORKER}/memory_gib": 1500}, "ray.workers[0].memory_gib", "has 1482", {"hyperpod/tiered_storage": {"memory_percent": 20}, f"{WORKER}/memory_gib": 1482}),
    Case("replicas_fit_the_group", {f"{WORKER}/replicas": 5}, "ray.workers[0].replicas", "need 5 nodes, 'workers' has 4 × ml.p5.48xlarge", {f"{WORKER}/replicas": 4}),
    Case("replicas_fit_the_group", {f"{WORKER}/replicas": 9, f"{WORKER}/gpus": 4}, "ray.workers[0].replicas", "9 × worker of 'gpu' (4 accelerators, 16 EFA", {f"{WORKER}/replicas": 8, f"{WORKER}/gpus": 4}),
    Case("replicas_fit_the_group", {"ray/workers/1": worker()}, "ray.workers[1].replicas", "together 'gpu' and 'more' ask for 40 accelerators", {f"{WORKER}/replicas": 3, "ray/workers/1": worker()}),
    Case("replicas_fit_the_group", {f"{WORKER}/replicas": 2, f"{WORKER}/gpus": 5, f"{WORKERS}/count": 2, "ray/workers/1": worker(replicas=2, gpus=3), "ray/workers/2": worker(name="third", gpus=0, efa=0, cpu=30, memory_gib=1)}, "ray.workers[2].replicas", "ask for 216 vCPUs", {f"{WORKER}/replicas": 2, f"{WORKER}/gpus": 5, f"{WORKERS}/count": 2, "ray/workers/1": worker(replicas=2, gpus=3)}, beside=("ray.workers[2].gpus",)),
    Case("replicas_fit_the_group", {f"{WORKER}/replicas": 2, f"{WORKER}/gpus": 6, f"{WORKERS}/count": 2, f"{WORKER}/cpu": 10, f"{WORKER}/memory_gib": 10, "ray/workers/1": worker(gpus=4, cpu=10, memory_gib=10, efa=4)}, "ray.workers[1].replicas", "node by node it does not", {f"{WORKER}/replicas": 2, f"{WORKER}/gpus": 6, f"{WORKERS}/count": 2, f"{WORKER}/cpu": 10, f"{WORKER}/memory_gib": 10, "ray/workers/1": worker(gpus=2, cpu=10, memory_gib=10, efa=4)}, "warning"),
    Case("max_replicas_are_reachable", {f"{WORKER}/max_replicas": 5, "ray/autoscaling": True}, "ray.workers[0].max_replicas", "need 5 nodes", {f"{WORKER}/max_replicas": 5, "ray/autoscaling": True, "hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST}),
    Case("efa_goes_to_its_pods", {f"{WORKER}/gpus": 0}, "ray.workers[0].gpus", "stand idle", {f"{WORKER}/gpus": 1}, "warning"),
    Case("efa_goes_to_its_pods", {f"{WORKER}/efa": 0}, "ray.workers[0].efa", "many times slower", {f"{WORKER}/efa": 1}, "warning"),
    Case("shared_memory_fits", {f"{WORKER}/memory_gib": 100, f"{WORKER}/shared_memory_gib": 100}, "ray.workers[0].shared_memory_gib", "Fix: set 25, a quarter", {f"{WORKER}/memory_gib": 100, f"{WORKER}/shared_memory_gib": 99}),
    Case("efa_goes_to_its_pods", {f"{WORKER}/gpus": 3, f"{WORKER}/replicas": 8}, "ray.workers[0].gpus", "2 of each node stand idle", {f"{WORKER}/gpus": 4, f"{WORKER}/replicas": 8}, "warning"),
    Case("replicas_fit_the_group", {f"{GROUPS}/2": {**CPU_GROUP, "name": "driver", "count": 0}, REDIS: {"driver_instance_group": "driver", "redis_image": DIGEST}}, "ray.gcs_fault_tolerance.driver_instance_group", "1 × the driver (2 vCPUs, 8 GiB) need 1 nodes, 'driver' has 0", {f"{GROUPS}/2": {**CPU_GROUP, "name": "driver"}, REDIS: {"driver_instance_group": "driver", "redis_image": DIGEST}}),
    Case("replicas_fit_the_group", {"ray/autoscaling": True, f"{WORKER}/replicas": 5, f"{WORKER}/max_replicas": 9}, "ray.workers[0].replicas", "need 5 nodes, 'workers' has 4", {"ray/autoscaling": True, f"{WORKER}/replicas": 4, f"{WORKER}/max_replicas": 4}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
