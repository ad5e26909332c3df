"""Rules of `hyperpod_ray/core/checks/ray.py`: a file that trips each, and the nearest one that does not."""

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
    MORE_P5,
    OWN_IMAGE,
    REDIS,
    WORKER,
    WORKERS,
    assert_named_rule,
    assert_rule,
    case_id,
    team,
    teams,
    worker,
)

CASES = [
    Case("groups_exist", {f"{WORKER}/instance_group": "worker"}, "ray.workers[0].instance_group", "did you mean 'workers'?", {}),
    Case("worker_names_differ", {f"{WORKER}/replicas": 3, "ray/workers/1": worker(name="gpu")}, "ray.workers[1].name", "already the name of workers[0]", {f"{WORKER}/replicas": 3, "ray/workers/1": worker()}),
    Case("worker_names_differ", {f"{WORKER}/name": "driver"}, "ray.workers[0].name", "is taken", {f"{WORKER}/name": "drivers"}),
    Case("replicas_are_in_order", {f"{WORKER}/min_replicas": 5}, "ray.workers[0].min_replicas", "5 is more than replicas, 4", {f"{WORKER}/min_replicas": 4}),
    Case("replicas_are_in_order", {f"{WORKER}/max_replicas": 3}, "ray.workers[0].max_replicas", "3 is less than replicas, 4", {f"{WORKER}/max_replicas": 4}),
    Case("replicas_have_effect", {f"{WORKER}/replicas": 3, f"{WORKER}/max_replicas": 4}, "ray.workers[0].max_replicas", "has no effect without ray.autoscaling", {f"{WORKER}/replicas": 3, f"{WORKER}/max_replicas": 4, "ray/autoscaling": True}, "warning"),
    Case("some_worker_works", {f"{WORKER}/replicas": 0}, "ray.workers", "nothing trains", {f"{WORKER}/replicas": 1}, "warning"),
    Case("version_is_recent_enough", {"ray/version": "2.51.2", **OWN_IMAGE}, "ray.version", "Expected 2.52.0 or newer", {"ray/version": "2.52.0", **OWN_IMAGE}),
    Case("version_is_recent_enough", {"ray/version": "2.50.0", "ray/auth": "none", **OWN_IMAGE}, "ray.version", "older than Train V2", {"ray/version": "2.51.0", "ray/auth": "none", **OWN_IMAGE}, beside=("ray.auth",)),
    Case("spares_have_places", {"ray/training_spares": 32}, "ray.training_spares", "leave nothing to train: the worker groups have 32 places", {"ray/training_spares": 8}),
    Case("spares_have_places", {"ray/training_spares": 1}, "ray.training_spares", "do not cover a lost node, which takes up to 8", {"ray/training_spares": 8}, "warning"),
    Case("operator_knows_auth", {"helm/kuberay_operator": "1.5.0"}, "helm.kuberay_operator", "Expected 1.5.1 or newer", {"helm/kuberay_operator": "1.7.0"}, beside=("helm.kuberay_operator",)),
    Case("head_is_off_accelerators", {f"{GROUPS}/2": MORE_P5, "ray/head/instance_group": "more"}, "ray.head.instance_group", "an accelerated type", {f"{GROUPS}/2": CPU_GROUP, "ray/head/instance_group": "cpu"}),
    Case("head_is_off_accelerators", {f"{HEAD}/capacity": "spot"}, "ray.head.instance_group", "is spot capacity", {f"{HEAD}/capacity": "on-demand"}, "warning"),
    Case("head_has_a_second_node", {f"{HEAD}/count": 1}, "hyperpod.instance_groups[0].count", "Fix: set count: 2", {f"{HEAD}/count": 2}, "warning"),
    Case("one_store_keeps_the_state", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head"}}, "ray.gcs_fault_tolerance", "has no store", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST}}),
    Case("one_store_keeps_the_state", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST, "redis_address": "redis:6379"}}, "ray.gcs_fault_tolerance.redis_address", "exclude each other", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_address": "redis:6379"}}),
    Case("one_store_keeps_the_state", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_address": "redis:65536"}}, "ray.gcs_fault_tolerance.redis_address", "no port between", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_address": "redis:65535"}}),
    Case("driver_is_off_the_head", {"ray/gcs_fault_tolerance": {"driver_instance_group": "workers", "redis_image": DIGEST}, f"{WORKERS}/count": 5}, "ray.gcs_fault_tolerance.driver_instance_group", "a group of a CPU type for the driver", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST}}),
    Case("driver_is_off_the_head", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST}, f"{HEAD}/count": 1}, "ray.gcs_fault_tolerance.driver_instance_group", "a second node for the driver", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST}}, beside=("hyperpod.instance_groups[0].count",)),
    Case("workers_share_a_zone", {f"{GROUPS}/2": {**MORE_P5, "availability_zone_id": "usw2-az2"}, "ray/workers/1": worker(instance_group="more")}, "ray.workers[1].instance_group", "EFA does not cross zones", {f"{GROUPS}/2": MORE_P5, "ray/workers/1": worker(instance_group="more")}, "warning"),
    Case("one_architecture", {f"{HEAD}/type": "ml.m7g.2xlarge", f"{HEAD}/threads_per_core": 1, **OWN_IMAGE}, "ray.workers[0].instance_group", "head and workers share one image", {f"{HEAD}/type": "ml.m7i.2xlarge"}),
    Case("workers_have_one_kind_of_accelerator", {f"{GROUPS}/2": {**MORE_P5, "type": "ml.trn1.32xlarge"}, "ray/workers/1": worker(instance_group="more"), **OWN_IMAGE}, "ray.workers[1].instance_group", "which no one image serves", {f"{GROUPS}/2": {**MORE_P5, "type": "ml.p5en.48xlarge"}, "ray/workers/1": worker(instance_group="more")}),
    Case("nodes_scale_too", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST}, "hyperpod.managed_autoscaling", "none are asked for", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, "warning"),
    Case("hosts_are_addresses", {"ray/observability": {"grafana_host": "grafana:3000", "prometheus_host": "http://p:9090"}}, "ray.observability.grafana_host", "Expected http:// or https:// in front", {"ray/observability": {"grafana_host": "http://grafana:3000", "prometheus_host": "http://p:9090"}}),
    Case("hosts_are_addresses", {"ray/observability": {"grafana_host": "http://1.2.3.4:99999", "prometheus_host": "http://p:9090"}}, "ray.observability.grafana_host", "Expected a port from 1 to 65535", {"ray/observability": {"grafana_host": "http://1.2.3.4:9999", "prometheus_host": "http://p:9090"}}),
    Case("hosts_are_addresses", {"ray/observability": {"grafana_host": "http://g:0", "prometheus_host": "http://p:9090"}}, "ray.observability.grafana_host", "Expected a port from 1 to 65535", {"ray/observability": {"grafana_host": "http://g:1", "prometheus_host": "http://p:9090"}}),
    Case("hosts_are_addresses", {"ray/observability": {"grafana_host": "http://g:80", "prometheus_host": "https://:9090"}}, "ray.observability.prometheus_host", "Expected the name of a host", {"ray/observability": {"grafana_host": "http://g:80", "prometheus_host": "https://p:9090"}}),
    Case("observability_says_something", {"ray/observability": {}}, "ray.observability", "has no effect without a value", {"ray/observability": {"scrape_namespaces": ["hyperpod-observability"]}}),
    Case("observability_says_something", {"ray/observability": {"grafana_host": "http://g:80"}}, "ray.observability", "Expected both, or neither", {"ray/observability": {"grafana_host": "http://g:80", "prometheus_host": "http://p:9090"}}),
    Case("observability_says_something", {"ray/observability": {"prometheus_host": "http://p:80"}}, "ray.observability", "Expected both, or neither", {"ray/observability": {"grafana_host": "http://g:80", "prometheus_host": "http://p:9090"}}),
    Case("observability_says_something", {"ray/observability": {"grafana_iframe_host": "http://g:80", "scrape_namespaces": ["x"]}}, "ray.observability", "Expected both, or neither", {"ray/observability": {"grafana_iframe_host": "http://g:80", "grafana_host": "http://g:80", "prometheus_host": "http://p:9090"}}),
    Case("one_store_keeps_the_state", {REDIS: {"driver_instance_group": "head", "redis_address": "rediss://redis:6379", "redis_username": "ray"}}, "ray.gcs_fault_tolerance.redis_username", "a user without redis_password_secret", {REDIS: {"driver_instance_group": "head", "redis_address": "rediss://redis:6379", "redis_username": "ray", "redis_password_secret": "auth"}}),
    Case("one_store_keeps_the_state", {REDIS: {"driver_instance_group": "head", "redis_image": DIGEST, "redis_username": "ray", "redis_password_secret": "auth"}}, "ray.gcs_fault_tolerance.redis_username", "is of an existing Redis", {REDIS: {"driver_instance_group": "head", "redis_image": DIGEST}}, beside=("ray.gcs_fault_tolerance.redis_password_secret",)),
    Case("one_store_keeps_the_state", {REDIS: {"driver_instance_group": "head", "redis_image": DIGEST, "redis_password_secret": "auth"}}, "ray.gcs_fault_tolerance.redis_password_secret", "is of an existing Redis", {REDIS: {"driver_instance_group": "head", "redis_image": DIGEST}}),
    Case("one_store_keeps_the_state", {REDIS: {"driver_instance_group": "head", "redis_address": "redis:6379", "redis_password_secret": "auth"}}, "ray.gcs_fault_tolerance.redis_password_secret", "in plain text", {REDIS: {"driver_instance_group": "head", "redis_address": "rediss://redis:6379", "redis_password_secret": "auth"}}, "warning"),
    Case("replicas_have_effect", {f"{WORKER}/min_replicas": 1}, "ray.workers[0].min_replicas", "has no effect without ray.autoscaling", {f"{WORKER}/min_replicas": 4}, "warning"),
    Case("one_store_keeps_the_state", {REDIS: {"driver_instance_group": "head", "redis_address": "localhost:6379"}}, "ray.gcs_fault_tolerance.redis_address", "is the head's own pod", {REDIS: {"driver_instance_group": "head", "redis_address": "localhost.example.com:6379"}}),
    Case("one_store_keeps_the_state", {REDIS: {"driver_instance_group": "head", "redis_image": DIGEST, "volume_gib": 8}}, "ray.gcs_fault_tolerance.volume_gib", "redis_image and volume_gib exclude each other", {REDIS: {"driver_instance_group": "head", "volume_gib": 8}}),
    Case("one_store_keeps_the_state", {REDIS: {"driver_instance_group": "head", "redis_password_secret": "auth", "volume_gib": 8}}, "ray.gcs_fault_tolerance.redis_password_secret", "is of an existing Redis", {REDIS: {"driver_instance_group": "head", "volume_gib": 8}}),
    Case("embedded_store_is_known", {REDIS: {"driver_instance_group": "head", "volume_gib": 8}, "helm/kuberay_operator": "1.6.2"}, "helm.kuberay_operator", "has no embedded store", {REDIS: {"driver_instance_group": "head", "volume_gib": 8}, "helm/kuberay_operator": "1.7.0"}, beside=("helm.kuberay_operator",)),
    Case("embedded_store_is_known", {REDIS: {"driver_instance_group": "head", "volume_gib": 8}, "ray/version": "2.56.1", **OWN_IMAGE}, "ray.version", "Expected 2.57.0 or newer", {REDIS: {"driver_instance_group": "head", "volume_gib": 8}, "ray/version": "2.57.0", **OWN_IMAGE}),
    Case("no_team_has_a_volume_of_a_head", {REDIS: {"driver_instance_group": "head", "volume_gib": 8}, **teams(team())}, "ray.gcs_fault_tolerance.volume_gib", "may mount its own folders alone", {REDIS: {"driver_instance_group": "head", "redis_image": DIGEST}, **teams(team())}),
    Case("head_is_large_enough", {"ray/head/memory_gib": 3}, "ray.head.memory_gib", "too little for Ray's head", {"ray/head/memory_gib": 4}, "warning"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
