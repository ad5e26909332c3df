"""From a manifest to processes: the mapping, the scaling rule and the messages. No Ray."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hyperpod_ray_sandbox.rehearsal.ray_hosts import manifest as m
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.scale import scale

HERE = Path(__file__).parent


@pytest.fixture
def raycluster() -> dict[str, Any]:
    return copy.deepcopy(dict(m.load(HERE / "raycluster.yaml")))


def driver_group() -> dict[str, Any]:
    container = {"name": "ray-worker", "resources": {"limits": {"cpu": "2"}}}
    return {
        "groupName": "driver",
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "rayStartParams": {"num-cpus": "0", "resources": json.dumps(json.dumps({"driver": 1}))},
        "template": {"spec": {"containers": [container]}},
    }


def test_the_head_and_four_gpu_workers_become_a_head_and_two_cpu_workers(raycluster: dict[str, Any]) -> None:
    plan = m.plan(raycluster)
    assert (plan.head.pods, plan.head.cpus) == (1, 0)
    (gpu,) = plan.workers
    assert (gpu.group, gpu.wanted, gpu.pods, gpu.cpus) == ("gpu", 4, 2, 1)
    assert {"--num-cpus=1", "--num-gpus=0"} <= set(gpu.flags())
    assert "--num-cpus=0" in plan.head.flags()
    assert plan.token_auth
    assert plan.training_pods == 2
    assert plan.driver_resource is None
    assert plan.fault_tolerance is None


def test_the_environment_and_grace_period_of_the_manifest_are_kept(raycluster: dict[str, Any]) -> None:
    plan = m.plan(raycluster)
    assert plan.head.env["RAY_health_check_period_ms"] == "1000"
    assert plan.head.env["POD_IP"] == "{ip}", "filled in with the pod's address when it starts"
    assert plan.workers[0].env == {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "90"}
    assert plan.workers[0].grace_seconds == 120


def test_what_this_machine_leaves_out_is_told(raycluster: dict[str, Any]) -> None:
    told = "\n".join(m.plan(raycluster).not_honoured)
    for word in (
        "8 × nvidia.com/gpu",
        "32 × vpc.amazonaws.com/efa",
        "/fsx",
        "image registry.example/ray",
        "nodeSelector",
    ):
        assert word in told


def test_the_seed_manifest_s_addresses_never_reach_ray_start(raycluster: dict[str, Any]) -> None:
    flags = " ".join(m.plan(raycluster).head.flags())
    assert "0.0.0.0" not in flags  # noqa: S104
    raycluster["spec"]["headGroupSpec"]["rayStartParams"]["log-color"] = "false"
    assert "--log-color=false" in m.plan(raycluster).head.flags(), "what is no place and no size is handed on"


@pytest.mark.parametrize("resources", ['{"driver": 1}', '"{\\"driver\\": 1}"', '\'"{\\"driver\\": 1}"\''])
def test_custom_resources_in_each_spelling_kuberay_users_write(resources: str) -> None:
    assert m.custom_resources({"resources": resources}, {}, "x") == {"driver": 1.0}


def test_a_group_without_cpus_carries_the_driver(raycluster: dict[str, Any]) -> None:
    raycluster["spec"]["workerGroupSpecs"].append(driver_group())
    raycluster["spec"]["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    plan = m.plan(raycluster)
    assert plan.driver_resource == "driver"
    assert plan.training_pods == 2, "nothing trains where the driver is"
    assert plan.workers[1].cpus == 0
    assert '--resources={"driver": 1.0}' in plan.workers[1].flags()
    assert plan.fault_tolerance == "redis"


def test_a_volume_of_the_heads_state_is_rays_embedded_store(raycluster: dict[str, Any]) -> None:
    raycluster["spec"]["gcsFaultToleranceOptions"] = {"backend": "rocksdb", "storage": {"size": "8Gi"}}
    assert m.plan(raycluster).fault_tolerance == "rocksdb"


def test_group_resources_win_over_start_params() -> None:
    got = m.custom_resources({"resources": '{"old": 1}'}, {"resources": {"CPU": "4", "driver": "2"}}, "x")
    assert got == {"driver": 2.0}


def change(raycluster: dict[str, Any], what: str) -> None:
    spec = raycluster["spec"]
    container = spec["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    match what:
        case "kind":
            raycluster["kind"] = "RayJob"
        case "version":
            raycluster["apiVersion"] = "ray.io/v1alpha1"
        case "no worker":
            spec["workerGroupSpecs"][0]["replicas"] = 0
        case "no container":
            container.clear()
        case "resources":
            spec["workerGroupSpecs"][0]["rayStartParams"]["resources"] = "driver=1"
        case "cpus":
            spec["headGroupSpec"]["rayStartParams"]["num-cpus"] = "many"
        case "pre-stop":
            container[0]["lifecycle"] = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}}
        case "no head":
            del spec["headGroupSpec"]


@pytest.mark.parametrize(
    ("what", "part"),
    [
        ("kind", "kind: 'RayJob'. Expected RayCluster"),
        ("version", "apiVersion: 'ray.io/v1alpha1'. Expected ray.io/v1"),
        ("no worker", "Expected a group with a pod that can train"),
        ("no container", "spec.workerGroupSpecs[0].template.spec.containers"),
        ("resources", "spec.workerGroupSpecs[0].rayStartParams.resources: 'driver=1'"),
        ("cpus", "spec.headGroupSpec.rayStartParams.num-cpus"),
        ("pre-stop", "preStop: `ray stop`. Expected none: it ends training"),
        ("no head", "spec.headGroupSpec: None. Expected a mapping"),
    ],
)
def test_a_wrong_manifest_is_refused_with_its_path(raycluster: dict[str, Any], what: str, part: str) -> None:
    change(raycluster, what)
    with pytest.raises(LocalError) as caught:
        m.plan(raycluster)
    assert part in str(caught.value)
    assert caught.value.code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "kind: [", "kind: Pod\n"])
def test_a_file_without_a_raycluster_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(LocalError, match=r"x\.yaml"):
        m.load(path)


def test_the_raycluster_is_found_among_other_documents(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("kind: Namespace\n---\n" + (HERE / "raycluster.yaml").read_text())
    assert m.load(path)["metadata"]["name"] == "rehearsal"
    assert next(iter(yaml.safe_load_all(path.read_text())))["kind"] == "Namespace"


@given(
    replicas=st.integers(0, 10_000),
    hosts=st.integers(1, 64),
    cpus=st.floats(0, 512),
    gpus=st.floats(0, 64),
    most=st.integers(1, 8),
)
def test_the_rule(replicas: int, hosts: int, cpus: float, gpus: float, most: int) -> None:
    small = scale(replicas=replicas, hosts=hosts, cpus=cpus, gpus=gpus, max_pods=most)
    assert small.pods <= most
    assert small.pods <= replicas * hosts
    assert small.pods == replicas * hosts or small.pods == most
    assert small.cpus == (1 if cpus or gpus else 0)
