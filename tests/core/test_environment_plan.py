"""Figures that follow from the settings: reserve of the node, pods, subnets, names."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER, environment_names, load
from hyperpod_ray.core.model import Environment, RayWorkerGroup
from hyperpod_ray.core.plan import DAEMON_SET_CPU_MILLIS, DAEMON_SET_MEMORY_MIB, Allocatable, Plan, PodResources
from tests.core.environment_files import plan


def only_worker(plan: Plan) -> RayWorkerGroup:
    (worker,) = plan.settings.ray.workers
    return worker


def test_a_p5_worker_gets_the_node() -> None:
    one = plan()
    assert one.worker_resources(only_worker(one)) == PodResources(
        cpu=94, memory_gib=1892, gpus=8, gpu_resource="nvidia.com/gpu", efa=32, shared_memory_gib=473
    )


def test_the_reserve_is_the_kubelets_the_daemon_sets_and_the_machines() -> None:
    """By hand, for an ml.m5.2xlarge with two threads per core."""
    one = plan()
    kubelet_cpu = 60 + 10 + 5 + 5 + 4 * 2.5
    kubelet_memory = 255 + 11 * 14 + 100
    assert one.allocatable(one.group("head")) == Allocatable(
        cpu=int((8000 - kubelet_cpu - DAEMON_SET_CPU_MILLIS) // 1000),
        memory_gib=int((32 * 1024 * 0.925 - kubelet_memory - DAEMON_SET_MEMORY_MIB) // 1024),
        gpus=0,
        efa=0,
        pods=14 - 5,
    )


@pytest.mark.parametrize(("threads", "vcpus"), [(1, 96), (2, 192)])
def test_threads_per_core_halve_the_vcpus(threads: int, vcpus: int) -> None:
    one = plan({"hyperpod/instance_groups/1/threads_per_core": threads})
    assert one.vcpus(one.group("workers")) == vcpus


def test_cores_with_one_thread_are_not_halved() -> None:
    group = {"name": "arm", "type": "ml.m7g.2xlarge", "count": 1}
    one = plan({"hyperpod/instance_groups/2": group})
    assert one.vcpus(one.group("arm")) == 8


def test_half_the_gpus_take_half_the_node() -> None:
    one = plan({"ray/workers/0/gpus": 4, "ray/workers/0/replicas": 8})
    pod = one.worker_resources(only_worker(one))
    assert (pod.gpus, pod.efa, pod.cpu, pod.memory_gib) == (4, 16, 47, 946)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"gpus": 0}, (0, 0, 94, 1892)),
        ({"gpus": 1, "efa": 32}, (1, 32, 11, 236)),
        ({"cpu": 7, "memory_gib": 9}, (8, 32, 7, 9)),
    ],
)
def test_what_is_set_wins(settings: dict[str, Any], expected: tuple[int, ...]) -> None:
    one = plan({f"ray/workers/0/{key}": value for key, value in settings.items()})
    pod = one.worker_resources(only_worker(one))
    assert (pod.gpus, pod.efa, pod.cpu, pod.memory_gib) == expected


def test_checkpoints_in_memory_take_their_share() -> None:
    without, with_share = plan(), plan({"hyperpod/tiered_storage": {"memory_percent": 20}})
    group = with_share.group("workers")
    lost = without.allocatable(without.group("workers")).memory_gib - with_share.allocatable(group).memory_gib
    assert lost == pytest.approx(0.2 * 2048, abs=1)


def test_neuron_devices_have_their_own_resource() -> None:
    one = plan(
        {"hyperpod/instance_groups/1/type": "ml.trn1.32xlarge", "image/uri": f"example.com/neuron@sha256:{'0' * 64}"}
    )
    pod = one.worker_resources(only_worker(one))
    assert (pod.gpu_resource, pod.gpus, pod.efa) == ("aws.amazon.com/neuron", 16, 8)


@pytest.mark.parametrize(
    ("edits", "checks"),
    [
        ({}, ["InstanceStress", "InstanceConnectivity"]),
        ({"hyperpod/instance_groups/1/count": 1, "ray/workers/0/replicas": 1}, ["InstanceStress"]),
        ({"hyperpod/instance_groups/1/deep_health_checks": []}, []),
    ],
)
def test_deep_health_checks_by_default(edits: dict[str, Any], checks: list[str]) -> None:
    one = plan(edits)
    assert one.deep_health_checks(one.group("workers")) == checks
    assert one.deep_health_checks(one.group("head")) == []


def test_zones() -> None:
    one = plan({"hyperpod/instance_groups/0/availability_zone_id": "usw2-az2"})
    assert one.node_zones == ["usw2-az1", "usw2-az2"]
    assert one.storage_zone == "usw2-az1"
    assert one.node_addresses("usw2-az1") == 4 * 81
    assert one.node_addresses("usw2-az2") == 2 * 15


@pytest.mark.parametrize("egress", ["nat", "closed"])
@pytest.mark.parametrize("prefix", [16, 17, 18, 19, 20])
@pytest.mark.parametrize("zones", [2, 3, 4])
def test_the_default_subnets_fit_every_vpc(prefix: int, zones: int, egress: str) -> None:
    one = plan(
        {
            "network/cidr": f"10.0.0.0/{prefix}",
            "network/egress": egress,
            "registries": {"mirror": egress == "closed"},
            "network/availability_zone_ids": [f"usw2-az{zone + 1}" for zone in range(zones)],
        }
    )
    assert one.new_network is not None
    vpc = ipaddress.IPv4Network(one.new_network.cidr)
    assert one.vpc_addresses_needed <= vpc.num_addresses
    # laid out as the VPC is: node subnets first, then the small ones
    at = int(vpc.network_address)
    slots = one.new_network.zone_slots if one.new_network else 0
    for length in [one.node_subnet_prefix] * slots + [27] * slots * (2 if egress == "nat" else 1):
        subnet = ipaddress.IPv4Network((at, length))  # raises when it is not aligned
        assert subnet.subnet_of(vpc)
        at = int(subnet.broadcast_address) + 1


def test_scaling_a_group_moves_no_subnet() -> None:
    assert plan({"hyperpod/instance_groups/1/count": 40}).node_subnet_prefix == plan().node_subnet_prefix


@pytest.mark.parametrize("name", environment_names())
def test_shipped_environments_plan(name: str) -> None:
    one = load(name).plan
    # the sections are validated one by one, the whole is not: it is what it would be
    written = one.settings.model_dump()
    assert Environment.model_validate(written) == one.settings
    data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    assert all(written[key] == value for key, value in data.items() if isinstance(value, str) or key == "tags")
    for worker in one.settings.ray.workers:
        pod = one.worker_resources(worker)
        room = one.allocatable(one.group(worker.instance_group))
        assert (pod.gpus, pod.efa, pod.cpu, pod.memory_gib) == (room.gpus, room.efa, room.cpu, room.memory_gib)


def test_a_scaled_group_has_the_nodes_of_the_largest_cluster() -> None:
    """Two pods of a node's GPUs each: max_replicas 5 is three nodes; with a second worker group one more."""
    burst = {"name": "burst", "type": "ml.p5.48xlarge", "count": 0}
    workers = {
        "ray/workers/1": {"name": "half", "instance_group": "burst", "replicas": 0, "max_replicas": 5, "gpus": 4},
        "ray/workers/2": {"name": "whole", "instance_group": "burst", "replicas": 1},
    }
    edits = {"hyperpod/managed_autoscaling": True, "ray/autoscaling": True, "hyperpod/instance_groups/2": burst}
    one = plan({**edits, **workers})
    assert one.most_nodes(one.group("burst")) == 4
    assert one.most_nodes(one.group("workers")) == one.group("workers").count
    assert one.node_addresses("usw2-az1") == plan({}).node_addresses("usw2-az1") + 4 * 81
