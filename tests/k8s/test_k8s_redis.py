from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan, names
from tests.k8s.k8s_ray_cluster_helpers import env_of

Render = Callable[[str], Any]


def test_fault_tolerance_puts_the_driver_off_the_heads_node(render: Render) -> None:
    variant = render("fault-tolerant")
    # no externalStorageNamespace: the operator takes the RayCluster's UID, which no other cluster has
    assert variant.cluster["gcsFaultToleranceOptions"] == {"redisAddress": "ray-redis:6379"}
    driver = variant.group("driver")
    assert driver["rayStartParams"]["num-cpus"] == "0"
    assert json.loads(json.loads(driver["rayStartParams"]["resources"])) == {"driver": 1}
    (rule,) = driver["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert rule["labelSelector"]["matchLabels"]["ray.io/node-type"] == "head"
    deployments = {found["metadata"]["name"]: found for found in variant.kind("Deployment")}
    assert set(deployments) == {names.GUARD, "ray-redis"}
    assert deployments["ray-redis"]["spec"]["replicas"] == 1
    assert variant.one("Service")["spec"]["type"] == "ClusterIP"
    outside = render("fault-tolerant-outside")
    assert outside.cluster["gcsFaultToleranceOptions"]["redisAddress"] == "cache.example.com:6380"
    assert [found["metadata"]["name"] for found in outside.kind("Deployment")] == [names.GUARD]
    assert [group["groupName"] for group in render("prod").cluster["workerGroupSpecs"]] == ["gpu"]


def test_redis_and_the_driver_are_on_nodes_of_the_drivers_group(
    plan_with: Callable[..., Plan], bindings: k8s.Bindings
) -> None:
    """Off the head's group: what keeps the head's state must outlive the head's node."""
    image = f"redis@sha256:{'0' * 64}"
    groups = [
        {"name": "head", "type": "ml.m5.2xlarge", "count": 1},
        {"name": "keeper", "type": "ml.m5.2xlarge", "count": 1, "taints": [{"key": "keeper", "effect": "NoSchedule"}]},
        {"name": "workers", "type": "ml.g5.8xlarge", "count": 2},
    ]
    tolerance = {"driver_instance_group": "keeper", "redis_image": image}
    plan = plan_with("local", hyperpod={"instance_groups": groups}, ray={"gcs_fault_tolerance": tolerance})
    objects = {manifest["kind"]: manifest for chart in k8s.ray_manifests(plan, bindings) for manifest in chart.objects}
    *_, driver = objects["RayCluster"]["spec"]["workerGroupSpecs"]
    for pod in (objects["Deployment"]["spec"]["template"]["spec"], driver["template"]["spec"]):
        assert pod["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": "keeper"}
        assert {"key": "keeper", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]


def test_a_redis_with_tls_and_password(plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
    tolerance = {
        "driver_instance_group": "head",
        "redis_address": "rediss://cache.example.com:6390",
        "redis_username": "ray",
        "redis_password_secret": "redis-auth",
    }
    plan = plan_with("prod", ray={"gcs_fault_tolerance": tolerance})
    spec = k8s.ray_manifests(plan, bindings)[-1].objects[0]["spec"]
    assert spec["gcsFaultToleranceOptions"] == {
        "redisAddress": "rediss://cache.example.com:6390",
        "redisUsername": {"value": "ray"},
        "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis-auth", "key": "password"}}},
    }
    head = env_of(spec["headGroupSpec"]["template"]["spec"])
    assert head["RAY_REDIS_CA_PATH"] == "/etc/ssl/certs"
    assert not {"REDIS_PASSWORD", "REDIS_USERNAME", "RAY_REDIS_ADDRESS"} & set(head), "KubeRay sets them"
    made = [item for manifest in k8s.namespace_manifests(plan) for item in manifest.objects]
    (policy,) = [item["spec"] for item in made if item["metadata"]["name"] == "redis-clients"]
    assert policy["egress"][0]["ports"] == [{"port": 6390, "protocol": "TCP"}]
    plain = {**tolerance, "redis_address": "redis://cache.example.com:6390"}
    spec = k8s.ray_manifests(plan_with("prod", ray={"gcs_fault_tolerance": plain}), bindings)[-1].objects[0]["spec"]
    assert "RAY_REDIS_CA_PATH" not in env_of(spec["headGroupSpec"]["template"]["spec"])
